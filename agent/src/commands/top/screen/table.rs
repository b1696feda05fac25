//! A table of functions, lines, threads or processes.

use std::{borrow::Cow, fmt::Write as _};

use ratatui::{
    Frame,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Paragraph,
};
use unicode_width::UnicodeWidthStr as _;

use super::{theme::Theme, trend::trend};
use crate::{
    commands::{
        summary::name_and_place,
        top::{
            choices::View,
            columns::{Column, columns, titles},
            history::MAX_WINDOWS,
            rows::{Key, Row, Table},
            state::State,
        },
    },
    text::shortened,
};

/// Columns of the terminal from which on there are more numbers, and longer trends.
const WIDE: u16 = 110;

/// Columns between two columns.
const GAP: usize = 2;

/// How a table is laid out.
struct Layout {
    columns: Vec<Column>,
    trend: usize,
    /// Room for a name and a place.
    rest: usize,
    highest: u64,
}

impl Layout {
    fn new(area: Rect, state: &State, table: &Table) -> Self {
        let is_wide = area.width >= WIDE;
        let columns = columns(state.view_shown(), is_wide, state.subject.waits);
        let trend = if is_wide {
            MAX_WINDOWS
        } else {
            MAX_WINDOWS / 2
        };
        let numbers: usize = columns.iter().map(|column| column.width + GAP).sum();
        let used = numbers + trend + GAP;
        let values = table.rows.iter().flat_map(|row| &row.trend);
        Self {
            columns,
            trend,
            rest: usize::from(area.width).saturating_sub(used),
            highest: values.copied().max().unwrap_or(0),
        }
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, table: &Table, theme: Theme) {
    let layout = Layout::new(area, state, table);
    let mut lines = vec![titles_line(state, &layout, theme, usize::from(area.width))];
    let (offset, cursor) = state.position();
    let height = usize::from(area.height.saturating_sub(1));
    let rows = table.rows.iter().enumerate().skip(offset).take(height);
    lines.extend(rows.map(|(index, row)| {
        let line = row_line(row, table, &layout, theme);
        if index == cursor {
            let width = usize::from(area.width);
            line_with_cursor(line, width, theme)
        } else {
            line
        }
    }));
    if table.rows.is_empty() {
        lines.push(Line::styled(empty_text(state), theme.dim()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// A line in the colours of the cursor, as wide as the screen.
pub(super) fn line_with_cursor(line: Line<'static>, width: usize, theme: Theme) -> Line<'static> {
    let used = line.width();
    let mut spans = line.spans;
    spans.push(Span::raw(" ".repeat(width.saturating_sub(used))));
    let spans = spans.into_iter().map(|span| span.content);
    Line::styled(spans.collect::<String>(), theme.cursor())
}

fn titles_line(state: &State, layout: &Layout, theme: Theme, width: usize) -> Line<'static> {
    let mut spans = Vec::new();
    let gap = " ".repeat(GAP);
    for column in &layout.columns {
        let title = format!("{:>1$}{gap}", column.title, column.width);
        let is_order = column.sort == Some(state.sort);
        let style = theme.titles();
        let style = if is_order {
            style.patch(theme.chosen())
        } else {
            style
        };
        spans.push(Span::styled(title, style));
    }
    let (name, place) = titles(state.view_shown());
    let rest = format!("{:<1$}{gap}{name}  {place}", "trend", layout.trend);
    let used: usize = spans.iter().map(Span::width).sum();
    let room = width.saturating_sub(used);
    spans.push(Span::styled(format!("{rest:<room$}"), theme.titles()));
    Line::from(spans)
}

fn row_line(row: &Row, table: &Table, layout: &Layout, theme: Theme) -> Line<'static> {
    let gap = " ".repeat(GAP);
    let mut numbers = String::new();
    for column in &layout.columns {
        let cell = (column.cell)(row, table);
        // Writing to a string does not fail.
        let _ = write!(numbers, "{cell:>0$}{gap}", column.width);
    }
    let trend = trend(&row.trend, layout.highest, layout.trend);
    let origin = match &row.key {
        Key::Function(function) | Key::Line(function, _) => Some(function.get().origin),
        Key::Thread(..) | Key::Process(_) => None,
    };
    let (name, place) = match origin {
        Some(_) => name_and_place(&row.name, &row.place, layout.rest),
        None => name_and_text(&row.name, &row.place, layout.rest),
    };
    let style = origin.map_or_else(Style::new, |origin| theme.function(origin));
    let mut spans = vec![
        Span::raw(numbers),
        Span::styled(format!("{trend}{gap}"), theme.trend()),
        Span::styled(name.into_owned(), style),
    ];
    if let Some(place) = place {
        spans.push(Span::styled(format!("{gap}{place}"), theme.dim()));
    }
    Line::from(spans)
}

/// A name and a text whose beginning counts, in `width` columns.
fn name_and_text<'a>(
    name: &'a str,
    text: &'a str,
    width: usize,
) -> (Cow<'a, str>, Option<Cow<'a, str>>) {
    let name = shortened(name, width);
    let room = width.saturating_sub(name.width() + GAP);
    let text = (room > 1 && !text.is_empty()).then(|| shortened(text, room));
    (name, text)
}

/// Why there are no rows, and what to do.
fn empty_text(state: &State) -> &'static str {
    let is_functions = matches!(state.view_shown(), View::Functions | View::Lines);
    if state.elapsed.is_zero() && state.ended.is_none() {
        "Starting to sample ..."
    } else if !state.filter.is_empty() {
        "No row has this text: Esc drops it."
    } else if is_functions && state.subject.has_wall() {
        "No samples: the threads did not run. Press e for what they wait for."
    } else {
        "No samples."
    }
}
