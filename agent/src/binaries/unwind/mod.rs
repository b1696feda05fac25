//! How the callers of native frames are found: the call-frame information of a file, compiled to
//! the tables that the kernel half looks rules up in.
//!
//! ```text
//! sections ─► entries ─► evaluate ─► rule ─► rows ─► Compiled ─► table
//!              │                      └─ expression ▲
//!              └─► go ──────────────────────────────┘
//! ```
//!
//! What a compiler's table says of an address in any words of DWARF becomes one of a few hundred
//! [`Rule`]s; what a rule cannot say becomes [`Rule::UNKNOWN`] and is counted.
//!
//! Invariants: the bytes are untrusted: nothing in them makes this panic or loop without a bound;
//! besides the section itself a file takes eight bytes for each function and each row, and never
//! more than 150 MB; rows come out in the order of their addresses whatever goes in.

mod code;
mod entries;
mod evaluate;
mod expression;
mod go;
mod machine;
mod reason;
mod rows;
mod rule;
mod rules;
mod sections;
mod storage;
mod table;

use std::ops::Range;

use agent_common::unwind::{Rule, RuleFlags};
use thiserror::Error;

use crate::binaries::elf::{self, Elf, Source};
use code::Code;
use evaluate::{Budget, Evaluation};
use go::Functions;
use machine::Machine;
use reason::{Reason, Unknown};
use rows::{GAP, Row, Rows, merge};
pub use rules::Rules;
use sections::{Loaded, debugging, go_table};
pub use table::{Table, pack};

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

/// The rules of a file, each from an address on.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// What distances are counted from.
    base: u64,
    /// The rules of the rows.
    rules: Rules,
    rows: Vec<Row>,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the reasons are read by the tests of this module")
    )]
    unknown: Unknown,
}

impl Compiled {
    /// The rows, in the order of their addresses, which are those before the load bias is added;
    /// neighbours differ, and the last is unknown.
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (u64, Rule)> {
        let base = self.base;
        self.rows.iter().map(move |row| {
            let address = base + u64::from(row.distance);
            (address, known(&self.rules, row.rule))
        })
    }

    /// The rule that holds at an address.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn find(&self, address: u64) -> Rule {
        let after = self
            .rows
            .partition_point(|row| self.base + u64::from(row.distance) <= address);
        after
            .checked_sub(1)
            .and_then(|index| self.rows.get(index))
            .map_or(Rule::UNKNOWN, |row| known(&self.rules, row.rule))
    }

    /// What is not known, and why.
    #[cfg(test)]
    #[must_use]
    pub fn unknown(&self) -> &Unknown {
        &self.unknown
    }
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
            let rule = known(&rules, rule);
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

/// The rule with an index of [`Rows`].
fn known(rules: &Rules, index: u32) -> Rule {
    u16::try_from(index)
        .ok()
        .and_then(|index| rules.get(index))
        .unwrap_or(Rule::UNKNOWN)
}

#[cfg(test)]
mod tests;
