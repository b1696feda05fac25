//! From the sections of a file to its compiled rows.

use std::ops::Range;

use agent_common::unwind::{Rule, RuleFlags};
use thiserror::Error;

use super::{
    code::Code,
    compiled::{Compiled, rule_at},
    evaluate::{Budget, Evaluation},
    go::Functions,
    machine::Machine,
    reason::{Reason, Unknown},
    rows::{GAP, Row, Rows, merge},
    rules::Rules,
    sections::{Loaded, debugging, go_table},
};
use crate::binaries::elf::{self, Elf, Source};

/// Why the call-frame information of a file was not compiled.
#[derive(Debug, Error)]
pub enum Error {
    /// The file could not be read.
    #[error(transparent)]
    Elf(#[from] elf::Error),
    /// Its machine is not known.
    #[error("call-frame information for the machine {machine}, which is not supported")]
    Machine {
        /// The number in its header.
        machine: u16,
    },
}

/// Compiles the call-frame information of a file: that in `.eh_frame`, where it has none what Go
/// tells of its functions, and `.debug_frame` where there is neither: it does not say where the
/// stacks of Go end.
///
/// `evaluation_loops` are the addresses whose rules get [`RuleFlags::EVALUATES`].
///
/// # Errors
///
/// When a part of the file that is needed cannot be read, or it is for another kind of machine.
pub fn compile<S: Source>(
    elf: &Elf<S>,
    evaluation_loops: &[Range<u64>],
) -> Result<Compiled, Error> {
    let machine = elf.machine();
    let machine = Machine::of(machine).ok_or(Error::Machine { machine })?;
    let code = Code::of(elf.segments());
    let mut rules = Rules::new();
    let mut unknown = Unknown::default();
    let mut budget = Budget::default();
    let loaded = Loaded::read(elf, &mut unknown)?;
    let evaluation = Evaluation::loaded(&loaded, &machine, &code);
    let mut rows = evaluation.rows(&mut budget, &mut rules, &mut unknown);
    drop(loaded);
    if let Some(table) = go_table(elf, &mut unknown) {
        let functions = Functions {
            elf,
            table: &table,
            machine: &machine,
            code: &code,
        };
        let others = functions.rows(&mut budget, &mut rules, &mut unknown);
        rows = fill(&rows, &others);
    }
    let debugging = debugging(elf, &mut unknown);
    if !debugging.is_empty() {
        let evaluation = Evaluation::debugging(&debugging, &machine, &code);
        let others = evaluation.rows(&mut budget, &mut rules, &mut unknown);
        rows = fill(&rows, &others);
    }
    drop(debugging);
    let marks = marks(&code, evaluation_loops);
    if !marks.is_empty() {
        rows = merge(&rows, &marks, |rule, mark| {
            if mark == GAP {
                return rule;
            }
            let rule = rule_at(&rules, rule);
            let flags = rule.flags.with(RuleFlags::EVALUATES);
            rules.index(&Rule { flags, ..rule }).into()
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
        unknown.count(Reason::TooMany);
    }
    Ok(Compiled {
        base: code.base(),
        rules,
        rows,
        unknown,
    })
}

/// The extents of the functions that a file's call-frame information describes, in the order of
/// their addresses, none of which lies in two of them. Parts of a function that the compiler put
/// elsewhere count as functions.
///
/// # Errors
///
/// As [`compile`].
pub fn functions<S: Source>(elf: &Elf<S>) -> Result<Vec<Range<u64>>, Error> {
    let machine = elf.machine();
    let machine = Machine::of(machine).ok_or(Error::Machine { machine })?;
    let code = Code::of(elf.segments());
    let loaded = Loaded::read(elf, &mut Unknown::default())?;
    let mut functions = Evaluation::loaded(&loaded, &machine, &code).extents();
    if functions.is_empty() {
        let debugging = debugging(elf, &mut Unknown::default());
        functions = Evaluation::debugging(&debugging, &machine, &code).extents();
    }
    let base = code.base();
    let address = |distance| base + u64::from(distance);
    Ok(functions
        .into_iter()
        .map(|range| address(range.start)..address(range.end))
        .collect())
}

/// Rows, and others where those say nothing.
fn fill(rows: &[Row], others: &[Row]) -> Vec<Row> {
    merge(rows, others, |rule, other| match rule {
        GAP => other,
        rule => rule,
    })
}

/// Rows of the addresses of evaluation loops.
fn marks(code: &Code, evaluation_loops: &[Range<u64>]) -> Vec<Row> {
    let mut loops: Vec<_> = evaluation_loops
        .iter()
        .filter_map(|range| Some((code.distance(range.start)?, code.distance(range.end)?)))
        .collect();
    loops.sort_unstable();
    let mut rows = Rows::default();
    for (start, end) in loops {
        rows.push(start..end, 0);
    }
    rows.finish()
}
