//! The compiler: from the sections of a file to its rows.

use std::ops::Range;

use thiserror::Error;

use super::{
    arch::Arch,
    code_ranges::CodeRanges,
    compiled::{Compiled, rule_at},
    evaluate::{Budget, Evaluation},
    go::GoFunctions,
    mark::{self, CodeMark, CodeRole},
    plt,
    reason::{UnknownCounts, UnknownReason},
    rows::{GAP, Row, merge},
    rules::Rules,
    sections::{EhFrameSection, debug_frame, go_table},
};
use crate::binaries::elf::{self, Elf, Source};

/// Why the call-frame information of a file was not compiled.
#[derive(Debug, Error)]
pub enum Error {
    /// The file could not be read.
    #[error(transparent)]
    Elf(#[from] elf::Error),
    /// The file is for an unsupported architecture.
    #[error("call-frame information for the machine {machine}, which is not supported")]
    Machine {
        /// `e_machine` of its header.
        machine: u16,
    },
}

/// Compiles the call-frame information of a file: `.eh_frame`, then Go's table of functions for
/// addresses that it does not cover, then `.debug_frame` for those that neither covers. Go's own
/// `.debug_frame` comes last because it does not mark where goroutines' stacks end. Stubs of a linkage
/// table that none of them covers are known by what they do.
///
/// Rules of the addresses in `marks` become those of what this code [is](super::CodeRole).
///
/// # Errors
///
/// When a part of the file cannot be read, or the file is for an unsupported architecture.
pub fn compile<S: Source>(elf: &Elf<S>, marks: &[CodeMark]) -> Result<Compiled, Error> {
    let machine = elf.machine();
    let arch = Arch::of(machine).ok_or(Error::Machine { machine })?;
    let code = CodeRanges::of(elf.segments());
    let mut rules = Rules::new();
    let mut unknown = UnknownCounts::default();
    let mut budget = Budget::default();
    let eh_frame = EhFrameSection::read(elf, &mut unknown)?;
    let evaluation = Evaluation::eh_frame(&eh_frame, &arch, &code);
    let mut rows = evaluation.rows(&mut budget, &mut rules, &mut unknown);
    drop(eh_frame);
    if let Some(table) = go_table(elf, &mut unknown) {
        let functions = GoFunctions {
            elf,
            table: &table,
            arch: &arch,
            code: &code,
        };
        let others = functions.rows(&mut budget, &mut rules, &mut unknown);
        rows = fill(&rows, &others);
    }
    let debug_frame = debug_frame(elf, &mut unknown);
    if !debug_frame.is_empty() {
        let evaluation = Evaluation::debug_frame(&debug_frame, &arch, &code);
        let others = evaluation.rows(&mut budget, &mut rules, &mut unknown);
        rows = fill(&rows, &others);
    }
    drop(debug_frame);
    let stubs = plt::rows(elf, &arch, &code, &mut rules);
    if !stubs.is_empty() {
        rows = fill(&rows, &stubs);
    }
    let marks = mark::rows(&code, marks);
    if !marks.is_empty() {
        rows = merge(&rows, &marks, |rule, mark| {
            if mark == GAP {
                return rule;
            }
            let marked = CodeRole::rule(mark, rule_at(&rules, rule));
            rules.index(&marked).into()
        });
    }
    for row in &mut rows {
        if row.rule == GAP {
            row.rule = 0;
        }
    }
    rows.dedup_by_key(|row| row.rule);
    if rows.first().is_some_and(|row| row.rule == 0) {
        rows.remove(0);
    }
    rows.shrink_to_fit();
    for _ in 0..rules.left_out() {
        unknown.count(UnknownReason::TooMany);
    }
    Ok(Compiled {
        base: code.base(),
        rules,
        rows,
        unknown,
    })
}

/// The extents of the functions in a file's call-frame information, sorted by address and disjoint.
/// Parts of a function that the compiler placed elsewhere count as functions.
///
/// # Errors
///
/// As [`compile`].
pub fn functions<S: Source>(elf: &Elf<S>) -> Result<Vec<Range<u64>>, Error> {
    let machine = elf.machine();
    let arch = Arch::of(machine).ok_or(Error::Machine { machine })?;
    let code = CodeRanges::of(elf.segments());
    let eh_frame = EhFrameSection::read(elf, &mut UnknownCounts::default())?;
    let mut functions = Evaluation::eh_frame(&eh_frame, &arch, &code).extents();
    if functions.is_empty() {
        let debug_frame = debug_frame(elf, &mut UnknownCounts::default());
        functions = Evaluation::debug_frame(&debug_frame, &arch, &code).extents();
    }
    let base = code.base();
    let address = |distance| base + u64::from(distance);
    Ok(functions
        .into_iter()
        .map(|range| address(range.start)..address(range.end))
        .collect())
}

/// `rows`, with `others` in their gaps.
fn fill(rows: &[Row], others: &[Row]) -> Vec<Row> {
    merge(rows, others, |rule, other| match rule {
        GAP => other,
        rule => rule,
    })
}
