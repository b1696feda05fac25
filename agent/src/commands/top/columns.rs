//! The columns of the tables, as text: the same on the screen and in batch mode.

use super::{
    choices::{Sort, View},
    rows::{Key, Row, Table},
    update::Waits,
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
/// Share of the time in which a thread has the GIL; of a process, one of its threads.
const GIL_HELD: Column = Column {
    title: "held%",
    cell: |row, table| of_threads(row.gil_held, row, table),
    ..QUEUE
};
const QUEUE: Column = Column {
    title: "queue%",
    width: 6,
    sort: None,
    cell: |row, table| of_threads(row.activities.runnable, row, table),
};
const GIL: Column = Column {
    title: "GIL%",
    cell: |row, table| of_threads(row.activities.waits_for_gil, row, table),
    ..QUEUE
};
const WAIT: Column = Column {
    title: "wait%",
    cell: |row, table| of_threads(row.activities.waits, row, table),
    ..QUEUE
};
const IDLE: Column = Column {
    title: "idle%",
    cell: |row, table| of_threads(row.activities.idle, row, table),
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

/// The columns of a table; `is_wide` where there is room.
pub(super) fn columns(view: View, is_wide: bool, waits: Waits) -> Vec<Column> {
    match (view, waits) {
        (View::Functions | View::Lines, _) if is_wide => vec![OWN, TOTAL, OWN_SINCE, TOTAL_SINCE],
        (View::Functions | View::Lines, _) => vec![OWN, TOTAL, OWN_SINCE],
        (View::Threads, Waits::Nothing) => vec![CPU, CPU_SINCE],
        (View::Threads, Waits::WithGil) if is_wide => {
            vec![CPU, GIL_HELD, QUEUE, GIL, WAIT, IDLE, CPU_SINCE]
        }
        (View::Threads, Waits::WithGil) => vec![CPU, GIL_HELD, GIL, WAIT, IDLE],
        (View::Threads, Waits::Sampled) if is_wide => vec![CPU, QUEUE, WAIT, IDLE, CPU_SINCE],
        (View::Threads, Waits::Sampled) => vec![CPU, QUEUE, WAIT, IDLE],
        (View::Processes, Waits::Nothing) => vec![PID, CPU, CPU_SINCE],
        (View::Processes, Waits::WithGil) if is_wide => {
            vec![PID, CPU, GIL_HELD, QUEUE, GIL, WAIT, CPU_SINCE]
        }
        (View::Processes, Waits::WithGil) => vec![PID, CPU, GIL_HELD, GIL, WAIT],
        (View::Processes, Waits::Sampled) => vec![PID, CPU, QUEUE, WAIT, CPU_SINCE],
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

/// Per cent of a thread's time; of a process as many times 100 as threads do it all the time.
fn of_threads(part: u64, row: &Row, table: &Table) -> String {
    match row.key {
        Key::Process(_) => share(part, table.looked_at),
        _ => share(part, row.activities.sum()),
    }
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
