//! Functions of files whose calls are recorded by probes.

use agent_common::probe_argument::ProbeArgument;
use goblin::elf::header::EM_AARCH64;
use tracing::debug;

use super::{
    elf::{Elf, Error, Source},
    jumps, probe_arguments,
};

/// `endbr64` and `bti c`, with which functions begin that may be called indirectly.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const BTI_C: [u8; 4] = 0xd503_245f_u32.to_le_bytes();

/// The functions with which programs ask for memory, by their names in the C library.
const ALLOCATING: [(&str, ProbedFunction); 10] = [
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
    ("mmap64", ProbedFunction::Mmap),
];

/// The same of C++, `new` and `new[]`, which allocators replace too: those of its library call `malloc`. Their first
/// argument is that of `malloc`.
const OPERATORS: [(&str, ProbedFunction); 4] = [
    ("_Znwm", ProbedFunction::Malloc),
    ("_Znam", ProbedFunction::Malloc),
    ("_ZnwmRKSt9nothrow_t", ProbedFunction::Malloc),
    ("_ZnamRKSt9nothrow_t", ProbedFunction::Malloc),
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
    /// The USDT probe `otel_memory:alloc(user, size, weighted_bytes)`
    Announced,
}

/// The place of a function in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePoint {
    /// The function.
    pub function: ProbedFunction,
    /// Its first instruction that does something, in bytes from the start of the file.
    pub offset: u64,
    /// What a USDT probe has besides.
    pub announced: Option<Announced>,
}

/// What is known of a USDT probe besides its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Where the program counts those who look at it, in bytes from the start of the file.
    pub semaphore: Option<u32>,
    /// Where its arguments are, as [`ProbeArgument::pack`] says.
    pub arguments: u64,
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
        let skipped = skipped(elf.machine(), &first);
        let offset = elf
            .segments()
            .file_offset(address.wrapping_add(skipped as u64), 1);
        Ok(offset.map(|offset| Self {
            function,
            offset,
            announced: None,
        }))
    }
}

/// Bytes at the start of a function that do nothing.
fn skipped(machine: u16, code: &[u8]) -> usize {
    let mark = if machine == EM_AARCH64 {
        BTI_C
    } else {
        ENDBR64
    };
    if code.starts_with(&mark) {
        mark.len()
    } else {
        0
    }
}

/// Whether a file with this name is an allocator that replaces the C library's.
#[must_use]
pub fn is_allocator(name: &str) -> bool {
    ALLOCATORS.iter().any(|it| name.starts_with(it))
}

/// The functions of a file, named `name`, with which programs ask for memory; none where it is no allocator.
///
/// # Errors
///
/// When a table of the file cannot be read.
pub fn allocating<S: Source>(elf: &Elf<S>, name: &str) -> Result<Vec<ProbePoint>, Error> {
    let is_c_library = C_LIBRARIES.iter().any(|it| name.starts_with(it));
    let mut points: Vec<ProbePoint> = Vec::new();
    if !is_c_library && !is_allocator(name) {
        return Ok(points);
    }
    let is_musl = is_c_library && elf.exported_symbol(GLIBC_FUNCTION)?.is_none();
    let operators = OPERATORS.iter().filter(|_| !is_c_library);
    let mut functions = Vec::new();
    for (name, function) in ALLOCATING.iter().chain(operators) {
        // Those of musl call its `malloc`.
        if is_musl && *function != ProbedFunction::Malloc {
            continue;
        }
        if let Some(symbol) = elf.exported_symbol(name)? {
            functions.push((*function, symbol.address));
        }
    }
    for (function, address) in &functions {
        // One that is another one counts once.
        let is_other = |target: u64| functions.iter().any(|(_, address)| *address == target);
        if first_jump(elf, *address)?.is_some_and(is_other) {
            continue;
        }
        let point = ProbePoint::at(elf, *function, *address)?;
        // Two names may be one function.
        let is_known = |point: &ProbePoint| points.iter().any(|it| it.offset == point.offset);
        points.extend(point.filter(|point| !is_known(point)));
    }
    Ok(points)
}

/// Where a file announces the allocations that it samples; none where it does not, or its arguments are not understood.
///
/// # Errors
///
/// When the notes of the file cannot be read.
pub fn announced<S: Source>(elf: &Elf<S>) -> Result<Vec<ProbePoint>, Error> {
    let probes = elf.usdt_probes("otel_memory", "alloc")?;
    let points = probes.into_iter().filter_map(|probe| {
        let arguments = probe_arguments::parse(elf.machine(), &probe.arguments);
        let [_, Some(size), Some(weight)] = *arguments else {
            debug!(
                "the arguments of a USDT probe are not understood: {}",
                probe.arguments
            );
            return None;
        };
        Some(ProbePoint {
            function: ProbedFunction::Announced,
            offset: probe.offset,
            announced: Some(Announced {
                semaphore: probe.semaphore,
                arguments: ProbeArgument::pack(size, weight),
            }),
        })
    });
    Ok(points.collect())
}

/// Where the first instruction of a function that does something jumps to, if it does.
fn first_jump<S: Source>(elf: &Elf<S>, address: u64) -> Result<Option<u64>, Error> {
    /// Bytes of a direct jump at most.
    const JUMP: usize = 5;
    let mut code = [0; ENDBR64.len() + JUMP];
    if !elf.initial_bytes(address, &mut code)? {
        return Ok(None);
    }
    let skipped = skipped(elf.machine(), &code);
    let mut target = None;
    let first = &code[skipped..][..JUMP];
    let is_jump = |place: u64| target = target.or(Some(place));
    jumps::targets(
        elf.machine(),
        address.wrapping_add(skipped as u64),
        first,
        is_jump,
    );
    Ok(target)
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
