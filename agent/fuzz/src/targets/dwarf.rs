//! Debugging information: functions, inlined functions, files and lines of addresses. A run's bytes
//! are the contents of the sections, one after the other, each after its size.

use agent::testing::{
    binaries::elf::Elf,
    symbolize::elf_symbols::{ElfSymbols, SymbolLimits},
};

use crate::{
    image::{CODE, Section, file},
    input::Input,
};

/// The sections in the order of the bytes.
const SECTIONS: [&str; 9] = [
    ".debug_abbrev",
    ".debug_info",
    ".debug_line",
    ".debug_str",
    ".debug_line_str",
    ".debug_aranges",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_addr",
];

/// Addresses that are looked up.
const ADDRESSES: u64 = 64;

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let sections = SECTIONS.map(|name| Section::new(name, input.sized()));
    let Ok(elf) = Elf::read(file(62, &sections)) else {
        return;
    };
    let mut symbols = ElfSymbols::load(elf, None, &SymbolLimits::default());
    let near = (0..ADDRESSES).map(|nth| CODE + 0x1000 + 5 * nth);
    let far = [CODE, CODE + 0x1234, 0, u64::MAX, 0x1139];
    let addresses: Vec<u64> = near.chain(far).collect();
    let found = symbols.find_all(&addresses);
    assert_eq!(found.len(), addresses.len());
    let _ = symbols.bytes();
    symbols.shrink();
    assert_eq!(symbols.find_all(&addresses).len(), addresses.len());
}
