//! How wide a terminal is, and whether it is to have colours.

use std::env;

use console::Term;

/// Columns where output goes to no terminal.
const DEFAULT_WIDTH: usize = 100;

/// Columns of a terminal.
pub(super) fn width(term: &Term) -> usize {
    let columns = term.size_checked().map(|(_, columns)| columns);
    // Serial lines and terminals of some containers report a width of 0.
    let columns = columns.filter(|&columns| columns != 0);
    columns.map_or(DEFAULT_WIDTH, usize::from)
}

/// Whether the environment variable `NO_COLOR` does not say otherwise.
pub(super) fn may_have_colours() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
