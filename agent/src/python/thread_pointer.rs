//! Distance between the thread pointer and `pthread_self()`.
//!
//! A thread state contains the `pthread_self()` of its thread: the address of the C library's
//! thread descriptor. The kernel has the thread pointer. On x86-64 both are equal. On aarch64 the
//! descriptor ends at the thread pointer, so the distance is its size: glibc exports it for
//! debuggers as `_thread_db_sizeof_pthread`; musl's has been the same since 1.2.

use goblin::elf::header::EM_AARCH64;

use crate::binaries::elf::{Elf, Error, Source};

/// The distance on aarch64 with musl 1.2.
const MUSL_AARCH64: u64 = 200;

/// Largest plausible size; glibc's are about 2,300 bytes.
const MAX_DESCRIPTOR: u32 = 1 << 16;

/// The size of glibc's thread descriptor in bytes, if `elf` is the library that exports it:
/// `libc.so.6`, or `libpthread.so.0` before glibc 2.34.
///
/// # Errors
///
/// When a required part of the file cannot be read.
pub(super) fn descriptor_bytes<S: Source>(elf: &Elf<S>) -> Result<Option<u64>, Error> {
    let Some(symbol) = elf.exported_symbol("_thread_db_sizeof_pthread")? else {
        return Ok(None);
    };
    let mut bytes = [0; 4];
    if !elf.initial_bytes(symbol.address, &mut bytes)? {
        return Ok(None);
    }
    let bytes = u32::from_le_bytes(bytes);
    Ok((1..=MAX_DESCRIPTOR)
        .contains(&bytes)
        .then_some(bytes.into()))
}

/// Bytes to subtract from the thread pointer to get `pthread_self()`, by the ELF machine of the
/// program and the descriptor size of its C library.
pub(super) fn distance(machine: u16, descriptor_bytes: Option<u64>) -> u64 {
    if machine == EM_AARCH64 {
        descriptor_bytes.unwrap_or(MUSL_AARCH64)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::{MUSL_AARCH64, descriptor_bytes, distance};
    use crate::binaries::elf::Elf;
    use goblin::elf::header::{EM_AARCH64, EM_X86_64};
    use std::fs::{self, File};

    #[test]
    fn glibc_exports_the_size() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5));
        let library = path
            .into_iter()
            .find(|path| path.contains("/libc.so.6"))
            .unwrap();
        let elf = Elf::read(File::open(library).unwrap()).unwrap();
        let bytes = descriptor_bytes(&elf).unwrap().unwrap();
        assert!(
            (512..8192).contains(&bytes) && bytes.is_multiple_of(8),
            "{bytes}"
        );

        let this = Elf::read(File::open("/proc/self/exe").unwrap()).unwrap();
        assert_eq!(descriptor_bytes(&this).unwrap(), None);
    }

    #[test]
    fn only_aarch64_has_a_distance() {
        assert_eq!(distance(EM_X86_64, Some(2304)), 0);
        assert_eq!(distance(EM_AARCH64, Some(1856)), 1856);
        assert_eq!(distance(EM_AARCH64, None), MUSL_AARCH64);
    }
}
