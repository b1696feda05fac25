//! Tables as plain text, one after another, for scripts and where standard output is no terminal.

use std::fmt::Write as _;

use anyhow::Result;
use tokio::sync::mpsc;

use super::{
    choices::View,
    columns::{columns, titles},
    load::load_text,
    rows::{Row, Table},
    state::{Shown, State},
    update::{Update, Waits},
};
use crate::commands::standard_output::{Delivery, print};

/// Prints a table for each window until there were so many, sampling ends or nobody reads.
///
/// # Errors
///
/// When standard output cannot be written.
pub(super) async fn run(
    mut state: State,
    mut updates: mpsc::Receiver<Update>,
    iterations: Option<u64>,
) -> Result<()> {
    let mut left = iterations.unwrap_or(u64::MAX);
    while let Some(update) = updates.recv().await {
        let is_window = matches!(update, Update::Window { .. });
        let is_start = matches!(update, Update::Started(_));
        state.update(update);
        if is_start && !state.subject.notice.is_empty() {
            eprintln!("{}", state.subject.notice);
        }
        if let Some(why) = &state.ended {
            eprintln!("{why}");
            return Ok(());
        }
        if !is_window {
            continue;
        }
        if print(text(&state))? == Delivery::Closed {
            return Ok(());
        }
        left -= 1;
        if left == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// What is shown, with all rows that have time in the last windows, and an empty line at the end.
fn text(state: &State) -> String {
    let Shown::Table(table) = &state.shown else {
        return String::new();
    };
    let time = humantime::format_rfc3339_seconds(state.updated);
    let span = state.span().as_secs_f64();
    let mut text = format!("{}, {time}, last {span:.1} s\n", state.title());
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}\n", load_text(state, usize::MAX));
    add_rows(&mut text, state.view_shown(), table, state.subject.waits);
    text.push('\n');
    text
}

fn add_rows(text: &mut String, view: View, table: &Table, waits: Waits) {
    let columns = columns(view, true, waits);
    for column in &columns {
        let _ = write!(text, "{:>1$}  ", column.title, column.width);
    }
    let (name, place) = titles(view);
    let _ = writeln!(text, "{name}  {place}");
    // A thread that waits for work is shown; a process all of whose threads do is not.
    let has_time =
        |row: &&Row| row.total != 0 || (view == View::Threads && row.activities.sum() != 0);
    for row in table.rows.iter().filter(has_time) {
        for column in &columns {
            let _ = write!(text, "{:>1$}  ", (column.cell)(row, table), column.width);
        }
        let line = format!("{}  {}", row.name, row.place);
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        commands::top::{
            state::Choices,
            update::{Status, Subject},
        },
        profile::fixtures::example_profile,
    };

    #[test]
    fn a_table_has_a_head_and_a_row_for_each_function() {
        let mut state = State::new(Choices {
            windows: 10,
            ..Choices::default()
        });
        state.update(Update::Started(Box::new(Subject {
            name: "python3.12 (pid 4242, CPython 3.12.1)".to_owned(),
            has_native: true,
            ..Subject::default()
        })));
        state.update(Update::Window {
            profiles: vec![example_profile("app.py")],
            looked_at: Duration::ZERO,
            commands: Vec::new(),
            status: Status::default(),
        });
        let text = text(&state);
        let (head, rows) = text.split_once("\n\n").unwrap();
        assert!(
            head.starts_with("python3.12 (pid 4242, CPython 3.12.1), "),
            "{head}"
        );
        let mut rows = rows.lines();
        let columns = " self%  total%    self s   total s  function  place";
        assert_eq!(rows.next(), Some(columns));
        let fib = "  37.5    37.5      1.50      1.50  fib  app.py:7";
        assert!(rows.any(|row| row == fib), "{text}");
        assert!(text.ends_with("\n\n"));
    }
}
