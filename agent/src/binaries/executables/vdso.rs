//! The vDSO as a file.
//!
//! The kernel maps the same vDSO into all processes of an instruction set: it is read from the
//! agent's own memory.

use std::{fs::File, io, os::unix::fs::FileExt as _};

/// Its name in `/proc/PID/maps`.
const NAME: &[u8] = b"[vdso]";

/// Most bytes that are read; it has a few pages.
const MAX_BYTES: u64 = 1 << 20;

/// Its bytes, an ELF file.
///
/// # Errors
///
/// When there is no vDSO or it cannot be read.
pub(super) fn read() -> io::Result<Vec<u8>> {
    #[cfg(feature = "testing")]
    if let Some(vdso) = crate::process::machine::recorded_vdso() {
        return vdso;
    }
    let maps = std::fs::read("/proc/self/maps")?;
    let line = maps
        .split(|&byte| byte == b'\n')
        .find(|line| line.ends_with(NAME));
    let (start, end) = line.and_then(addresses).ok_or(io::ErrorKind::NotFound)?;
    let mut contents = vec![0; bounded(end.saturating_sub(start))?];
    File::open("/proc/self/mem")?.read_exact_at(&mut contents, start)?;
    Ok(contents)
}

/// As many of its bytes as are read.
///
/// # Errors
///
/// When they cannot be addressed.
pub(super) fn bounded(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes.min(MAX_BYTES)).map_err(io::Error::other)
}

/// The addresses at the start of a line of `maps`.
fn addresses(line: &[u8]) -> Option<(u64, u64)> {
    let text = str::from_utf8(line).ok()?;
    let (start, end) = text.split_whitespace().next()?.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some((number(start)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use crate::{
        binaries::elf::Elf,
        symbolize::elf_symbols::{ElfSymbols, SymbolLimits, SymbolLookup},
    };

    #[test]
    fn its_functions_have_names() {
        let elf = Elf::read(super::read().unwrap()).unwrap();
        let (exported, name) = if cfg!(target_arch = "aarch64") {
            ("__kernel_clock_gettime", "__kernel_clock_gettime")
        } else {
            // The shorter of its names.
            ("__vdso_clock_gettime", "clock_gettime")
        };
        let symbol = elf.exported_symbol(exported);
        let address = symbol.unwrap().unwrap().address;
        let mut symbols = ElfSymbols::load(elf, None, &SymbolLimits::default());
        let SymbolLookup::Known(frames) = symbols.find(address + 1) else {
            panic!("not found");
        };
        assert_eq!(frames[0].name, name);
    }
}
