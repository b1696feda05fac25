//! The table of `agent lock`.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    fmt,
};

use crate::{
    commands::{
        deadlock::sentence,
        summary::{Named, function_text, more_rows, percent, subject_text},
    },
    profile::{Function, IDLE_MARKER, Profile, Sample, Unit},
    python::is_lock_module,
    text::{plural, printable, shortened},
    threads::DeadlockedThread,
};

/// Rows of locks, and places of a lock.
const LOCK_ROWS: usize = 20;
const PLACES: usize = 3;

/// Columns of the name of a thread.
const THREAD_WIDTH: usize = 40;

/// Columns of the name of a lock, and of a function with its place.
const NAME_WIDTH: usize = 60;
const PLACE_WIDTH: usize = 52;

/// For which locks threads waited.
pub(super) struct Table {
    head: String,
    /// A sentence for each deadlock.
    deadlocks: Vec<String>,
    locks: Vec<LockRow>,
    /// Nanoseconds that threads waited for them.
    waited: u64,
    /// Nanoseconds that threads waited for work.
    idle: u64,
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LockRow {
    /// [`None`] where it is not known.
    name: Option<String>,
    /// Nanoseconds that threads waited for it.
    waited: u64,
    /// The threads.
    threads: BTreeSet<u32>,
    /// The functions that waited, and for how long.
    places: Places,
    /// The functions that ended the waits, and how long these were.
    releases: Places,
    /// Nanoseconds of waits that no thread has ended.
    unended: u64,
}

/// Functions, unknown ones together, and times in nanoseconds; the longest first once they are
/// [sorted](sort).
type Places = Vec<(Option<Named>, u64)>;

/// Adds the time of a function.
fn add(places: &mut Places, place: Option<Named>, time: u64) {
    match places.iter_mut().find(|(known, _)| *known == place) {
        Some((_, sum)) => *sum += time,
        None => places.push((place, time)),
    }
}

/// Sorts functions by their times: of equals the first one stays first.
fn sort(places: &mut Places) {
    places.sort_by_key(|(_, time)| Reverse(*time));
}

impl Table {
    pub(super) fn new(
        elapsed: &Profile,
        waits: &Profile,
        releases: &Profile,
        deadlocks: &[Vec<DeadlockedThread>],
    ) -> Self {
        let mut locks = Vec::<LockRow>::new();
        let mut indices = HashMap::<Option<&str>, usize>::new();
        let (mut waited, mut idle) = (0, 0);
        for sample in &waits.samples {
            if is_idle(waits, sample) {
                idle += sample.value;
                continue;
            }
            waited += sample.value;
            let markers = waits.leaf_markers(sample);
            let index = *indices.entry(markers.lock).or_insert_with(|| {
                locks.push(LockRow {
                    name: markers.lock.map(str::to_owned),
                    waited: 0,
                    threads: BTreeSet::new(),
                    places: Places::new(),
                    releases: Places::new(),
                    unended: 0,
                });
                locks.len() - 1
            });
            let row = &mut locks[index];
            row.waited += sample.value;
            row.threads
                .insert(waits.threads[sample.thread.0 as usize].tid);
            let place = caller(waits, sample, markers.count);
            add(&mut row.places, place, sample.value);
        }
        for sample in &releases.samples {
            let markers = releases.leaf_markers(sample);
            let Some(index) = indices.get(&markers.lock) else {
                continue;
            };
            if is_idle(releases, sample) {
                continue;
            }
            let row = &mut locks[*index];
            if markers.wait.is_some() {
                row.unended += sample.value;
            } else {
                let place = caller(releases, sample, markers.count);
                add(&mut row.releases, place, sample.value);
            }
        }
        let known = locks.iter().filter(|row| row.name.is_some()).count();
        locks.sort_by_key(|row| Reverse(row.waited));
        for row in &mut locks {
            sort(&mut row.places);
            sort(&mut row.releases);
        }
        Self {
            head: head(elapsed, waited, known),
            deadlocks: deadlocks.iter().map(|it| deadlock(waits, it)).collect(),
            locks,
            waited,
            idle,
        }
    }
}

/// The first sentence.
fn head(elapsed: &Profile, waited: u64, locks: usize) -> String {
    let process = elapsed.processes.first();
    let name = process.map_or_else(String::new, subject_text);
    let seconds = elapsed.duration.as_secs_f64();
    let waited = text(waited);
    let locks = format!("{locks} {}", plural(locks as u64, "lock", "locks"));
    format!("{name}: in {seconds:.1} s threads waited {waited} for {locks}")
}

/// What each thread of a deadlock waits for, and who holds that.
fn deadlock(waits: &Profile, threads: &[DeadlockedThread]) -> String {
    let name = |thread: &DeadlockedThread| {
        let known = waits.threads.iter().find(|known| known.tid == thread.tid);
        let name = known.map_or("thread", |known| &known.name);
        format!(
            "{} ({})",
            shortened(&printable(name), THREAD_WIDTH),
            thread.tid
        )
    };
    let waiters = threads.iter().map(|thread| (name(thread), &*thread.lock));
    sentence(&waiters.collect::<Vec<_>>())
}

/// Whether a thread waited for work.
fn is_idle(profile: &Profile, sample: &Sample) -> bool {
    let root = profile.stacks[sample.stack.0 as usize].last();
    let root = root.and_then(|root| profile.location(*root).lines.first());
    root.is_some_and(|line| profile.function(line.function).name == IDLE_MARKER)
}

/// The innermost Python function that is not one of the modules of locks, or the innermost function.
fn caller(profile: &Profile, sample: &Sample, markers: usize) -> Option<Named> {
    let is_caller = |function: &Function| !is_lock_module(&function.file);
    Named::innermost(profile, sample, markers, is_caller)
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for deadlock in &self.deadlocks {
            writeln!(formatter, "{deadlock}")?;
        }
        writeln!(formatter, "{}", self.head)?;
        if self.locks.is_empty() {
            writeln!(formatter, "\nNo thread waited for a lock.")?;
        } else {
            writeln!(formatter, "\n{:>14}  threads  lock", "waited")?;
        }
        for row in self.locks.iter().take(LOCK_ROWS) {
            let name = row.name.as_deref().unwrap_or("[unknown]");
            writeln!(
                formatter,
                "{:>5.1}% {:>7}  {:>7}  {}",
                percent(row.waited, self.waited),
                text(row.waited),
                row.threads.len(),
                shortened(&printable(name), NAME_WIDTH),
            )?;
            write_places(formatter, "waiting", &row.places)?;
            write_places(formatter, "released", &row.releases)?;
            if row.unended != 0 {
                let ended = "by unknown threads, or not yet";
                writeln!(
                    formatter,
                    "{:>25}released {:>7} {ended}",
                    "",
                    text(row.unended)
                )?;
            }
        }
        more_rows(formatter, self.locks.len(), LOCK_ROWS, "lock", "locks")?;
        if self.idle != 0 {
            writeln!(
                formatter,
                "\nThreads that waited for work, {} in total, are left out.",
                text(self.idle)
            )?;
        }
        Ok(())
    }
}

/// Writes the functions with the longest times, after what they did.
fn write_places(formatter: &mut fmt::Formatter<'_>, what: &str, places: &Places) -> fmt::Result {
    for (place, time) in places.iter().take(PLACES) {
        let place = place.as_ref().map_or_else(
            || "[stack unknown]".to_owned(),
            |place| function_text(place, PLACE_WIDTH),
        );
        let time = text(*time);
        writeln!(formatter, "{:>25}{what:<8} {time:>7} in {place}", "")?;
    }
    let rest = places.iter().skip(PLACES);
    let (count, time) = rest.fold((0, 0), |(count, sum), (_, time)| (count + 1, sum + time));
    if count != 0 {
        let functions = plural(count, "function", "functions");
        let time = text(time);
        writeln!(
            formatter,
            "{:>25}{what:<8} {time:>7} in {count} more {functions}",
            ""
        )?;
    }
    Ok(())
}

fn text(nanoseconds: u64) -> String {
    Unit::Nanoseconds.text(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{
        fixtures::{example_profile, of_kind, with_waits},
        kinds::{lock, lock_release, wall},
    };

    #[test]
    fn locks_are_sorted_by_the_time_that_threads_waited_for_them() {
        let waits = [
            (0, "[lock: Pool.jobs (Queue at 0x7f00)]"),
            (1, "[lock: Pool.jobs (Queue at 0x7f00)]"),
            (2, "[lock: Lock at 0x7f80]"),
            (4, "[waiting: lock]"),
            (6, "[lock: a\u{1b}[31m (RLock at 0x7fc0)]"),
        ];
        let releases = [
            (0, "[releases: Pool.jobs (Queue at 0x7f00)]"),
            (1, "[lock: Pool.jobs (Queue at 0x7f00)]"),
            (2, "[releases: Lock at 0x7f80]"),
            (4, "[waiting: lock]"),
            (6, "[releases: a\u{1b}[31m (RLock at 0x7fc0)]"),
        ];
        let of = |markers: &[(usize, &str)], kind| {
            let mut profile = with_waits(example_profile("app.py"), markers);
            profile.samples = [0, 1, 2, 4, 6].map(|sample| profile.samples[sample]).into();
            of_kind(profile, kind)
        };
        let elapsed = of_kind(example_profile("app.py"), &wall::KIND);
        let waits = of(&waits, &lock::KIND);
        let releases = of(&releases, &lock_release::KIND);
        let table = Table::new(&elapsed, &waits, &releases, &[]);
        assert_eq!(
            table.to_string(),
            "\
python3.12 (pid 4242, CPython 3.12.1): in 10.0 s threads waited 2.15 s for 3 locks

        waited  threads  lock
 69.8%  1.50 s        1  Pool.jobs (Queue at 0x7f00)
                         waiting   1.50 s in fib  app.py:7
                         released  1.20 s in fib  app.py:7
                         released  0.30 s by unknown threads, or not yet
 23.3%  0.50 s        1  a\\u{1b}[31m (RLock at 0x7fc0)
                         waiting   0.50 s in loads  /usr/lib/python3.12/json/__init__.py:299
                         released  0.50 s in loads  /usr/lib/python3.12/json/__init__.py:299
  4.7%  0.10 s        1  Lock at 0x7f80
                         waiting   0.10 s in Rows.load.<locals>.<lambda>  app.py:14
                         released  0.10 s in Rows.load.<locals>.<lambda>  app.py:14
  2.3%  0.05 s        1  [unknown]
                         waiting   0.05 s in main  app.py:3
                         released  0.05 s by unknown threads, or not yet
"
        );
    }

    #[test]
    fn a_deadlock_is_a_line_above_all() {
        let elapsed = of_kind(example_profile("app.py"), &wall::KIND);
        let waits = of_kind(example_profile("app.py"), &lock::KIND);
        let thread = |tid, lock: &str| DeadlockedThread {
            tid,
            lock: lock.to_owned(),
        };
        let known = waits.threads[0].tid;
        let deadlocks = [vec![thread(known, "A.first"), thread(1, "B\u{1b}.second")]];
        let text = Table::new(&elapsed, &waits, &waits, &deadlocks).to_string();
        let name = &waits.threads[0].name;
        let expected = format!(
            "Deadlock: {name} ({known}) waits for A.first, held by thread (1), which waits for \
             B\\u{{1b}}.second, held by {name} ({known})"
        );
        assert_eq!(text.lines().next(), Some(&*expected));
    }

    #[test]
    fn that_nobody_waited_is_said() {
        let elapsed = of_kind(example_profile("app.py"), &wall::KIND);
        let mut waits = of_kind(example_profile("app.py"), &lock::KIND);
        waits.samples.clear();
        let text = Table::new(&elapsed, &waits, &waits, &[]).to_string();
        assert!(text.ends_with("\nNo thread waited for a lock.\n"), "{text}");
    }
}
