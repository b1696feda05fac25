//! The columns of the tables, as text: the same on the screen and in batch mode.

use super::{
    choices::{Sort, View},
    rows::{Key, Row, Table},
};
use crate::commands::summary::percent;

/// A column of numbers.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Columns of the terminal, without what separates them.
    pub(super) width: usize,
    /// The order in which the table is sorted by it.
    pub(super) sort: Option<Sort>,
    pub(super) cell: fn(&Row, &Table) -> String,
}

const OWN: Column = Column {
    title: "self%",
    width: 6,
    sort: Some(Sort::Own),
    cell: |row, table| share(row.own, table.whole),
};
const TOTAL: Column = Column {
    title: "total%",
    width: 6,
    sort: Some(Sort::Total),
    cell: |row, table| share(row.total, table.whole),
};
const OWN_SINCE: Column = Column {
    title: "self s",
    width: 8,
    sort: Some(Sort::SinceStart),
    cell: |row, _| row.since_start.map_or_else(none, |it| seconds(it.own)),
};
const TOTAL_SINCE: Column = Column {
    title: "total s",
    width: 8,
    sort: None,
    cell: |row, _| row.since_start.map_or_else(none, |it| seconds(it.total)),
};
const CPU: Column = Column {
    title: "CPU%",
    width: 6,
    sort: Some(Sort::Own),
    cell: |row, table| share(row.own, table.elapsed),
};
const CPU_SINCE: Column = Column {
    title: "CPU s",
    width: 8,
    ..OWN_SINCE
};
const QUEUE: Column = Column {
    title: "queue%",
    width: 6,
    sort: None,
    cell: |row, _| share(row.activities.runnable, row.activities.sum()),
};
const GIL: Column = Column {
    title: "GIL%",
    cell: |row, _| share(row.activities.waits_for_gil, row.activities.sum()),
    ..QUEUE
};
const WAIT: Column = Column {
    title: "wait%",
    cell: |row, _| share(row.activities.waits, row.activities.sum()),
    ..QUEUE
};
const IDLE: Column = Column {
    title: "idle%",
    cell: |row, _| share(row.activities.idle, row.activities.sum()),
    ..QUEUE
};

const PID: Column = Column {
    title: "pid",
    width: 7,
    sort: None,
    cell: |row, _| match row.key {
        Key::Process(pid) | Key::Thread(pid, _) => pid.to_string(),
        _ => none(),
    },
};

/// The columns of a table; `is_wide` where there is room, `has_waits` where it is known what threads wait
/// for.
pub(super) fn columns(view: View, is_wide: bool, has_waits: bool) -> Vec<Column> {
    match view {
        View::Functions | View::Lines if is_wide => vec![OWN, TOTAL, OWN_SINCE, TOTAL_SINCE],
        View::Functions | View::Lines => vec![OWN, TOTAL, OWN_SINCE],
        View::Threads if has_waits && is_wide => vec![CPU, QUEUE, GIL, WAIT, IDLE, CPU_SINCE],
        View::Threads if has_waits => vec![CPU, GIL, WAIT, IDLE],
        View::Threads => vec![CPU, CPU_SINCE],
        View::Processes => vec![PID, CPU, CPU_SINCE],
    }
}

/// The titles of what rows are, and of where that is.
pub(super) fn titles(view: View) -> (&'static str, &'static str) {
    match view {
        View::Functions => ("function", "place"),
        View::Lines => ("function", "line"),
        View::Threads => ("thread", "most time in"),
        View::Processes => ("process", "command"),
    }
}

/// Per cent of a whole.
pub(super) fn share(part: u64, whole: u64) -> String {
    format!("{:.1}", percent(part, whole))
}

fn seconds(nanoseconds: u64) -> String {
    let seconds = std::time::Duration::from_nanos(nanoseconds).as_secs_f64();
    if seconds < 10_000.0 {
        format!("{seconds:.2}")
    } else {
        format!("{seconds:.0}")
    }
}

fn none() -> String {
    "-".to_owned()
}
