//! The screen: drawn after each window and each key.

mod footer;
mod header;
mod help;
mod relatives;
mod table;
mod theme;
mod trend;

use anyhow::Result;
use crossterm::event::Event;
use ratatui::{
    Frame,
    layout::{Constraint, Layout},
};
use tokio::sync::mpsc;

use self::theme::Theme;
use super::{
    state::{Mode, Outcome, Shown, State},
    terminal::{self, Screen},
    update::Update,
};

/// Lines above the rows, with the titles of the columns.
const HEADER: u16 = 3;

/// Shows updates and does what keys are for, until one of them ends it or there were so many windows.
///
/// # Errors
///
/// When the terminal fails.
pub(super) async fn run(
    mut state: State,
    mut updates: mpsc::Receiver<Update>,
    iterations: Option<u64>,
) -> Result<()> {
    let theme = Theme::of_environment();
    let mut screen = Screen::take()?;
    let mut events = terminal::events()?;
    let mut left = iterations.unwrap_or(u64::MAX);
    loop {
        let terminal = screen.terminal();
        terminal.draw(|frame| draw(frame, &mut state, theme))?;
        tokio::select! {
            Some(update) = updates.recv() => {
                left -= u64::from(matches!(update, Update::Window { .. }));
                state.update(update);
                if left == 0 {
                    return Ok(());
                }
            }
            event = events.recv() => {
                let outcome = match event {
                    Some(Event::Key(key)) => state.press(key),
                    // A resize needs no more than a new drawing.
                    Some(_) => Outcome::GoOn,
                    // The terminal has gone.
                    None => Outcome::Quit,
                };
                match outcome {
                    Outcome::GoOn => {}
                    Outcome::Quit => return Ok(()),
                    Outcome::Suspend => screen.suspend()?,
                }
            }
        }
    }
}

/// Draws the whole screen; the terminal gets what differs from the last one.
fn draw(frame: &mut Frame<'_>, state: &mut State, theme: Theme) {
    let notice = footer::notice(state);
    let areas = Layout::vertical([
        Constraint::Length(HEADER),
        Constraint::Min(1),
        Constraint::Length(u16::from(notice.is_some())),
        Constraint::Length(1),
    ]);
    let [top, rows, above, bottom] = areas.areas(frame.area());
    header::draw(frame, top, state, theme);
    if state.mode == Mode::Help {
        help::draw(frame, rows, theme);
    } else {
        // The first line has the titles.
        state.set_height(usize::from(rows.height.saturating_sub(1)));
        match &state.shown {
            Shown::Table(table) => table::draw(frame, rows, state, table, theme),
            Shown::Relatives(relatives) => relatives::draw(frame, rows, state, relatives, theme),
        }
    }
    if let Some(notice) = notice {
        footer::draw_notice(frame, above, &notice, theme);
    }
    footer::draw(frame, bottom, state, theme);
}

#[cfg(test)]
mod tests;
