//! The rows of the tables: shares of the last windows, sums since the start, trends.

use std::{cmp::Ordering, num::NonZeroU32, time::Duration};

use foldhash::{HashMap, HashSet};

use super::{
    choices::{Detail, Event, Sort, View},
    frames::{Frame, FunctionRef},
    history::{History, MAX_WINDOWS},
    window::{Activity, Sample, Scope, Window},
};

/// What identifies a row while its values change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Function(FunctionRef),
    Line(FunctionRef, Option<NonZeroU32>),
    /// A process and its thread.
    Thread(u32, u32),
    Process(u32),
}

/// A row of a table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) name: String,
    /// Where the function is, where a thread spends most of its time, what a process runs.
    pub(super) place: String,
    /// Nanoseconds in the last windows: of a function in itself, of a thread and a process all.
    pub(super) own: u64,
    /// Nanoseconds in the last windows: of a thread and a process also those in which they wait, but for work.
    pub(super) total: u64,
    /// Nanoseconds since the start; [`None`] where it is not counted.
    pub(super) since_start: Option<Since>,
    /// Nanoseconds per second in each of the last windows, the oldest first: of what the table is sorted
    /// by.
    pub(super) trend: Vec<u64>,
    /// What a thread, or those of a process, did in the last windows.
    pub(super) activities: Activities,
    /// Nanoseconds in the last windows in which a thread had the GIL.
    pub(super) gil_held: u64,
}

/// Nanoseconds since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Since {
    pub(super) own: u64,
    pub(super) total: u64,
}

/// What threads did, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Activities {
    pub(super) runs: u64,
    pub(super) runnable: u64,
    pub(super) waits_for_gil: u64,
    pub(super) waits: u64,
    pub(super) idle: u64,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    /// Nanoseconds of all samples of the last windows that the table is of.
    pub(super) whole: u64,
    /// How long the last windows were together, in nanoseconds.
    pub(super) elapsed: u64,
    /// For how long threads were looked at in them, in nanoseconds.
    pub(super) looked_at: u64,
}

/// What a table shows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Query<'a> {
    pub(super) view: View,
    pub(super) event: Event,
    pub(super) detail: Detail,
    pub(super) sort: Sort,
    pub(super) scope: Scope,
    /// Only rows with this text in them, whatever its case.
    pub(super) filter: &'a str,
    /// How many of the last windows shares are of.
    pub(super) windows: usize,
}

/// Which window it is.
#[derive(Clone, Copy)]
struct Age {
    /// 0 for the newest.
    number: usize,
    /// Whether it is one of the last, of which shares are.
    is_last: bool,
    elapsed: Duration,
}

impl Age {
    /// Nanoseconds as nanoseconds per second: windows are not equally long.
    fn per_second(self, value: u64) -> u64 {
        let elapsed = self.elapsed.as_micros().max(1);
        u64::try_from(u128::from(value) * 1_000_000 / elapsed).unwrap_or(u64::MAX)
    }
}

/// Values of a row as they are added up.
#[derive(Default)]
struct Sum {
    own: u64,
    total: u64,
    /// The newest window first.
    trend: [u64; MAX_WINDOWS],
    activities: Activities,
    gil_held: u64,
    /// Time of the innermost functions of a thread.
    leaves: HashMap<FunctionRef, u64>,
    name: String,
    place: String,
}

impl Table {
    /// The rows, sorted and filtered.
    pub(super) fn new(history: &History, query: &Query<'_>) -> Self {
        let mut sums = HashMap::<Key, Sum>::default();
        let mut table = Self::default();
        let nanoseconds = |it: Duration| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX);
        table.elapsed = nanoseconds(history.series(query.event).elapsed(query.windows));
        table.looked_at = nanoseconds(history.series(Event::Wall).looked_at(query.windows));
        for (age, window) in query.windows_of(history, query.event) {
            for sample in window.samples.iter().filter(|it| query.scope.has(it)) {
                let is_idle = sample.activity == Activity::Idle;
                if age.is_last && !is_idle {
                    table.whole += sample.value;
                }
                match query.view {
                    View::Functions | View::Lines if is_idle => {}
                    View::Functions | View::Lines => {
                        add_frames(&mut sums, sample, query, age);
                    }
                    View::Threads | View::Processes => {
                        add_thread(&mut sums, sample, query, age);
                    }
                }
            }
        }
        if matches!(query.view, View::Threads | View::Processes) {
            add_activities(&mut sums, history, query);
            for sum in sums.values_mut() {
                sum.total += table.of_elapsed(sum.activities.waiting());
            }
        }
        for (key, sum) in &mut sums {
            if let Key::Process(pid) = key
                && let Some(command) = history.command(*pid)
            {
                command.clone_into(&mut sum.place);
            }
        }
        let mut rows: Vec<_> = sums.into_iter().map(|(key, sum)| sum.row(key)).collect();
        add_since_start(&mut rows, history, query);
        let filter = query.filter.to_lowercase();
        rows.retain(|row| {
            let has = |text: &str| text.to_lowercase().contains(&filter);
            filter.is_empty() || has(&row.name) || has(&row.place)
        });
        rows.sort_by(|a, b| query.compare(a, b));
        table.rows = rows;
        table
    }
}

impl Table {
    /// What was seen while threads were looked at, as if that had been all the time.
    fn of_elapsed(&self, seen: u64) -> u64 {
        let all = u128::from(seen) * u128::from(self.elapsed) / u128::from(self.looked_at.max(1));
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

impl Query<'_> {
    /// The windows of a kind of time that are shown, the newest first.
    fn windows_of<'a>(
        &self,
        history: &'a History,
        event: Event,
    ) -> impl Iterator<Item = (Age, &'a Window)> {
        let shares = self.windows;
        let windows = history.series(event).newest_first();
        windows
            .take(MAX_WINDOWS)
            .enumerate()
            .map(move |(number, window)| {
                let age = Age {
                    number,
                    is_last: number < shares,
                    elapsed: window.elapsed,
                };
                (age, window)
            })
    }

    /// The highest value first, then by other values and by name, so that equal rows keep their places.
    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        let since = |row: &Row| row.since_start.unwrap_or_default();
        let values = |row: &Row| match self.sort {
            Sort::Own => [row.own, row.total, since(row).own],
            Sort::Total => [row.total, row.own, since(row).own],
            Sort::SinceStart => [since(row).own, since(row).total, row.own],
        };
        let names = || (&a.name, &a.place).cmp(&(&b.name, &b.place));
        values(b).cmp(&values(a)).then_with(names)
    }
}

impl Activities {
    fn add(&mut self, sample: &Sample) {
        let time = match sample.activity {
            Activity::Runs => &mut self.runs,
            Activity::Runnable => &mut self.runnable,
            Activity::WaitsForGil => &mut self.waits_for_gil,
            Activity::Waits | Activity::Stopped => &mut self.waits,
            Activity::Idle => &mut self.idle,
        };
        *time += sample.value;
    }

    /// All of it.
    pub(super) fn sum(self) -> u64 {
        self.runs + self.waiting() + self.idle
    }

    /// All in which they would go on if they could.
    fn waiting(self) -> u64 {
        self.runnable + self.waits_for_gil + self.waits
    }
}

impl Sum {
    fn add_leaf(&mut self, sample: &Sample, detail: Detail) {
        if let Some(leaf) = sample.stack.innermost(detail) {
            *self.leaves.entry(leaf.clone()).or_default() += sample.value;
        }
    }

    fn row(self, key: Key) -> Row {
        let (name, place) = match &key {
            Key::Function(function) => {
                let function = function.get();
                (function.name.clone(), function.place.clone())
            }
            Key::Line(function, line) => {
                let function = function.get();
                let file = &function.file;
                let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
                (function.name.clone(), place)
            }
            Key::Thread(..) => {
                let longest = self.leaves.iter().max_by_key(|(leaf, time)| {
                    // Of equals always the same.
                    (**time, std::cmp::Reverse(&leaf.get().name))
                });
                let place = longest.map(|(leaf, _)| leaf.get().name.clone());
                (self.name, place.unwrap_or_default())
            }
            Key::Process(_) => (self.name, self.place),
        };
        let mut trend = self.trend.to_vec();
        trend.reverse();
        Row {
            key,
            name,
            place,
            own: self.own,
            total: self.total,
            since_start: None,
            trend,
            activities: self.activities,
            gil_held: self.gil_held,
        }
    }
}

fn add_frames(sums: &mut HashMap<Key, Sum>, sample: &Sample, query: &Query<'_>, age: Age) {
    let mut seen = HashSet::default();
    for (depth, frame) in sample.stack.shown(query.detail).enumerate() {
        let key = frame_key(frame, query.view);
        let is_first = seen.insert(key.clone());
        let sum = sums.entry(key).or_default();
        let own = if depth == 0 { sample.value } else { 0 };
        let total = if is_first { sample.value } else { 0 };
        if age.is_last {
            sum.own += own;
            sum.total += total;
        }
        let sorted_by = if query.sort == Sort::Total {
            total
        } else {
            own
        };
        sum.trend[age.number] += age.per_second(sorted_by);
    }
}

fn add_thread(sums: &mut HashMap<Key, Sum>, sample: &Sample, query: &Query<'_>, age: Age) {
    let sum = sum_of_thread(sums, sample, query.view);
    sum.trend[age.number] += age.per_second(sample.value);
    if age.is_last {
        sum.own += sample.value;
        sum.total += sample.value;
        if query.view == View::Threads {
            sum.add_leaf(sample, query.detail);
        }
    }
}

/// Adds what threads do, which is known from elapsed time while the table is of CPU time.
fn add_activities(sums: &mut HashMap<Key, Sum>, history: &History, query: &Query<'_>) {
    for (age, window) in query.windows_of(history, Event::Wall) {
        for sample in window.samples.iter().filter(|it| query.scope.has(it)) {
            let is_waiting = !matches!(sample.activity, Activity::Runs | Activity::Idle);
            let sum = sum_of_thread(sums, sample, query.view);
            if is_waiting && query.sort == Sort::Total {
                sum.trend[age.number] += age.per_second(sample.value);
            }
            if !age.is_last {
                continue;
            }
            sum.activities.add(sample);
            // Of a thread that has no CPU time, where it waits.
            if query.view == View::Threads && sum.own == 0 {
                sum.add_leaf(sample, query.detail);
            }
        }
    }
    for (pid, tid, held) in history.threads_with_gil(query.windows) {
        let key = match query.view {
            View::Processes => Key::Process(pid),
            _ => Key::Thread(pid, tid),
        };
        if let Some(sum) = sums.get_mut(&key) {
            sum.gil_held += held;
        }
    }
}

/// The sum of a thread, or of its process in the table of these.
fn sum_of_thread<'a>(sums: &'a mut HashMap<Key, Sum>, sample: &Sample, view: View) -> &'a mut Sum {
    let thread = &sample.thread;
    let process = &thread.process;
    if view == View::Threads {
        let sum = sums
            .entry(Key::Thread(process.pid, thread.tid))
            .or_default();
        if sum.name.is_empty() {
            sum.name = format!("{} ({})", thread.name, thread.tid);
        }
        sum
    } else {
        let sum = sums.entry(Key::Process(process.pid)).or_default();
        if sum.name.is_empty() {
            sum.name.clone_from(&process.name);
            sum.place.clone_from(&process.runtime);
        }
        sum
    }
}

fn frame_key(frame: &Frame, view: View) -> Key {
    let function = frame.function.clone();
    if view == View::Lines {
        Key::Line(function, frame.line)
    } else {
        Key::Function(function)
    }
}

/// Adds the sums since the start, and rows of what has only these. Of a single thread's functions there are
/// none.
fn add_since_start(rows: &mut Vec<Row>, history: &History, query: &Query<'_>) {
    let sums = history.series(query.event).since_start();
    let detail = query.detail;
    let mut since = HashMap::<Key, Since>::default();
    let mut add = |key: Key, own: u64, total: u64| {
        // It is not shown, or has none.
        if total == 0 {
            return;
        }
        let sum = since.entry(key).or_default();
        sum.own += own;
        sum.total += total;
    };
    match query.view {
        View::Functions | View::Lines if query.scope.tid.is_some() => return,
        View::Functions => {
            for ((pid, function), times) in &sums.functions {
                if query.scope.has_process(*pid) {
                    let [own, total] = [times.own, times.total].map(|it| it[detail as usize]);
                    add(Key::Function(function.clone()), own, total);
                }
            }
        }
        View::Lines => {
            for ((pid, function, line), times) in &sums.lines {
                if query.scope.has_process(*pid) {
                    let [own, total] = [times.own, times.total].map(|it| it[detail as usize]);
                    add(Key::Line(function.clone(), *line), own, total);
                }
            }
        }
        View::Threads => {
            for (&(pid, tid), &time) in &sums.threads {
                add(Key::Thread(pid, tid), time, time);
            }
        }
        View::Processes => {
            for (&pid, &(_, time)) in &sums.processes {
                add(Key::Process(pid), time, time);
            }
        }
    }
    for row in &mut *rows {
        row.since_start = Some(since.remove(&row.key).unwrap_or_default());
    }
    // Threads and processes that were not seen for long have ended, as a rule.
    if matches!(query.view, View::Functions | View::Lines) {
        rows.extend(since.into_iter().map(|(key, times)| Row {
            since_start: Some(times),
            ..Sum::default().row(key)
        }));
    }
}

#[cfg(test)]
mod tests;
