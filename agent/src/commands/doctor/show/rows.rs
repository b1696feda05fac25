//! Rows of the report: a name and a text that is wrapped to the terminal's width.

use std::{fmt, path::Path};

use unicode_width::UnicodeWidthStr as _;

use crate::text::printable;

/// Columns of a row: the least that a terminal has.
pub(super) const WIDTH: usize = 80;

/// Columns of the names at the start of lines: of the longest one, `copy-on-write`.
const NAME_WIDTH: usize = 13;

/// Columns before and after a name.
const SPACES: usize = 3;

/// Writes a row, or several if the text is long.
pub(in crate::commands::doctor) fn line(
    formatter: &mut fmt::Formatter<'_>,
    name: &str,
    text: &str,
) -> fmt::Result {
    let mut name = name;
    for row in wrapped(&printable(text), WIDTH - NAME_WIDTH - SPACES) {
        writeln!(formatter, "  {name:<NAME_WIDTH$} {row}")?;
        name = "";
    }
    Ok(())
}

/// The text in rows of at most `width` columns, unless a word alone is wider.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut row = String::new();
    for word in text.split(' ') {
        if !row.is_empty() && row.width() + 1 + word.width() > width {
            rows.push(std::mem::take(&mut row));
        }
        if !row.is_empty() {
            row.push(' ');
        }
        row.push_str(word);
    }
    rows.push(row);
    rows
}

/// A path as text.
pub(in crate::commands::doctor) fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
