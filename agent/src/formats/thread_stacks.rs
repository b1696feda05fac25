//! The stacks of each thread, for formats that have threads.
//!
//! Invariants: the thread with the largest total is the first one; the stacks of a thread are distinct and
//! sorted by their callers. Stacks of one thread at a time are built, so that a profile of a host needs no
//! second copy of all of its stacks.

use std::{borrow::Cow, cmp::Reverse};

use super::shown_frame::FrameTable;
use crate::{
    profile::{Amount, Profile, Sample, Thread, ThreadIndex},
    text::printable,
};

/// The samples of a thread.
pub(super) struct ThreadSamples<'a> {
    /// The thread.
    pub(super) thread: &'a Thread,
    /// Its index in the profile.
    pub(super) index: ThreadIndex,
    samples: Vec<&'a Sample>,
}

/// A stack: indices of a [`FrameTable`], the root first, and what its samples measured.
pub(super) type MeasuredStack = (Vec<u32>, Amount);

/// The samples of all threads that have any.
pub(super) fn by_thread(profile: &Profile) -> Vec<ThreadSamples<'_>> {
    let samples = |(index, thread)| ThreadSamples {
        thread,
        index: ThreadIndex(index),
        samples: Vec::new(),
    };
    let mut threads: Vec<_> = (0..).zip(&profile.threads).map(samples).collect();
    for sample in &profile.samples {
        threads[sample.thread.0 as usize].samples.push(sample);
    }
    threads.retain(|thread| !thread.samples.is_empty());
    threads.sort_by_cached_key(|thread| Reverse(thread.total()));
    threads
}

impl ThreadSamples<'_> {
    /// Sum of the values.
    pub(super) fn total(&self) -> u64 {
        let values = self.samples.iter().map(|sample| sample.value);
        values.fold(0, u64::saturating_add)
    }

    /// Its distinct stacks.
    pub(super) fn stacks(&self, table: &FrameTable<'_>) -> Vec<MeasuredStack> {
        let stacks = &table.profile().stacks;
        let measured = self.samples.iter().map(|sample| {
            let stack = table.stack(&stacks[sample.stack.0 as usize]);
            (stack, sample.amount())
        });
        let mut measured: Vec<_> = measured.collect();
        measured.sort_by(|(one, _), (other, _)| one.cmp(other));
        measured.dedup_by(|(stack, amount), (kept, sum)| {
            let is_same = stack == kept;
            if is_same {
                *sum += *amount;
            }
            is_same
        });
        measured
    }

    /// What it is [called](thread_title).
    pub(super) fn title(&self, profile: &Profile) -> String {
        thread_title(profile, self.thread)
    }
}

/// Name and id of a thread, with several processes those of the process too:
/// `python3.12 (4242), MainThread (4242)`. Where it stands for all threads of a process, the process.
#[must_use]
pub fn thread_title(profile: &Profile, thread: &Thread) -> String {
    let Thread { process, tid, name } = thread;
    let thread = (*tid != 0).then(|| with_id(name, *tid));
    match thread {
        Some(thread) if profile.processes.len() == 1 => thread,
        Some(thread) => format!("{}, {thread}", process_title(profile, process.0)),
        None => process_title(profile, process.0),
    }
}

/// The ids of the process and the thread; one that stands for all threads of its process has the id of that.
pub(super) fn ids(profile: &Profile, thread: &Thread) -> (u32, u32) {
    let pid = profile.processes[thread.process.0 as usize].pid;
    match thread.tid {
        0 => (pid, pid),
        tid => (pid, tid),
    }
}

/// Name and id of the process with an index.
pub(super) fn process_title(profile: &Profile, index: u32) -> String {
    let process = &profile.processes[index as usize];
    with_id(&process.name, process.pid)
}

/// The name of a process or a thread; a question mark where it has none.
pub(super) fn printable_name(name: &str) -> Cow<'_, str> {
    match name.trim() {
        "" => "?".into(),
        name => printable(name),
    }
}

/// `name (id)`, or only the name where the id stands for several.
pub(super) fn with_id(name: &str, id: u32) -> String {
    let name = printable_name(name);
    match id {
        0 => name.into_owned(),
        id => format!("{name} ({id})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        formats::{function_names::FunctionNames, options::EncodeOptions},
        profile::fixtures::{example_processes, example_profile},
    };

    #[test]
    fn threads_have_their_stacks() {
        let profile = example_profile("/srv/app/main.py");
        let names = FunctionNames::Plain.of(&profile);
        let table = FrameTable::new(&profile, &names, EncodeOptions::default());
        let threads = by_thread(&profile);
        let titles: Vec<_> = threads.iter().map(|it| it.title(&profile)).collect();
        assert_eq!(
            titles,
            [
                "MainThread (4242)",
                "worker (4243)",
                "worker (4244)",
                "# naïve; 线程 (4245)"
            ]
        );
        let mut total = 0;
        for thread in &threads {
            let stacks = thread.stacks(&table);
            assert!(stacks.is_sorted_by(|one, other| one.0 < other.0));
            let sum: u64 = stacks.iter().map(|(_, amount)| amount.value).sum();
            assert_eq!(sum, thread.total());
            total += sum;
        }
        assert_eq!(total, profile.total_value());
    }

    #[test]
    fn several_processes_are_named() {
        let profile = example_processes("/srv/app/main.py");
        let threads = by_thread(&profile);
        let titles: Vec<_> = threads.iter().map(|it| it.title(&profile)).collect();
        assert_eq!(titles[0], "python3.12 (4242), MainThread (4242)");
        assert!(titles.contains(&"#; s\\nh (4301), sh (4301)".to_owned()));
    }

    #[test]
    fn all_threads_of_a_process_have_its_name() {
        let mut profile = example_profile("/srv/app/main.py");
        profile.threads[0].tid = 0;
        assert_eq!(by_thread(&profile)[0].title(&profile), "python3.12 (4242)");
    }
}
