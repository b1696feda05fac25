//! The table of `agent gil`.

use std::{borrow::Cow, cmp::Reverse, collections::HashMap, fmt};

use super::{place_names::PlaceNames, profiles::Profiles};
use crate::{
    commands::summary::{
        Named, function_text, more_rows, percent, similar, subject_text, thread_name,
    },
    profile::{Profile, Sample, Thread, Unit, Wait},
    text::{plural, shortened},
    threads::GilTimes,
};

/// Rows of threads, of places, and blocked threads of a place.
const THREAD_ROWS: usize = 20;
const PLACE_ROWS: usize = 10;
const BLOCKED: usize = 3;

/// Columns of a name of a thread, of a function with its place, and of a line.
const NAME_WIDTH: usize = 30;
const PLACE_WIDTH: usize = 44;

/// What a thread is called that holds the GIL and that no pass has met.
const UNKNOWN_THREAD: &str = "unknown thread";

/// For what threads keep each other waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The GIL.
    Gil,
    /// Without a GIL: that one of them stops all others.
    StopTheWorld,
}

/// What threads did with the GIL, and where they kept others waiting for it.
pub(super) struct Table {
    subject: Subject,
    head: String,
    threads: Vec<ThreadRow>,
    places: Vec<PlaceRow>,
    /// Nanoseconds that threads waited for it.
    waited: u64,
}

/// A thread, or many with similar names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ThreadRow {
    name: String,
    /// That of the first one.
    tid: u32,
    /// How many there are.
    count: usize,
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
    pub(super) fn new(profiles: &Profiles, times: &GilTimes, subject: Subject) -> Self {
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
                    name: shown_name(thread).into_owned(),
                    tid: thread.tid,
                    count: 1,
                    held: 0,
                    waited: 0,
                    longest_held: longest.held_ns,
                    longest_waited: longest.waited_ns,
                }
            }));
        };
        for sample in &elapsed.samples {
            let wait = elapsed.wait_of(sample);
            let waits = matches!(wait, Some(Wait::Gil | Wait::StopTheWorld));
            row(elapsed, sample, &|row| {
                row.waited += if waits { sample.value } else { 0 };
            });
        }
        for sample in &held.samples {
            row(held, sample, &|row| row.held += sample.value);
        }
        let count = threads.values().filter(|row| row.tid != 0).count();
        let mut threads = joined(threads.into_values());
        threads.sort_by_key(|row| (Reverse((row.held, row.waited)), row.tid));
        let waited = blamed.total_value();
        let what = match subject {
            Subject::Gil => {
                let nanoseconds = u64::try_from(elapsed.duration.as_nanos()).unwrap_or(u64::MAX);
                format!(
                    "the GIL was held {:.1}% of the time, and threads waited for it {}",
                    percent(held.total_value(), nanoseconds),
                    text(waited)
                )
            }
            Subject::StopTheWorld => {
                format!(
                    "there is no GIL, and threads were stopped by others for {}",
                    text(waited)
                )
            }
        };
        Self {
            subject,
            head: head(elapsed, &what, count),
            threads,
            places: places(blamed, &PlaceNames::of(elapsed)),
            waited,
        }
    }
}

/// The name of a thread for people.
fn shown_name(thread: &Thread) -> Cow<'_, str> {
    if thread.tid == 0 {
        UNKNOWN_THREAD.into()
    } else {
        thread_name(&thread.name)
    }
}

/// Rows in which many threads whose names differ only by numbers, such as those of requests, are one.
fn joined(rows: impl Iterator<Item = ThreadRow>) -> Vec<ThreadRow> {
    let rows = similar(rows, |row| &*row.name).flat_map(|(common, mut members)| {
        let Some(name) = common else {
            return members;
        };
        members.sort_by_key(|row| row.tid);
        let sum = |of: fn(&ThreadRow) -> u64| members.iter().map(of).fold(0, u64::saturating_add);
        let longest = |of: fn(&ThreadRow) -> u64| members.iter().map(of).max().unwrap_or(0);
        vec![ThreadRow {
            name,
            tid: members[0].tid,
            count: members.len(),
            held: sum(|row| row.held),
            waited: sum(|row| row.waited),
            longest_held: longest(|row| row.longest_held),
            longest_waited: longest(|row| row.longest_waited),
        }]
    });
    rows.collect()
}

/// The first sentence.
fn head(elapsed: &Profile, what: &str, threads: usize) -> String {
    let process = elapsed.processes.first();
    let name = process.map_or_else(String::new, subject_text);
    let threads = format!("{threads} {}", plural(threads as u64, "thread", "threads"));
    let seconds = elapsed.duration.as_secs_f64();
    format!("{name}: {threads} in {seconds:.1} s; {what}")
}

/// Where threads held it while others waited, the longest first.
fn places(blamed: &Profile, names: &PlaceNames) -> Vec<PlaceRow> {
    let mut rows = Vec::<PlaceRow>::new();
    let mut indices = HashMap::<(Option<Named>, Cow<'_, str>), usize>::new();
    for sample in &blamed.samples {
        let markers = blamed.leaf_markers(sample);
        let thread = &blamed.threads[sample.thread.0 as usize];
        let is_held = markers.blocks.is_some();
        let function = if is_held {
            Named::innermost(blamed, sample, markers.count, |_| true)
        } else {
            None
        };
        let thread = match thread.tid {
            _ if !is_held => "".into(),
            0 => UNKNOWN_THREAD.into(),
            _ => names.shown(&thread.name),
        };
        let key = (function.clone(), thread.clone());
        let index = *indices.entry(key).or_insert_with(|| {
            rows.push(PlaceRow {
                function,
                thread: thread.into_owned(),
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
        let blocked = names.shown(blocked);
        match row.blocked.iter_mut().find(|(name, _)| *name == blocked) {
            Some((_, waited)) => *waited += sample.value,
            None => row.blocked.push((blocked.into_owned(), sample.value)),
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

impl Table {
    fn write_threads(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = |texts: [&str; 4]| match self.subject {
            Subject::Gil => {
                let [held, waited, longest_held, longest_waited] = texts;
                format!("{held:>8}  {waited:>8}  {longest_held:>12}  {longest_waited:>12}")
            }
            Subject::StopTheWorld => format!("{:>8}  {:>12}", texts[1], texts[3]),
        };
        let heads = match self.subject {
            Subject::Gil => ["held", "waited", "longest hold", "longest wait"],
            Subject::StopTheWorld => ["", "stopped", "", "longest stop"],
        };
        writeln!(formatter, "\n{}  thread", columns(heads))?;
        for row in self.threads.iter().take(THREAD_ROWS) {
            let times = [row.held, row.waited, row.longest_held, row.longest_waited];
            let times = times.map(text);
            let name = shortened(&row.name, NAME_WIDTH);
            let columns = columns(times.each_ref().map(String::as_str));
            match (row.count, row.tid) {
                (1, 0) => writeln!(formatter, "{columns}  {name}")?,
                (1, tid) => writeln!(formatter, "{columns}  {name} ({tid})")?,
                (count, _) => writeln!(formatter, "{columns}  {count} of {name}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.head)?;
        self.write_threads(formatter)?;
        let more = self.threads.iter().skip(THREAD_ROWS).map(|row| row.count);
        let threads = THREAD_ROWS + more.sum::<usize>();
        more_rows(formatter, threads, THREAD_ROWS, "thread", "threads")?;
        if self.places.is_empty() {
            return writeln!(
                formatter,
                "\n{}",
                match self.subject {
                    Subject::Gil => "No thread waited for the GIL.",
                    Subject::StopTheWorld => "No thread was stopped by another one.",
                }
            );
        }
        let (waited, place) = match self.subject {
            Subject::Gil => ("waited", "held in, while others waited"),
            Subject::StopTheWorld => ("stopped", "others in"),
        };
        writeln!(formatter, "\n{waited:>14}  {place}")?;
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
            let thread = shortened(&row.thread, NAME_WIDTH);
            writeln!(formatter, "{function}, by {thread}")?;
            let shown =
                row.blocked.iter().take(BLOCKED).map(|(name, waited)| {
                    format!("{} {}", shortened(name, NAME_WIDTH), text(*waited))
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
        ThreadIndex,
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
        let text = Table::new(&profiles(), &times, Subject::Gil).to_string();
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
    fn threads_that_differ_by_numbers_are_one_row_and_the_places_of_all_are_one() {
        let mut profiles = profiles();
        let Profiles {
            elapsed,
            blamed,
            held,
        } = &mut profiles;
        let times = GilTimes::default();
        for profile in [elapsed, blamed, held] {
            let (main, sample) = (profile.threads[0].clone(), profile.samples[0]);
            profile.threads.truncate(1);
            profile.samples.clear();
            for number in 1..=10 {
                let tid = 5000 + number;
                let name = format!("Thread-{number} (handle)");
                profile.threads.push(Thread {
                    tid,
                    name,
                    ..main.clone()
                });
                profile.samples.push(Sample {
                    thread: ThreadIndex(number),
                    ..sample
                });
            }
            // One that no pass has met, and one that has ended before its name was read.
            for tid in [0, 6000] {
                let name = String::new();
                let thread = ThreadIndex(profile.threads.len().try_into().unwrap());
                profile.threads.push(Thread {
                    tid,
                    name,
                    ..main.clone()
                });
                profile.samples.push(Sample { thread, ..sample });
            }
        }
        for number in 1..=10 {
            let held_ns = u64::from(number) * PERIOD_NS;
            times.add(4242, 5000 + number, held_ns, true, false);
        }
        let text = Table::new(&profiles, &times, Subject::Gil).to_string();
        let rows: Vec<_> = text.lines().skip(3).collect();
        assert!(text.contains(": 11 threads in 10.0 s"), "{text}");
        assert_eq!(
            rows[0]
                .split_once("  10 of Thread-# (handle)")
                .map(|(_, end)| end),
            Some(""),
            "{text}"
        );
        assert!(rows[0].contains("        0.10 s"), "{text}");
        assert!(rows[1].ends_with("  unknown thread"), "{text}");
        assert!(rows[2].ends_with("  unnamed (6000)"), "{text}");
        let places: Vec<_> = text.lines().filter(|line| line.contains(", by ")).collect();
        let [group, other, unnamed] = &places[..] else {
            panic!("{text}");
        };
        assert!(group.ends_with(", by Thread-# (handle)"), "{text}");
        let ends = [other, unnamed].map(|line| line.rsplit(", by ").next().unwrap());
        assert_eq!(ends, ["unknown thread", "unnamed"], "{text}");
    }

    #[test]
    fn without_a_gil_it_says_who_stops_the_others() {
        let waits = [(6, "[waiting: stop-the-world]"), (8, "[waiting: lock]")];
        let elapsed = with_waits(example_profile("app.py"), &waits);
        let profiles = Profiles {
            elapsed: of_kind(elapsed, &wall::KIND),
            ..profiles()
        };
        let times = GilTimes::default();
        times.add(4242, 4243, 50 * PERIOD_NS, false, true);
        let text = Table::new(&profiles, &times, Subject::StopTheWorld).to_string();
        let begin = "\
python3.12 (pid 4242, CPython 3.12.1): 4 threads in 10.0 s; there is no GIL, and threads were stopped by others for \
2.15 s

 stopped  longest stop  thread
";
        assert!(text.starts_with(begin), "{text}");
        assert!(
            text.contains("  0.50 s        0.50 s  worker (4243)\n"),
            "{text}"
        );
        assert!(text.contains("\n       stopped  others in\n"), "{text}");
    }

    #[test]
    fn that_nobody_waited_is_said() {
        let mut profiles = profiles();
        profiles.blamed.samples.clear();
        let text = Table::new(&profiles, &GilTimes::default(), Subject::Gil).to_string();
        assert!(
            text.ends_with("\nNo thread waited for the GIL.\n"),
            "{text}"
        );
    }
}
