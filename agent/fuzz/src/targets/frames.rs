//! Call-frame information, `.eh_frame` or `.debug_frame`: its unwind table, and its functions.

use std::time::Instant;

use agent::testing::binaries::{
    elf::Elf,
    unwind::{CodeMark, CodeRole, SharedRules, compile, functions, pack},
};

use crate::{
    image::{CODE, Section, file},
    input::Input,
};

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let kind = input.byte();
    let name = if kind & 1 == 0 {
        ".eh_frame"
    } else {
        ".debug_frame"
    };
    let machine = if kind & 2 == 0 { 62 } else { 183 };
    let Ok(elf) = Elf::read(file(machine, &[Section::new(name, input.rest())])) else {
        return;
    };
    let role = if kind & 4 == 0 {
        CodeRole::EvaluationLoop
    } else {
        CodeRole::StackRoot
    };
    let mark = CodeMark {
        range: CODE..CODE + 64,
        role,
    };
    let Ok(compiled) = compile(&elf, &[mark]) else {
        return;
    };
    assert!(compiled.rows().is_sorted_by_key(|(address, _)| address));
    let rules = SharedRules::new().add(compiled.rules(), Instant::now());
    let packed = pack(&compiled, &rules);
    assert!(packed.words.len() <= 8 * compiled.rows().len() + 4096);
    if let Ok(functions) = functions(&elf) {
        assert!(functions.is_sorted_by_key(|range| range.start));
        assert!(functions.windows(2).all(|two| two[0].end <= two[1].start));
    }
}
