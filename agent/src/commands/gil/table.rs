//! The table of `agent gil`.

use std::{cmp::Reverse, collections::HashMap, fmt};

use super::profiles::Profiles;
use crate::{
    commands::summary::{Named, function_text, more_rows, percent, subject_text},
    profile::{Profile, Sample, Unit, Wait},
    text::{plural, printable, shortened},
    threads::GilTimes,
};

/// Rows of threads, of places, and blocked threads of a place.
const THREAD_ROWS: usize = 20;
const PLACE_ROWS: usize = 10;
const BLOCKED: usize = 3;

/// Columns of a name of a thread, of a function with its place, and of a line.
const NAME_WIDTH: usize = 30;
const PLACE_WIDTH: usize = 44;

/// What threads did with the GIL, and where they kept others waiting for it.
pub(super) struct Table {
    head: String,
    threads: Vec<ThreadRow>,
    places: Vec<PlaceRow>,
    /// Nanoseconds that threads waited for it.
    waited: u64,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ThreadRow {
    name: String,
    tid: u32,
    /// Nanoseconds.
    held: u64,
    waited: u64,
    longest_held: u64,
    longest_waited: u64,
}

/// A function of a thread that held the GIL while others waited.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PlaceRow {
    function: Option<Named>,
    /// The name of the thread that held it.
    thread: String,
    /// Nanoseconds that others waited.
    waited: u64,
    /// The threads that waited, and for how long.
    blocked: Vec<(String, u64)>,
}

impl Table {
    pub(super) fn new(profiles: &Profiles, times: &GilTimes) -> Self {
        let Profiles {
            elapsed,
            blamed,
            held,
        } = profiles;
        let mut threads = HashMap::<(u32, String), ThreadRow>::new();
        let mut row = |profile: &Profile, sample: &Sample, add: &dyn Fn(&mut ThreadRow)| {
            let thread = &profile.threads[sample.thread.0 as usize];
            let pid = profile.processes[thread.process.0 as usize].pid;
            let key = (thread.tid, thread.name.clone());
            add(threads.entry(key).or_insert_with(|| {
                let longest = times.of(pid, thread.tid);
                ThreadRow {
                    name: thread.name.clone(),
                    tid: thread.tid,
                    held: 0,
                    waited: 0,
                    longest_held: longest.held_ns,
                    longest_waited: longest.waited_ns,
                }
            }));
        };
        for sample in &elapsed.samples {
            let waits = elapsed.wait_of(sample) == Some(Wait::Gil);
            row(elapsed, sample, &|row| {
                row.waited += if waits { sample.value } else { 0 };
            });
        }
        for sample in &held.samples {
            row(held, sample, &|row| row.held += sample.value);
        }
        let mut threads: Vec<_> = threads.into_values().collect();
        threads.sort_by_key(|row| (Reverse((row.held, row.waited)), row.tid));
        let waited = blamed.total_value();
        Self {
            head: head(elapsed, held.total_value(), waited, threads.len()),
            threads,
            places: places(blamed),
            waited,
        }
    }
}

/// The first sentence.
fn head(elapsed: &Profile, held: u64, waited: u64, threads: usize) -> String {
    let process = elapsed.processes.first();
    let name = process.map_or_else(String::new, subject_text);
    let duration = elapsed.duration;
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let threads = format!("{threads} {}", plural(threads as u64, "thread", "threads"));
    let seconds = duration.as_secs_f64();
    format!(
        "{name}: {threads} in {seconds:.1} s; the GIL was held {:.1}% of the time, and threads waited \
         for it {}",
        percent(held, nanoseconds),
        text(waited),
    )
}

/// Where threads held it while others waited, the longest first.
fn places(blamed: &Profile) -> Vec<PlaceRow> {
    let mut rows = Vec::<PlaceRow>::new();
    let mut indices = HashMap::<(Option<Named>, &str), usize>::new();
    for sample in &blamed.samples {
        let markers = blamed.leaf_markers(sample);
        let thread = &*blamed.threads[sample.thread.0 as usize].name;
        let is_held = markers.blocks.is_some();
        let function = if is_held {
            Named::innermost(blamed, sample, markers.count, |_| true)
        } else {
            None
        };
        let thread = if is_held { thread } else { "" };
        let key = (function.clone(), thread);
        let index = *indices.entry(key).or_insert_with(|| {
            rows.push(PlaceRow {
                function,
                thread: thread.to_owned(),
                waited: 0,
                blocked: Vec::new(),
            });
            rows.len() - 1
        });
        let row = &mut rows[index];
        row.waited += sample.value;
        let Some(blocked) = markers.blocks else {
            continue;
        };
        match row.blocked.iter_mut().find(|(name, _)| name == blocked) {
            Some((_, waited)) => *waited += sample.value,
            None => row.blocked.push((blocked.to_owned(), sample.value)),
        }
    }
    for row in &mut rows {
        row.blocked
            .sort_by(|(a, one), (b, other)| other.cmp(one).then_with(|| a.cmp(b)));
    }
    // The sort is stable: of equals the first one stays first.
    rows.sort_by_key(|row| Reverse(row.waited));
    rows
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.head)?;
        writeln!(
            formatter,
            "\n{:>8}  {:>8}  {:>12}  {:>12}  thread",
            "held", "waited", "longest hold", "longest wait"
        )?;
        for row in self.threads.iter().take(THREAD_ROWS) {
            writeln!(
                formatter,
                "{:>8}  {:>8}  {:>12}  {:>12}  {} ({})",
                text(row.held),
                text(row.waited),
                text(row.longest_held),
                text(row.longest_waited),
                shortened(&printable(&row.name), NAME_WIDTH),
                row.tid
            )?;
        }
        more_rows(
            formatter,
            self.threads.len(),
            THREAD_ROWS,
            "thread",
            "threads",
        )?;
        if self.places.is_empty() {
            return writeln!(formatter, "\nNo thread waited for the GIL.");
        }
        writeln!(
            formatter,
            "\n{:>14}  held in, while others waited",
            "waited"
        )?;
        for row in self.places.iter().take(PLACE_ROWS) {
            let share = percent(row.waited, self.waited);
            write!(formatter, "{share:>5.1}% {:>8}  ", text(row.waited))?;
            if row.blocked.is_empty() {
                writeln!(formatter, "[handed over: nobody held it]")?;
                continue;
            }
            let function = row.function.as_ref().map_or_else(
                || "[stack unknown]".to_owned(),
                |function| function_text(function, PLACE_WIDTH),
            );
            let thread = match &*row.thread {
                "" => "unknown thread".into(),
                thread => shortened(&printable(thread), NAME_WIDTH).into_owned(),
            };
            writeln!(formatter, "{function}, by {thread}")?;
            let shown = row.blocked.iter().take(BLOCKED).map(|(name, waited)| {
                let name = printable(name);
                format!("{} {}", shortened(&name, NAME_WIDTH), text(*waited))
            });
            let shown = shown.collect::<Vec<_>>().join(", ");
            let rest = match row.blocked.len().saturating_sub(BLOCKED) {
                0 => String::new(),
                rest => format!(" and {rest} more"),
            };
            writeln!(formatter, "{:>16}blocked {shown}{rest}", "")?;
        }
        more_rows(formatter, self.places.len(), PLACE_ROWS, "place", "places")
    }
}

fn text(nanoseconds: u64) -> String {
    Unit::Nanoseconds.text(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{
        fixtures::{PERIOD_NS, example_profile, of_kind, with_waits},
        kinds::{gil, gil_held, wall},
    };

    /// `MainThread` has the GIL in `fib` and once in `main`, and `worker` waits.
    fn profiles() -> Profiles {
        let waits = [(6, "[waiting: gil]"), (8, "[waiting: sleep]")];
        let elapsed = with_waits(example_profile("app.py"), &waits);
        let mut held = example_profile("app.py");
        held.samples.truncate(6);
        let blocks = [
            (0, "[blocks: worker]"),
            (1, "[blocks: \u{1b}[31m]"),
            (2, "[waiting: sleep]"),
            (2, "[blocks: worker]"),
            (4, "[blocks: worker]"),
            (6, "[waiting: gil]"),
        ];
        let mut blamed = with_waits(example_profile("app.py"), &blocks);
        blamed.samples = [0, 1, 2, 4, 6].map(|sample| blamed.samples[sample]).into();
        Profiles {
            elapsed: of_kind(elapsed, &wall::KIND),
            blamed: of_kind(blamed, &gil::KIND),
            held: of_kind(held, &gil_held::KIND),
        }
    }

    #[test]
    fn threads_are_sorted_by_the_time_with_the_gil_and_places_by_that_of_others() {
        let times = GilTimes::default();
        times.add(4242, 4242, 70 * PERIOD_NS, true, false);
        times.add(4242, 4243, 50 * PERIOD_NS, false, true);
        let text = Table::new(&profiles(), &times).to_string();
        assert_eq!(
            text,
            "\
python3.12 (pid 4242, CPython 3.12.1): 4 threads in 10.0 s; the GIL was held 20.8% of the time, \
and threads waited for it 2.15 s

    held    waited  longest hold  longest wait  thread
  2.08 s    0.00 s        0.70 s        0.00 s  MainThread (4242)
  0.00 s    0.50 s        0.00 s        0.50 s  worker (4243)
  0.00 s    0.00 s        0.00 s        0.00 s  worker (4244)
  0.00 s    0.00 s        0.00 s        0.00 s  # naïve; 线程 (4245)

        waited  held in, while others waited
 69.8%   1.50 s  fib  app.py:7, by MainThread
                blocked worker 1.20 s, \\u{1b}[31m 0.30 s
 23.3%   0.50 s  [handed over: nobody held it]
  4.7%   0.10 s  Rows.load.<locals>.<lambda>  app.py:14, by MainThread
                blocked worker 0.10 s
  2.3%   0.05 s  main  app.py:3, by MainThread
                blocked worker 0.05 s
"
        );
    }

    #[test]
    fn that_nobody_waited_is_said() {
        let mut profiles = profiles();
        profiles.blamed.samples.clear();
        let text = Table::new(&profiles, &GilTimes::default()).to_string();
        assert!(
            text.ends_with("\nNo thread waited for the GIL.\n"),
            "{text}"
        );
    }
}
