//! Samples of some time → a profile.
//!
//! Samples are counted by the hashes of their stacks, by thread and by how the walks ended; what a
//! collision of hashes does is told in [`agent_common::hash`]. The stacks of Python and of native
//! frames are joined when the profile is made. Stacks that read the same in words, because their
//! Python frames stand on the same lines and their native ones at the same addresses, are one stack
//! of the profile, whichever processes they are of.
//!
//! Invariants: a thread is known by its process and its id, for the id of a thread that has ended
//! can become that of another process's; every sample that was counted is in the profile or in
//! [`Profile::left_out`].

mod build;
mod filter;
mod python;
mod resolve;
#[cfg(test)]
mod tests;
mod unwinding;
mod whole;
mod window;

use std::{
    collections::HashMap,
    mem,
    time::{Duration, SystemTime},
};

use agent_common::record::{NativeUnwindStatus, PythonUnwindStatus, Sample};

use self::whole::Sampled;
pub use self::{
    filter::{Filter, NoSuchThread, SeenThread, ThreadFilter},
    resolve::{Resolve, unknown},
    window::Window,
};
use crate::{
    generations::Generations,
    profile::{LeftOut, Process, Profile},
    record::{NativeStack, Stack},
};

/// What has been sampled so far.
#[derive(Debug, Default)]
pub struct Aggregator {
    window: Window,
    /// Windows that began and end at other times, each with its number.
    others: Vec<(u64, Window)>,
    /// How many of these there were.
    opened: u64,
    stacks: Generations<u64, Stack>,
    native_stacks: Generations<u64, NativeStack>,
    processes: HashMap<u32, Told>,
    /// How many processes were told of so far.
    told: usize,
    threads: Generations<ThreadKey, String>,
}

/// What samples are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    thread: ThreadKey,
    stack: u64,
    end: PythonUnwindStatus,
    native_stack: u64,
    native_end: NativeUnwindStatus,
    holds_gil: bool,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ThreadKey {
    tgid: u32,
    tid: u32,
}

/// A process that was told of.
#[derive(Clone, Debug)]
struct Told {
    /// How many others were told of before it first was.
    order: usize,
    /// Whether it has ended.
    has_ended: bool,
    /// What was told last.
    process: Process,
}

/// What a profile says about itself.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// When sampling began.
    pub start: SystemTime,
    /// For how long samples were taken.
    pub duration: Duration,
    /// CPU time that one sample stands for.
    pub period: Duration,
}

impl Aggregator {
    /// Counts a sample.
    pub fn add_sample(&mut self, sample: &Sample) {
        let key = Key {
            thread: ThreadKey {
                tgid: sample.tgid,
                tid: sample.tid,
            },
            stack: sample.stack,
            end: sample.python_status,
            native_stack: sample.native_stack,
            native_end: sample.native_status,
            holds_gil: sample.holds_gil != 0,
        };
        let weight = u64::from(sample.weight);
        for (_, window) in &mut self.others {
            window.add(key, weight);
        }
        self.window.add(key, weight);
    }

    /// Begins a window besides the one that there always is; gives its number.
    pub fn open_window(&mut self) -> u64 {
        self.opened += 1;
        self.others.push((self.opened, Window::default()));
        self.opened
    }

    /// Ends a window that was begun.
    pub fn close_window(&mut self, number: u64) -> Option<Window> {
        let index = self.others.iter().position(|(known, _)| *known == number)?;
        Some(self.others.swap_remove(index).1)
    }

    /// Learns a stack that samples refer to.
    pub fn add_stack(&mut self, stack: Stack) {
        self.stacks.insert(stack.hash, stack);
    }

    /// Learns a native stack that samples refer to.
    pub fn add_native_stack(&mut self, stack: NativeStack) {
        self.native_stacks.insert(stack.hash, stack);
    }

    /// Learns what a process is. What was learned last holds for all samples with its id: a
    /// program that was executed is what its process is.
    ///
    /// A profile has the processes in the order in which they were first told of, then, named by
    /// their ids, those that never were.
    pub fn add_process(&mut self, process: Process) {
        let order = self.told;
        let told = self.processes.entry(process.pid).or_insert_with(|| {
            self.told += 1;
            Told {
                order,
                has_ended: false,
                process: Process::default(),
            }
        });
        told.has_ended = false;
        told.process = process;
    }

    /// Learns that a process has ended; it is known until [`Self::forget_ended`].
    pub fn end_process(&mut self, pid: u32) {
        if let Some(told) = self.processes.get_mut(&pid) {
            told.has_ended = true;
        }
    }

    /// Forgets the processes that have ended, and gives their ids.
    pub fn forget_ended(&mut self) -> Vec<u32> {
        let ended = self.processes.extract_if(|_, told| told.has_ended);
        ended.map(|(pid, _)| pid).collect()
    }

    /// Forgets what was not sent again for long, see [`Generations`].
    pub fn advance(&mut self) {
        self.stacks.advance();
        self.native_stacks.advance();
        self.threads.advance();
    }

    /// How many stacks are known.
    #[must_use]
    pub fn known_stacks(&self) -> usize {
        self.stacks.len() + self.native_stacks.len()
    }

    /// Learns the name of a thread of a process, both of which are given by their ids.
    pub fn add_thread(&mut self, process: u32, tid: u32, name: String) {
        let thread = ThreadKey { tgid: process, tid };
        self.threads.insert(thread, name);
    }

    /// Notes a record that could not be understood.
    pub fn add_malformed(&mut self) {
        self.window.malformed_records += 1;
    }

    /// Ends a window: gives what was counted since the last one ended.
    pub fn take_window(&mut self) -> Window {
        mem::take(&mut self.window)
    }

    /// Sampling periods counted so far, with those that a filter will leave out.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.window.samples
    }

    /// The threads that were sampled, the one with the most samples first.
    #[must_use]
    pub fn seen_threads(&self) -> Vec<SeenThread> {
        let mut samples = HashMap::<ThreadKey, u64>::new();
        for (key, count) in &self.window.counts {
            *samples.entry(key.thread).or_default() += count;
        }
        let mut seen: Vec<_> = samples
            .into_iter()
            .map(|(thread, samples)| SeenThread {
                tgid: thread.tgid,
                tid: thread.tid,
                name: self.thread_name(thread).to_owned(),
                samples,
            })
            .collect();
        seen.sort_unstable_by(|a, b| (b.samples, a.tgid, a.tid).cmp(&(a.samples, b.tgid, b.tid)));
        seen
    }

    /// Whether a filter leaves anything of what was sampled as far as threads go.
    ///
    /// # Errors
    ///
    /// When there are samples, and none is of a thread that the filter asks for.
    pub fn check_filter(&self, filter: &Filter) -> Result<(), NoSuchThread> {
        let Some(wanted) = &filter.thread else {
            return Ok(());
        };
        let seen = self.seen_threads();
        let is_wanted = |thread: &SeenThread| wanted.matches(thread.tid, &thread.name);
        if seen.is_empty() || seen.iter().any(is_wanted) {
            return Ok(());
        }
        Err(NoSuchThread {
            wanted: wanted.clone(),
            seen,
        })
    }

    /// Makes the profile of the samples that `filter` takes; `resolve` puts frames into words.
    ///
    /// What the kernel half itself counted as lost is not known here and left at 0.
    pub fn profile(&self, about: &About, filter: &Filter, resolve: &mut impl Resolve) -> Profile {
        self.profile_of(&self.window, about, filter, resolve)
    }

    /// The same of the samples of a window that has ended, or of a part of it.
    pub fn profile_of(
        &self,
        window: &Window,
        about: &About,
        filter: &Filter,
        resolve: &mut impl Resolve,
    ) -> Profile {
        let mut builder = build::Builder::default();
        let mut left_out = LeftOut::default();
        let mut keys: Vec<(&Key, u64)> = window
            .counts
            .iter()
            .map(|(key, count)| (key, *count))
            .collect();
        keys.sort_unstable_by_key(|(key, _)| {
            let order = self.order(key.thread.tgid);
            let ends = (key.end.0, key.native_end.0);
            let stacks = (key.stack, key.native_stack);
            (order, key.thread, stacks, ends, key.holds_gil)
        });
        for (key, count) in keys {
            let name = self.thread_name(key.thread);
            if !filter.takes_thread(key.thread.tid, name) {
                left_out.other_threads += count;
            } else if filter.gil_only && !key.holds_gil {
                left_out.without_gil += count;
            } else {
                let process = builder.process(key.thread.tgid, || self.process(key.thread.tgid));
                let thread = builder.thread(process, key.thread.tid, name);
                let sampled = Sampled {
                    key,
                    python: self.stacks.get(&key.stack),
                    native: self.native_stacks.get(&key.native_stack),
                    process,
                    is_python: self.is_python(key.thread.tgid),
                    count,
                };
                let stack = sampled.stack(&mut builder, resolve);
                builder.count(stack, thread, count);
            }
        }
        if builder.is_empty()
            && let Some(first) = self.processes.values().min_by_key(|told| told.order)
        {
            builder.process(first.process.pid, || first.process.clone());
        }
        let mut profile = builder.finish(*about);
        profile.losses.malformed_records = window.malformed_records;
        profile.losses.lost_samples = window.lost_samples;
        profile.left_out = left_out;
        profile
    }

    /// The last name of a thread that was learned; empty if none was.
    fn thread_name(&self, thread: ThreadKey) -> &str {
        self.threads.get(&thread).map_or("", String::as_str)
    }

    fn is_python(&self, tgid: u32) -> bool {
        let told = self.processes.get(&tgid);
        told.is_some_and(|told| told.process.is_python)
    }

    /// Where a process stands among those of a profile.
    fn order(&self, tgid: u32) -> usize {
        self.processes
            .get(&tgid)
            .map_or(usize::MAX, |told| told.order)
    }

    fn process(&self, tgid: u32) -> Process {
        self.processes.get(&tgid).map_or_else(
            || Process {
                pid: tgid,
                name: tgid.to_string(),
                ..Process::default()
            },
            |told| told.process.clone(),
        )
    }
}
