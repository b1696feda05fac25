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
mod compile;
mod compiled;
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

pub use compile::{Error, compile, functions};
pub use compiled::Compiled;
pub use rules::Rules;
pub use table::{Table, pack};

#[cfg(test)]
mod tests;
