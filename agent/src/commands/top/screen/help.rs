//! The help: all keys, and what the columns are.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::theme::Theme;
use crate::commands::top::keys::HELP;

/// What the columns are.
const COLUMNS: [&str; 7] = [
    "self%, total%: share of all time in the last seconds, in the function itself",
    "and with all that it calls. self s, total s: seconds since the start.",
    "CPU%: of one CPU. held%: share of a thread's time in which it has the GIL.",
    "queue%, GIL%, wait%, idle%: in which it waits for a CPU, the GIL, something",
    "else, work. Of a process these are those of its threads together. trend: a bar",
    "for each refresh. wait, in the second line: how many threads wait, and for",
    "what.",
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let mut lines: Vec<_> = HELP
        .iter()
        .map(|(keys, text)| {
            Line::from(vec![
                Span::styled(format!("{keys:>9}"), theme.chosen()),
                Span::raw(format!("  {text}")),
            ])
        })
        .collect();
    lines.push(Line::raw(""));
    lines.extend(COLUMNS.map(Line::raw));
    frame.render_widget(Paragraph::new(lines), area);
}
