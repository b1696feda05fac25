//! Unwinding of native frames: the call-frame information of a file, compiled to the table in which
//! the BPF programs look up rules.
//!
//! ```text
//! sections ─► entries ─► evaluate ─► rule ─► rows ─► Compiled ─► table
//!              │                      └─ expression ▲
//!              └─► go ──────────────────────────────┘
//! ```
//!
//! Each row of a compiler's call-frame information becomes one of a few hundred [`Rule`]s; a row that
//! a rule cannot express becomes [`Rule::UNKNOWN`] and is counted.
//!
//! Invariants: the bytes are untrusted: nothing in them causes a panic or an unbounded loop; in
//! addition to the section a file takes eight bytes of memory for each function and each row, and
//! never more than 150 MB; rows are sorted by address, whatever the input.
//!
//! [`Rule`]: agent_common::unwind::Rule
//! [`Rule::UNKNOWN`]: agent_common::unwind::Rule::UNKNOWN

mod arch;
mod code_ranges;
mod compile;
mod compiled;
mod entries;
mod evaluate;
mod expression;
mod go;
mod mark;
mod plt;
mod reason;
mod rows;
mod rule;
mod rules;
mod sections;
mod shared_rules;
mod storage;
mod table;

pub use compile::{Error, compile, functions};
pub use compiled::Compiled;
pub use mark::{CodeMark, CodeRole};
pub use shared_rules::SharedRules;
pub use table::{PackedTable, pack};

#[cfg(test)]
mod tests;
