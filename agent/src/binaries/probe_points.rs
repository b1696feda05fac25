//! Functions of files whose calls are recorded by probes.

use super::elf::{Elf, Error, Source};

/// `endbr64`, with which functions begin that may be called indirectly.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// The functions with which programs ask for memory, by their names in the C library.
const ALLOCATING: [(&str, ProbedFunction); 9] = [
    ("malloc", ProbedFunction::Malloc),
    ("calloc", ProbedFunction::Calloc),
    ("realloc", ProbedFunction::Realloc),
    ("aligned_alloc", ProbedFunction::AlignedAlloc),
    ("memalign", ProbedFunction::AlignedAlloc),
    ("posix_memalign", ProbedFunction::PosixMemalign),
    // Their only argument is that of `malloc`.
    ("valloc", ProbedFunction::Malloc),
    ("pvalloc", ProbedFunction::Malloc),
    ("mmap", ProbedFunction::Mmap),
];

/// What the name of a C library begins with.
const C_LIBRARIES: [&str; 4] = ["libc.so", "libc-2.", "libc.musl-", "ld-musl-"];

/// What the name of an allocator begins with that replaces the C library's.
const ALLOCATORS: [&str; 3] = ["libjemalloc", "libtcmalloc", "libmimalloc"];

/// Only glibc has this function.
const GLIBC_FUNCTION: &str = "gnu_get_libc_version";

/// A function whose calls are recorded, by what its arguments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbedFunction {
    /// The one that CPython calls for each frame that an exception leaves.
    Traceback,
    /// `malloc(bytes)`
    Malloc,
    /// `calloc(count, bytes)`
    Calloc,
    /// `realloc(old, bytes)`
    Realloc,
    /// `aligned_alloc(alignment, bytes)`
    AlignedAlloc,
    /// `posix_memalign(result, alignment, bytes)`
    PosixMemalign,
    /// `mmap(address, bytes, protection, flags, …)`
    Mmap,
}

/// The place of a function in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePoint {
    /// The function.
    pub function: ProbedFunction,
    /// Its first instruction that does something, in bytes from the start of the file.
    pub offset: u64,
}

impl ProbePoint {
    /// The place of the function at `address`, if the file has its code.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn at<S: Source>(
        elf: &Elf<S>,
        function: ProbedFunction,
        address: u64,
    ) -> Result<Option<Self>, Error> {
        let mut first = [0; ENDBR64.len()];
        if !elf.initial_bytes(address, &mut first)? {
            return Ok(None);
        }
        // The kernel emulates a `push` for a probe, and has to run an `endbr64` elsewhere.
        let skipped = if first == ENDBR64 { ENDBR64.len() } else { 0 };
        let offset = elf
            .segments()
            .file_offset(address.wrapping_add(skipped as u64), 1);
        Ok(offset.map(|offset| Self { function, offset }))
    }
}

/// The functions of a file, named `name`, with which programs ask for memory; none where it is no allocator.
///
/// # Errors
///
/// When a table of the file cannot be read.
pub fn allocating<S: Source>(elf: &Elf<S>, name: &str) -> Result<Vec<ProbePoint>, Error> {
    let is_of = |names: &[&str]| names.iter().any(|it| name.starts_with(it));
    let is_c_library = is_of(&C_LIBRARIES);
    let mut points: Vec<ProbePoint> = Vec::new();
    if !is_c_library && !is_of(&ALLOCATORS) {
        return Ok(points);
    }
    let is_musl = is_c_library && elf.exported_symbol(GLIBC_FUNCTION)?.is_none();
    for (name, function) in ALLOCATING {
        // Those of musl call its `malloc`.
        if is_musl && function != ProbedFunction::Malloc {
            continue;
        }
        let Some(symbol) = elf.exported_symbol(name)? else {
            continue;
        };
        let point = ProbePoint::at(elf, function, symbol.address)?;
        // Two names may be one function.
        let is_known = |point: &ProbePoint| points.iter().any(|it| it.offset == point.offset);
        points.extend(point.filter(|point| !is_known(point)));
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn the_functions_of_the_c_library_are_found() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("own mappings");
        let mut paths = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5));
        let path = paths
            .find(|path| path.contains("/libc.so.6"))
            .expect("the C library");
        let elf = Elf::read(File::open(path).expect("the C library")).expect("an ELF file");
        let points = allocating(&elf, "libc.so.6").expect("its functions");
        for function in [
            ProbedFunction::Malloc,
            ProbedFunction::Calloc,
            ProbedFunction::Realloc,
            ProbedFunction::AlignedAlloc,
            ProbedFunction::PosixMemalign,
            ProbedFunction::Mmap,
        ] {
            assert!(
                points.iter().any(|point| point.function == function),
                "{function:?}"
            );
        }
        assert!(allocating(&elf, "libm.so.6").expect("none").is_empty());
    }
}
