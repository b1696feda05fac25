//! The foot: what a person should know at once, and the most important keys.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
};

use super::theme::Theme;
use crate::{
    commands::top::{
        choices::{Event, View},
        state::{Mode, Shown, State},
    },
    text::shortened,
};

/// CPU use below which elapsed time says more, as a multiple of one CPU.
const HARDLY_ANY: f64 = 0.05;

/// What is to be said besides the table.
pub(super) fn notice(state: &State) -> Option<String> {
    if let Some(why) = &state.ended {
        return Some(format!("{why} This is what was sampled last; q ends."));
    }
    if !state.subject.notice.is_empty() {
        return Some(state.subject.notice.clone());
    }
    let is_functions = matches!(state.view_shown(), View::Functions | View::Lines);
    let is_quiet = !state.elapsed.is_zero() && state.load().cpus < HARDLY_ANY;
    let is_cpu = state.event == Event::Cpu && is_functions;
    (is_quiet && is_cpu && state.subject.has_wall())
        .then(|| "Hardly any CPU time: press e for what the threads wait for.".to_owned())
}

pub(super) fn draw_notice(frame: &mut Frame<'_>, area: Rect, notice: &str, theme: Theme) {
    let text = shortened(notice, usize::from(area.width)).into_owned();
    frame.render_widget(Line::styled(text, theme.notice()), area);
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let mut spans = Vec::new();
    for (key, text) in keys(state) {
        let is_there = match *key {
            "e" => state.subject.has_wall(),
            "n" | "i" => state.subject.has_native,
            _ => true,
        };
        if !is_there {
            continue;
        }
        let more = [
            Span::styled((*key).to_owned(), theme.chosen()),
            Span::styled(format!(" {text}  "), theme.dim()),
        ];
        let used: usize = spans.iter().chain(&more).map(Span::width).sum();
        // The two spaces at the end may be cut off.
        if used > usize::from(area.width) + 2 {
            break;
        }
        spans.extend(more);
    }
    frame.render_widget(Line::from(spans), area);
}

/// The most important keys first.
fn keys(state: &State) -> &'static [(&'static str, &'static str)] {
    match (state.mode, &state.shown) {
        (Mode::Help, _) => &[("any key", "back")],
        (Mode::Filter, _) => &[("Enter", "keep"), ("Esc", "drop")],
        (Mode::Rows, Shown::Relatives(_)) => &[
            ("q", "end"),
            ("?", "help"),
            ("Esc", "back"),
            ("Enter", "go to function"),
            ("Space", "pause"),
            ("n", "native"),
        ],
        (Mode::Rows, Shown::Table(_)) => &[
            ("q", "end"),
            ("?", "help"),
            ("Enter", "open"),
            ("/", "filter"),
            ("s t a", "sort"),
            ("Tab", "table"),
            ("Space", "pause"),
            ("e", "waits"),
            ("n", "native"),
            ("i", "interpreter"),
            ("r", "restart sums"),
        ],
    }
}
