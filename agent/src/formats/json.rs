//! What the formats in JSON have in common.

use std::io::{self, Write};

use serde::Serialize;

/// The program that has written a file, with its version.
pub(super) const PROGRAM: &str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));

/// Writes a document, and the end of its line.
pub(super) fn write(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, document)?;
    writeln!(out)
}
