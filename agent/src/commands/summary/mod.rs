//! What the user sees on standard error: a line of progress, then a summary.
//!
//! Invariants: nothing that is not a terminal sees progress; a name from another process cannot
//! steer the terminal; a line of progress or of a table is no wider than the terminal.

mod rank;
mod summary;

pub use self::summary::Summary;
