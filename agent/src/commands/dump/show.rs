//! Prints a dump.

use std::io::{self, IsTerminal as _};

use anyhow::Result;

use super::{colours::Colours, document::Document};
use crate::commands::standard_output::{Delivery, print, print_by};

/// How a dump is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    /// One of several.
    NumberedText {
        nth: u32,
        of: u32,
    },
    /// Indented.
    Json,
    /// On one line.
    JsonLine,
}

impl From<bool> for Form {
    /// Of the only dump.
    fn from(is_json: bool) -> Self {
        if is_json { Self::Json } else { Self::Text }
    }
}

/// Prints a dump.
///
/// # Errors
///
/// When standard output cannot be written.
pub(super) fn show(document: &Document, form: Form) -> Result<Delivery> {
    let colours = || Colours::of_terminal(io::stdout().is_terminal());
    match form {
        Form::Text => print(document.text(colours())),
        Form::NumberedText { nth, of } => {
            let time = document.time.as_deref().unwrap_or_default();
            let gap = if nth == 1 { "" } else { "\n" };
            let text = document.text(colours());
            print(format_args!("{gap}Dump {nth} of {of}, {time}\n\n{text}"))
        }
        Form::Json => print_by(|output| {
            serde_json::to_writer_pretty(&mut *output, document)?;
            writeln!(output)
        }),
        Form::JsonLine => print_by(|output| {
            serde_json::to_writer(&mut *output, document)?;
            writeln!(output)
        }),
    }
}
