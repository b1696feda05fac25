//! Colours of text on a terminal.

use crate::commands::terminal::may_have_colours;

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colours(bool);

impl Colours {
    #[cfg(test)]
    pub(super) const NONE: Self = Self(false);
    #[cfg(test)]
    pub(super) const ALL: Self = Self(true);

    /// On a terminal, unless the environment variable `NO_COLOR` says otherwise.
    pub(super) fn of_terminal(is_terminal: bool) -> Self {
        Self(is_terminal && may_have_colours())
    }

    pub(super) fn bold(self) -> &'static str {
        if self.0 { "\u{1b}[1m" } else { "" }
    }

    pub(super) fn dim(self) -> &'static str {
        if self.0 { "\u{1b}[2m" } else { "" }
    }

    pub(super) fn end(self) -> &'static str {
        if self.0 { "\u{1b}[0m" } else { "" }
    }
}
