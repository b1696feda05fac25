//! The table of `agent lock`.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    fmt,
};

use crate::{
    commands::summary::{Named, function_text, more_rows, percent, subject_text},
    profile::{FrameKind, IDLE_MARKER, Profile, Sample, Unit},
    python::is_lock_module,
    text::{plural, printable, shortened},
};

/// Rows of locks, and places of a lock.
const LOCK_ROWS: usize = 20;
const PLACES: usize = 3;

/// Columns of the name of a lock, and of a function with its place.
const NAME_WIDTH: usize = 60;
const PLACE_WIDTH: usize = 52;

/// For which locks threads waited.
pub(super) struct Table {
    head: String,
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
    places: Vec<(Option<Named>, u64)>,
}

impl Table {
    pub(super) fn new(elapsed: &Profile, waits: &Profile) -> Self {
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
                    places: Vec::new(),
                });
                locks.len() - 1
            });
            let row = &mut locks[index];
            row.waited += sample.value;
            row.threads
                .insert(waits.threads[sample.thread.0 as usize].tid);
            let place = caller(waits, sample, markers.count);
            match row.places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, waited)) => *waited += sample.value,
                None => row.places.push((place, sample.value)),
            }
        }
        let known = locks.iter().filter(|row| row.name.is_some()).count();
        // The sorts are stable: of equals the first one stays first.
        locks.sort_by_key(|row| Reverse(row.waited));
        for row in &mut locks {
            row.places.sort_by_key(|(_, waited)| Reverse(*waited));
        }
        Self {
            head: head(elapsed, waited, known),
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

/// Whether a thread waited for work.
fn is_idle(profile: &Profile, sample: &Sample) -> bool {
    let root = profile.stacks[sample.stack.0 as usize].last();
    let root = root.and_then(|root| profile.location(*root).lines.first());
    root.is_some_and(|line| profile.function(line.function).name == IDLE_MARKER)
}

/// The innermost Python function that is not one of the modules of locks, or the innermost function.
fn caller(profile: &Profile, sample: &Sample, markers: usize) -> Option<Named> {
    let stack = profile.stacks[sample.stack.0 as usize].iter();
    let mut first = None;
    for id in stack.skip(markers) {
        let location = profile.location(*id);
        for (named, line) in Named::of(profile, location)
            .into_iter()
            .zip(&location.lines)
        {
            let function = profile.function(line.function);
            if function.kind == FrameKind::Python && !is_lock_module(&function.file) {
                return Some(named);
            }
            first.get_or_insert(named);
        }
    }
    first
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            for (place, waited) in row.places.iter().take(PLACES) {
                let place = place.as_ref().map_or_else(
                    || "[stack unknown]".to_owned(),
                    |place| function_text(place, PLACE_WIDTH),
                );
                writeln!(formatter, "{:>25}{} in {place}", "", text(*waited))?;
            }
            match row.places.len().saturating_sub(PLACES) {
                0 => {}
                rest => writeln!(
                    formatter,
                    "{:>25}and in {rest} more {}",
                    "",
                    plural(rest as u64, "function", "functions")
                )?,
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

fn text(nanoseconds: u64) -> String {
    Unit::Nanoseconds.text(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{
        fixtures::{example_profile, of_kind, with_waits},
        kinds::{lock, wall},
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
        let mut profile = with_waits(example_profile("app.py"), &waits);
        profile.samples = [0, 1, 2, 4, 6].map(|sample| profile.samples[sample]).into();
        let elapsed = of_kind(example_profile("app.py"), &wall::KIND);
        let table = Table::new(&elapsed, &of_kind(profile, &lock::KIND));
        assert_eq!(
            table.to_string(),
            "\
python3.12 (pid 4242, CPython 3.12.1): in 10.0 s threads waited 2.15 s for 3 locks

        waited  threads  lock
 69.8%  1.50 s        1  Pool.jobs (Queue at 0x7f00)
                         1.50 s in fib  app.py:7
 23.3%  0.50 s        1  a\\u{1b}[31m (RLock at 0x7fc0)
                         0.50 s in loads  /usr/lib/python3.12/json/__init__.py:299
  4.7%  0.10 s        1  Lock at 0x7f80
                         0.10 s in Rows.load.<locals>.<lambda>  app.py:14
  2.3%  0.05 s        1  [unknown]
                         0.05 s in main  app.py:3
"
        );
    }

    #[test]
    fn that_nobody_waited_is_said() {
        let elapsed = of_kind(example_profile("app.py"), &wall::KIND);
        let mut waits = of_kind(example_profile("app.py"), &lock::KIND);
        waits.samples.clear();
        let text = Table::new(&elapsed, &waits).to_string();
        assert!(text.ends_with("\nNo thread waited for a lock.\n"), "{text}");
    }
}
