//! Colours and attributes.

use ratatui::style::{Color, Modifier, Style};

use crate::commands::{terminal::may_have_colours, top::frames::Origin};

/// How things look; without colours only attributes distinguish them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    has_colours: bool,
}

#[expect(
    clippy::unused_self,
    reason = "what has no colour today is asked of the theme all the same"
)]
impl Theme {
    /// Without colours if `NO_COLOR` says so.
    pub(super) fn of_environment() -> Self {
        Self {
            has_colours: may_have_colours(),
        }
    }

    #[cfg(test)]
    pub(super) fn without_colours() -> Self {
        Self { has_colours: false }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.has_colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    /// What is sampled.
    pub(super) fn subject(self) -> Style {
        self.coloured(Color::Green).add_modifier(Modifier::BOLD)
    }

    /// What is less important.
    pub(super) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Titles of columns.
    pub(super) fn titles(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The title of the column by which the table is sorted, a chosen table, a key.
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The row of the cursor.
    pub(super) fn cursor(self) -> Style {
        if self.has_colours {
            Style::new().bg(Color::Blue).fg(Color::White)
        } else {
            Style::new().add_modifier(Modifier::UNDERLINED)
        }
    }

    pub(super) fn notice(self) -> Style {
        self.coloured(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(super) fn trend(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// The name of a function.
    pub(super) fn function(self, origin: Origin) -> Style {
        match origin {
            Origin::Python => Style::new(),
            Origin::Native => self.coloured(Color::Magenta),
            Origin::Interpreter | Origin::Marker => self.dim(),
        }
    }
}
