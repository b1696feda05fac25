//! What the user sees on standard error: a line of progress, then a summary.
//!
//! Invariants: nothing that is not a terminal sees progress; a name from another process cannot
//! steer the terminal; a line of progress or of a table is no wider than the terminal.

mod fit;
mod progress;
mod rank;
mod summary;

pub use self::{progress::Progress, summary::Summary};

/// The word for so many.
pub(crate) fn plural(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}
