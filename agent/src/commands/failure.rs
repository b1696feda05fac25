//! An error as people read it.

use crate::text::{printable_lines, with_causes};

/// The error and its causes, as one line or as many as it has itself.
pub(super) fn text(error: &anyhow::Error) -> String {
    // Paths and names in it are those of other users' files and processes.
    format!("agent: {}", printable_lines(&with_causes(error)))
}
