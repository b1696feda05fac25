//! Malformed files: a lookup returns a result, within bounded time and memory.

use std::{fs, ops::Range, sync::LazyLock};

use agent::testing::{
    binaries::elf::Elf,
    symbolize::elf_symbols::{ElfSymbols, SymbolLimits, SymbolLookup},
};
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use xtask::tools;

use crate::{addresses, compile_cpp, frames, run};

/// A program, addresses in it, and the ranges of its sections with symbols and debugging
/// information.
struct Program {
    bytes: Vec<u8>,
    addresses: Vec<u64>,
    parts: Vec<Range<usize>>,
}

static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let program = compile_cpp(directory.path(), &["-g", "-O1"]);
    // Small, so that most changes have an effect.
    let path = program.to_str().unwrap();
    run(
        &tools::OBJCOPY.path(),
        &["--remove-section=.debug_loclists", path],
    );
    let bytes = fs::read(&program).unwrap();
    let elf = Elf::read(bytes.clone()).unwrap();
    let names = [
        ".symtab",
        ".strtab",
        ".debug_abbrev",
        ".debug_aranges",
        ".debug_info",
        ".debug_line",
        ".debug_line_str",
        ".debug_rnglists",
        ".debug_str",
    ];
    let parts = names.map(|name| {
        let section = elf.section(name).unwrap();
        let start = usize::try_from(section.file_offset.unwrap()).unwrap();
        start..start + usize::try_from(section.bytes).unwrap()
    });
    Program {
        addresses: addresses(&program, 20),
        parts: parts.to_vec(),
        bytes,
    }
});

/// Looks up all addresses.
fn find(bytes: Vec<u8>, addresses: &[u64]) -> Vec<SymbolLookup> {
    let Ok(elf) = Elf::read(bytes) else {
        return Vec::new();
    };
    let mut symbols = ElfSymbols::load(elf, None, &SymbolLimits::default());
    symbols.find_all(&[addresses, &[0, u64::MAX]].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn flipped_bits_do_not_panic(
        flips in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..8_u32),
            1..40,
        ),
    ) {
        let program = &*PROGRAM;
        let mut bytes = program.bytes.clone();
        for (part, at, bit) in flips {
            let part = &program.parts[part.index(program.parts.len())];
            bytes[part.start + at.index(part.len())] ^= 1 << bit;
        }
        find(bytes, &program.addresses);
    }

    #[test]
    fn overwritten_bytes_do_not_panic(
        part in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        patch in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let program = &*PROGRAM;
        let mut bytes = program.bytes.clone();
        let part = &program.parts[part.index(program.parts.len())];
        let start = part.start + at.index(part.len());
        let patch = &patch[..patch.len().min(part.end - start)];
        bytes[start..start + patch.len()].copy_from_slice(patch);
        find(bytes, &program.addresses);
    }

    #[test]
    fn a_truncated_file_does_not_panic(bytes in any::<prop::sample::Index>()) {
        let program = &*PROGRAM;
        let bytes = bytes.index(program.bytes.len());
        find(program.bytes[..bytes].to_vec(), &program.addresses);
    }
}

/// Lookups in malformed debugging information of one unit with one function.
fn find_malformed(entries: &str, more: &str) -> Vec<SymbolLookup> {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("a.s");
    let text = format!(
        "
        .text
        .globl _start
        .type _start, @function
    _start:
        .fill 64, 1, 0x90
        .size _start, 64
        .section .debug_abbrev
        .byte 1, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0, 0
        .byte 2, 0x2e, 1, 0x11, 0x01, 0x12, 0x06, 0x03, 0x08, 0, 0
        .byte 3, 0x1d, 1, 0, 0
        .byte 4, 0x2e, 0, 0x55, 0x17, 0, 0
        .byte 5, 0x1d, 0, 0x55, 0x17, 0x31, 0x13, 0, 0
        .byte 0
        .section .debug_info
        .long end - start
    start:
        .short 4
        .long 0
        .byte 8
        .byte 1
        .quad _start
        .long 64
    function:
        .byte 2
        .quad _start
        .long 64
        .asciz \"name\"
        {entries}
    end:
        {more}
        "
    );
    fs::write(&source, text).unwrap();
    let program = directory.path().join("program");
    let paths = [program.to_str().unwrap(), source.to_str().unwrap()];
    let options = ["-nostdlib", "-static", "-o"];
    run(&tools::GCC.path(), &[&options[..], &paths[..]].concat());
    let bytes = fs::read(&program).unwrap();
    let start = Elf::read(bytes.clone()).unwrap().symbol("_start").unwrap();
    find(bytes, &[start.unwrap().address + 1])
}

fn name(found: &SymbolLookup) -> &str {
    frames(found).last().map_or("", |frame| frame.name.as_str())
}

#[test]
fn a_million_nested_entries_are_within_limits() {
    let found = find_malformed(".fill 1000000, 1, 3", "");
    assert_eq!(name(&found[0]), "_start");
}

#[test]
fn an_entry_that_refers_to_itself_is_within_limits() {
    let entries = "inlined:\n.byte 5\n.long 0\n.long inlined - start + 4\n.byte 0, 0";
    let ranges = ".section .debug_ranges\n.quad 0, 64, 0, 0";
    let found = find_malformed(entries, ranges);
    assert_eq!(frames(&found[0]).len(), 2);
    assert_eq!(name(&found[0]), "_start");
}

#[test]
fn a_long_list_with_many_references_is_within_limits() {
    let entries = ".rept 100000\n.byte 4\n.long 0\n.endr\n.byte 0, 0";
    let ranges = ".section .debug_ranges\n.rept 100000\n.quad 0, 64\n.endr\n.quad 0, 0";
    let found = find_malformed(entries, ranges);
    assert_eq!(name(&found[0]), "_start");
}
