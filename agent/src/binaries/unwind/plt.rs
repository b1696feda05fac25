//! Rules for the stubs of a procedure linkage table (PLT) on aarch64, for which linkers write no
//! call-frame information.
//!
//! A stub of a function changes neither the stack pointer nor the register with the return address. Only
//! the first one, which calls the dynamic linker, begins with `stp x16, x30, [sp, #-16]!`, behind a
//! `bti c` where branches are checked.

use agent_common::unwind::{CfaRule, Rule, Saved};

use super::{
    arch::Arch,
    code_ranges::CodeRanges,
    rows::{Row, Rows},
    rules::Rules,
};
use crate::binaries::elf::{Elf, Source};

/// The sections with stubs: of functions of other files, and of functions that are chosen at the start.
const SECTIONS: [&str; 2] = [".plt", ".iplt"];

const INSTRUCTION: usize = 4;

/// `stp x16, x30, [sp, #-16]!`
const PUSH: [u8; INSTRUCTION] = 0xa9bf_7bf0_u32.to_le_bytes();

/// Bytes of the first stub, which is as long as two others.
const FIRST_STUB: u64 = 32;

/// The rows of a file's stubs; none for an architecture whose linkers describe them.
pub(super) fn rows<S: Source>(
    elf: &Elf<S>,
    arch: &Arch,
    code: &CodeRanges,
    rules: &mut Rules,
) -> Vec<Row> {
    let stack_pointer = arch.general(arch.stack_pointer);
    let Some(stack_pointer) = stack_pointer.filter(|_| arch.has_link_register) else {
        return Vec::new();
    };
    let unchanged = Rule {
        cfa: CfaRule::REGISTER,
        register: stack_pointer,
        ..Rule::UNKNOWN
    };
    let pushed = Rule {
        offset: 16,
        return_address: Saved::at(-1),
        ..unchanged
    };
    let mut sections: Vec<_> = SECTIONS.iter().filter_map(|it| elf.section(it)).collect();
    sections.sort_unstable_by_key(|section| section.address);
    let mut rows = Rows::default();
    for section in sections {
        let mut start = [0; 2 * INSTRUCTION];
        let is_there = elf.initial_bytes(section.address, &mut start);
        let (instructions, _) = start.as_chunks::<INSTRUCTION>();
        let push = instructions.iter().position(|it| *it == PUSH);
        let push = push.filter(|_| is_there.unwrap_or(false));
        // Without a push nothing is special.
        let behind = push.map_or(FIRST_STUB, |nth| (nth as u64 + 1) * INSTRUCTION as u64);
        // Each covers what those before it do not.
        let ends = [
            (behind, unchanged),
            (FIRST_STUB, pushed),
            (section.bytes, unchanged),
        ];
        for (end, rule) in ends {
            if let Some(range) = code.distances(section.address, end.min(section.bytes)) {
                rows.push(range, rules.index(&rule).into());
            }
        }
    }
    rows.finish()
}
