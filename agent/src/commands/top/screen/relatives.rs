//! Callers and callees of a function.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{table::line_with_cursor, theme::Theme};
use crate::commands::{
    summary::name_and_place,
    top::{columns::share, frames::FunctionRef, relatives::Relatives, state::State},
};

/// Columns of a number, and of what separates it from the next.
const NUMBER: usize = 8;

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &State,
    relatives: &Relatives,
    theme: Theme,
) {
    let width = usize::from(area.width);
    let height = usize::from(area.height);
    let (lines, cursor) = lines(state, relatives, theme, width);
    let title = format!("{:>6}  {:>6}  function  place", "time%", "of it%");
    let title = Line::styled(format!("{title:<width$}"), theme.titles());
    // The row of the cursor is in the middle, as far as the ends allow.
    let room = height.saturating_sub(1);
    let last = lines.len().saturating_sub(room);
    let first = cursor.saturating_sub(room / 2).min(last);
    let shown = lines.into_iter().skip(first).take(room);
    let all: Vec<_> = [title].into_iter().chain(shown).collect();
    frame.render_widget(Paragraph::new(all), area);
}

/// All lines, and the one of the cursor.
fn lines(
    state: &State,
    relatives: &Relatives,
    theme: Theme,
    width: usize,
) -> (Vec<Line<'static>>, usize) {
    let (_, chosen) = state.position();
    let mut cursor = 0;
    let mut lines = Vec::new();
    let mut index = 0;
    let mut add = |lines: &mut Vec<Line<'static>>, of: &[(FunctionRef, u64)]| {
        for (function, time) in of {
            let line = row(relatives, function, *time, theme, width, "  ");
            if index == chosen {
                cursor = lines.len();
                lines.push(line_with_cursor(line, width, theme));
            } else {
                lines.push(line);
            }
            index += 1;
        }
    };
    lines.push(Line::styled("Callers", theme.chosen()));
    if relatives.callers.is_empty() {
        lines.push(Line::styled("  none: it is at the root", theme.dim()));
    }
    add(&mut lines, &relatives.callers);
    lines.push(Line::raw(""));
    let function = &relatives.function;
    lines.push(row(
        relatives,
        function,
        relatives.total,
        theme,
        width,
        "► ",
    ));
    lines.push(Line::raw(""));
    lines.push(Line::styled("Callees", theme.chosen()));
    if relatives.own > 0 {
        let numbers = numbers(relatives, relatives.own);
        lines.push(Line::styled(format!("{numbers}  (itself)"), theme.dim()));
    }
    add(&mut lines, &relatives.callees);
    (lines, cursor)
}

/// Time as a share of all, and of the function's.
fn numbers(relatives: &Relatives, time: u64) -> String {
    let of_all = share(time, relatives.whole);
    let of_it = share(time, relatives.total);
    format!("{of_all:>6}  {of_it:>6}  ")
}

fn row(
    relatives: &Relatives,
    function: &FunctionRef,
    time: u64,
    theme: Theme,
    width: usize,
    mark: &str,
) -> Line<'static> {
    let function = function.get();
    let room = width.saturating_sub(2 * NUMBER + mark.len());
    let (name, place) = name_and_place(&function.name, &function.place, room);
    let mut spans = vec![
        Span::raw(format!("{}{mark}", numbers(relatives, time))),
        Span::styled(name.into_owned(), theme.function(function.origin)),
    ];
    if let Some(place) = place {
        spans.push(Span::styled(format!("  {place}"), theme.dim()));
    }
    Line::from(spans)
}
