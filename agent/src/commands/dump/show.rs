//! Prints a dump.

use std::io::{self, IsTerminal as _};

use anyhow::Result;

use super::{colours::Colours, document::Document};
use crate::commands::standard_output::{print, print_by};

/// Prints a dump as text, or as one JSON document.
///
/// # Errors
///
/// When standard output cannot be written.
pub(super) fn show(document: &Document, json: bool) -> Result<()> {
    if json {
        print_by(|output| {
            serde_json::to_writer_pretty(&mut *output, document)?;
            writeln!(output)
        })?;
    } else {
        let colours = Colours::of_terminal(io::stdout().is_terminal());
        print(document.text(colours))?;
    }
    Ok(())
}
