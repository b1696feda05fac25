//! The head: what is sampled, how busy it is, and what the table shows.

use std::time::Duration;

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::Paragraph,
};
use unicode_width::UnicodeWidthStr as _;

use super::theme::Theme;
use crate::{
    commands::top::{
        choices::{Detail, Event, Sort, View},
        load::load_text,
        state::{Mode, State},
    },
    text::shortened,
};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: Theme) {
    let width = usize::from(area.width);
    let lines = vec![
        subject(state, theme, width),
        Line::raw(load_text(state, width)),
        choices(state, theme, width),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

/// The process and its command line, and at the right how long it was sampled.
fn subject(state: &State, theme: Theme, width: usize) -> Line<'static> {
    let time = clock(state.elapsed);
    let room = width.saturating_sub(time.width() + 1);
    let title = state.title();
    let title = shortened(&title, room).into_owned();
    let mut room = room.saturating_sub(title.width());
    let mut spans = vec![Span::styled(title, theme.subject())];
    let command = &state.subject.command;
    if !command.is_empty() && room > 10 {
        let command = format!("  {}", shortened(command, room - 2));
        room -= command.width();
        spans.push(Span::styled(command, theme.dim()));
    }
    spans.push(Span::raw(" ".repeat(room + 1)));
    spans.push(Span::raw(time));
    Line::from(spans)
}

/// The tables, and what of them is shown.
fn choices(state: &State, theme: Theme, width: usize) -> Line<'static> {
    let mut spans = Vec::new();
    for (view, name) in state.views() {
        let number = match view {
            View::Functions => 1,
            View::Lines => 2,
            View::Threads => 3,
            View::Processes => 4,
        };
        let is_chosen = view == state.view_shown();
        let style = if is_chosen {
            theme.chosen()
        } else {
            theme.dim()
        };
        let (open, close) = if is_chosen { ('[', ']') } else { (' ', ' ') };
        spans.push(Span::styled(format!("{open}{number} {name}{close}"), style));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    let text = format!("  {}", shown_text(state));
    let text = shortened(&text, width.saturating_sub(used)).into_owned();
    spans.push(Span::raw(text));
    Line::from(spans)
}

fn shown_text(state: &State) -> String {
    let is_functions = matches!(state.view_shown(), View::Functions | View::Lines);
    let event = match state.event {
        Event::Wall if is_functions => "elapsed time",
        _ => "CPU time",
    };
    let mut parts = vec![
        event.to_owned(),
        format!("last {:.0} s", state.span().as_secs_f64()),
    ];
    if let Some(tid) = state.scope().tid {
        parts.push(format!("thread {tid}"));
    }
    let sort = match state.sort {
        Sort::Own if is_functions => Some("self"),
        Sort::Own => None,
        Sort::Total => Some("total"),
        Sort::SinceStart => Some("since start"),
    };
    parts.extend(sort.map(|it| format!("by {it}")));
    if is_functions {
        match state.detail {
            Detail::Python => parts.push("Python only".to_owned()),
            Detail::Native => {}
            Detail::All => parts.push("with interpreter".to_owned()),
        }
    }
    let mut text = parts.join(", ");
    if state.mode == Mode::Filter || !state.filter.is_empty() {
        let cursor = if state.mode == Mode::Filter { "_" } else { "" };
        text = format!("/{}{cursor}  {text}", state.filter);
    }
    if state.is_paused() {
        text = format!("PAUSED  {text}");
    }
    text
}

/// For example `4 s`, `1:04` or `2:01:04`.
fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    match minutes {
        0 => format!("{seconds} s"),
        1..60 => format!("{minutes}:{seconds:02}"),
        _ => format!("{}:{:02}:{seconds:02}", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::clock;
    use std::time::Duration;

    #[test]
    fn time_is_short() {
        let text = |seconds| clock(Duration::from_secs(seconds));
        assert_eq!([text(4), text(64), text(7264)], ["4 s", "1:04", "2:01:04"]);
    }
}
