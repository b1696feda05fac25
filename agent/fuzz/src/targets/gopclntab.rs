//! Go's table of functions, with the module data behind it: names, lines, inlined functions, and the
//! unwind table.

use agent::testing::binaries::{
    elf::Elf,
    unwind::compile,
};

use crate::{
    image::{Section, file},
    input::Input,
};

/// Most functions that are looked at.
const FUNCTIONS: usize = 64;

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let machine = if input.byte() & 1 == 0 { 62 } else { 183 };
    let module = input.sized();
    let table = input.rest();
    let sections = [
        Section::new(".gopclntab", table),
        Section::new(".go.module", module),
    ];
    let Ok(elf) = Elf::read(file(machine, &sections)) else {
        return;
    };
    if let Ok(compiled) = compile(&elf, &[]) {
        assert!(compiled.rows().is_sorted_by_key(|(address, _)| address));
    }
    let elf = elf.share();
    let Ok(Some(table)) = elf.go_lines() else {
        return;
    };
    for function in table.functions().take(FUNCTIONS) {
        let _ = function.name();
        for address in [function.start, function.start.wrapping_add(9), function.end] {
            let _ = function.lines(&elf, address);
            let _ = table.function(address).map(|function| function.name());
        }
        let _ = function.stack_sizes().take(1 << 16).count();
    }
}
