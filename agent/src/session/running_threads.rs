//! Elapsed time of threads that were running, that in which they held the GIL, and that of those that waited for it.
//!
//! A pass finds out that a thread runs, not where: its next sample of CPU time tells, which then stands for
//! the elapsed time too. Where the pass knows whether the thread held the GIL, only a sample tells of which
//! that is as true. What no sample has paid for at the end of a window goes to where the thread was last
//! seen running, with the GIL if it is about that.
//!
//! A short-lived thread often has no sample of CPU time, or one of what it does later: a new thread was where
//! the sample has seen it that the pass has asked for, and so was any of which there are no others. For older ones
//! these do not count, since a thread that runs for shorter than a pass takes has left its processor by then: what such
//! runs do would be where longer ones are.
//!
//! Invariant: what is remembered is bounded; elapsed time of more threads has no stack.

use std::mem;

use agent_common::record::{
    MemoryType, NativeUnwindStatus, ProfileKind, PythonUnwindStatus, Sample, WaitReason,
};
use foldhash::HashMap;

use crate::threads::{BlockedThread, KeptWaiting, RunningThread};

/// Most threads that are remembered.
const MAX_THREADS: usize = 16 << 10;

/// Most threads of which is remembered that one of these keeps them waiting; the time of more is counted
/// without saying which.
const MAX_BLOCKED: usize = 256;

/// Most threads of which samples are remembered that a pass has asked for: more than processors.
const MAX_AT_PASS: usize = 4 << 10;

/// Elapsed time of running threads that has no stack yet.
#[derive(Debug, Default)]
pub(super) struct RunningThreads {
    /// By process and thread.
    owed: HashMap<Key, Owed>,
    /// Samples that a pass has asked for, which come before what it says of their threads.
    at_pass: HashMap<Key, AtPass>,
}

/// Process and thread.
type Key = (u32, u32);

/// A sample, and the thread that its thread keeps waiting.
pub(super) type Paid = (Sample, KeptWaiting);

/// Where a thread ran at a pass.
#[derive(Clone, Copy, Debug, Default)]
struct AtPass {
    with_gil: Option<Sample>,
    without_gil: Option<Sample>,
}

impl AtPass {
    /// Where the thread ran of which it is known whether it held the GIL, or not.
    fn of(self, holds_gil: Option<bool>) -> Option<Sample> {
        match holds_gil {
            Some(true) => self.with_gil,
            Some(false) => self.without_gil,
            None => self.with_gil.or(self.without_gil),
        }
    }

    /// Has the samples of a later pass, as far as it has any.
    fn update(&mut self, later: &Self) {
        self.with_gil = later.with_gil.or(self.with_gil);
        self.without_gil = later.without_gil.or(self.without_gil);
    }

    fn note(&mut self, seen: &Sample) {
        let of = if seen.holds_gil == 0 {
            &mut self.without_gil
        } else {
            &mut self.with_gil
        };
        *of = Some(*seen);
    }
}

#[derive(Clone, Debug, Default)]
struct Owed {
    /// Running while it held the GIL, while it did not, and while that was not known.
    with_gil: Elapsed,
    without_gil: Elapsed,
    running: Elapsed,
    runnable: Elapsed,
    /// Having the GIL, running and while it could run.
    holding: Elapsed,
    holding_runnable: Elapsed,
    /// Threads that waited for the GIL while it held it, or that it had stopped.
    blocked: HashMap<KeptWaiting, Elapsed>,
    /// The last sample of CPU time, and the last one with the GIL.
    seen: Option<Sample>,
    seen_with_gil: Option<Sample>,
    /// Where it ran at a pass, which counts where there are no such samples.
    at_pass: AtPass,
    /// Windows that have ended since.
    age: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Elapsed {
    samples: u32,
    ns: u64,
}

impl Elapsed {
    /// That of one sample.
    fn of(ns: u64) -> Self {
        Self { samples: 1, ns }
    }

    fn add(&mut self, ns: u64) {
        self.samples = self.samples.saturating_add(1);
        self.ns = self.ns.saturating_add(ns);
    }

    /// Takes it out, if there is any.
    fn take(&mut self) -> Option<Self> {
        let taken = mem::take(self);
        (taken.samples != 0).then_some(taken)
    }
}

impl RunningThreads {
    /// Adds elapsed time of a thread; returns a sample where it is known where it ran, or cannot be remembered.
    pub(super) fn add(&mut self, running: &RunningThread) -> Option<Paid> {
        let key = (running.tgid, running.tid);
        if let Some(seen) = self.seen_new(key, running.is_new, running.holds_gil) {
            let elapsed = Elapsed::of(running.elapsed_ns);
            return Some(wall(seen, elapsed, running.is_runnable));
        }
        let Some(owed) = self.owed_of(key) else {
            let elapsed = Elapsed::of(running.elapsed_ns);
            return Some(wall(unseen(key), elapsed, running.is_runnable));
        };
        let elapsed = match running.holds_gil {
            _ if running.is_runnable => &mut owed.runnable,
            Some(true) => &mut owed.with_gil,
            Some(false) => &mut owed.without_gil,
            None => &mut owed.running,
        };
        elapsed.add(running.elapsed_ns);
        None
    }

    /// Adds elapsed time in which a thread had the GIL; as [`Self::add`].
    pub(super) fn add_holding(&mut self, holding: &RunningThread) -> Option<Paid> {
        let key = (holding.tgid, holding.tid);
        if let Some(seen) = self.seen_new(key, holding.is_new, Some(true)) {
            let elapsed = Elapsed::of(holding.elapsed_ns);
            return Some(with_gil(seen, elapsed, holding.is_runnable));
        }
        // One of which nothing is known but that it has the GIL.
        let owed = (holding.tid != 0).then(|| self.owed_of(key)).flatten();
        let Some(owed) = owed else {
            let elapsed = Elapsed::of(holding.elapsed_ns);
            return Some(with_gil(unseen(key), elapsed, holding.is_runnable));
        };
        let elapsed = if holding.is_runnable {
            &mut owed.holding_runnable
        } else {
            &mut owed.holding
        };
        elapsed.add(holding.elapsed_ns);
        None
    }

    /// Adds elapsed time of a thread that waits for a running one; as [`Self::add`].
    pub(super) fn add_blocked(&mut self, blocked: &BlockedThread) -> Option<Paid> {
        let key = (blocked.tgid, blocked.holder);
        if let Some(seen) = self.seen_new(key, blocked.is_new, Some(true)) {
            let elapsed = Elapsed::of(blocked.elapsed_ns);
            return Some(gil(seen, elapsed, blocked.waiting));
        }
        let Some(owed) = self.owed_of(key) else {
            let elapsed = Elapsed::of(blocked.elapsed_ns);
            return Some(gil(unseen(key), elapsed, blocked.waiting));
        };
        let is_known = owed.blocked.contains_key(&blocked.waiting);
        let waiting = if is_known || owed.blocked.len() < MAX_BLOCKED {
            blocked.waiting
        } else {
            KeptWaiting::default()
        };
        owed.blocked
            .entry(waiting)
            .or_default()
            .add(blocked.elapsed_ns);
        None
    }

    /// Where a thread ran at the pass that is being added, if it is new.
    fn seen_new(&self, key: Key, is_new: bool, holds_gil: Option<bool>) -> Option<Sample> {
        let at_pass = self.at_pass.get(&key).filter(|_| is_new);
        at_pass?.of(holds_gil)
    }

    fn owed_of(&mut self, key: Key) -> Option<&mut Owed> {
        if self.owed.len() >= MAX_THREADS && !self.owed.contains_key(&key) {
            return None;
        }
        let owed = self.owed.entry(key).or_default();
        if let Some(at_pass) = self.at_pass.get(&key) {
            owed.at_pass.update(at_pass);
        }
        Some(owed)
    }

    /// Notes a sample of CPU time; returns those of the elapsed time that it stands for.
    pub(super) fn pay(&mut self, seen: &Sample) -> Vec<Paid> {
        let key = (seen.tgid, seen.tid);
        self.owed.get_mut(&key).map_or_else(Vec::new, |owed| {
            owed.age = 0;
            owed.seen = Some(*seen);
            let mut paid = owed.take(*seen);
            if seen.holds_gil == 0 {
                paid.extend(wall_of(&mut owed.without_gil, false, *seen));
            } else {
                owed.seen_with_gil = Some(*seen);
                paid.append(&mut owed.take_with_gil(*seen));
            }
            paid
        })
    }

    /// Notes a sample that a pass has asked for.
    pub(super) fn note_at_pass(&mut self, seen: &Sample) {
        let key = (seen.tgid, seen.tid);
        if self.at_pass.len() < MAX_AT_PASS || self.at_pass.contains_key(&key) {
            self.at_pass.entry(key).or_default().note(seen);
        }
    }

    /// What is added from now on is of the pass at this time, in nanoseconds of the monotonic clock.
    pub(super) fn begin_pass(&mut self, time_ns: u64) {
        // Some may have come after what an earlier pass has said.
        for at_pass in self.at_pass.values_mut() {
            let is_late = |seen: &mut Sample| seen.time_ns < time_ns;
            at_pass.with_gil.take_if(is_late);
            at_pass.without_gil.take_if(is_late);
        }
    }

    /// All was added that the pass says.
    pub(super) fn end_pass(&mut self) {
        self.at_pass.clear();
    }

    /// The samples of what was not paid for, at the end of a window.
    pub(super) fn end_window(&mut self) -> Vec<Paid> {
        let mut samples = Vec::new();
        for (key, owed) in &mut self.owed {
            let AtPass {
                with_gil,
                without_gil,
            } = owed.at_pass;
            let at_pass = owed.at_pass.of(None);
            let seen = owed.seen.or(at_pass).unwrap_or_else(|| unseen(*key));
            samples.append(&mut owed.take(seen));
            let without_gil = Sample {
                holds_gil: 0,
                ..owed.seen.or(without_gil).unwrap_or(seen)
            };
            let with_gil = Sample {
                holds_gil: 1,
                ..owed.seen_with_gil.or(with_gil).unwrap_or(seen)
            };
            samples.extend(wall_of(&mut owed.without_gil, false, without_gil));
            samples.append(&mut owed.take_with_gil(with_gil));
        }
        self.owed.retain(|_, owed| {
            owed.age += 1;
            owed.age < 2
        });
        samples
    }
}

impl Owed {
    /// Takes out what any sample tells of.
    fn take(&mut self, seen: Sample) -> Vec<Paid> {
        let running = wall_of(&mut self.running, false, seen);
        let runnable = wall_of(&mut self.runnable, true, seen);
        running.into_iter().chain(runnable).collect()
    }

    /// Takes out what a sample with the GIL tells of.
    fn take_with_gil(&mut self, seen: Sample) -> Vec<Paid> {
        let mut paid: Vec<Paid> = wall_of(&mut self.with_gil, false, seen)
            .into_iter()
            .collect();
        for (elapsed, is_runnable) in [
            (&mut self.holding, false),
            (&mut self.holding_runnable, true),
        ] {
            let elapsed = elapsed.take();
            paid.extend(elapsed.map(|elapsed| with_gil(seen, elapsed, is_runnable)));
        }
        let blocked = self.blocked.drain();
        paid.extend(blocked.map(|(waiting, elapsed)| gil(seen, elapsed, waiting)));
        paid
    }
}

/// Takes out elapsed time, if there is any, as a sample.
fn wall_of(elapsed: &mut Elapsed, is_runnable: bool, seen: Sample) -> Option<Paid> {
    let elapsed = elapsed.take()?;
    Some(wall(seen, elapsed, is_runnable))
}

/// A sample of elapsed time, with the stack of another one.
fn wall(of: Sample, elapsed: Elapsed, is_runnable: bool) -> Paid {
    let sample = Sample {
        value: elapsed.ns,
        count: elapsed.samples,
        kind: ProfileKind::WALL,
        wait: if is_runnable {
            WaitReason::RUNNABLE
        } else {
            WaitReason::NONE
        },
        ..of
    };
    (sample, KeptWaiting::default())
}

/// A sample of the time with the GIL, with the stack of another one.
fn with_gil(of: Sample, elapsed: Elapsed, is_runnable: bool) -> Paid {
    let (sample, nobody) = wall(of, elapsed, is_runnable);
    let sample = Sample {
        kind: ProfileKind::GIL_HELD,
        holds_gil: 1,
        ..sample
    };
    (sample, nobody)
}

/// A sample of the time that a thread waits for the GIL, with the stack of the one that holds it.
fn gil(of: Sample, elapsed: Elapsed, waiting: KeptWaiting) -> Paid {
    let sample = Sample {
        value: elapsed.ns,
        count: elapsed.samples,
        kind: ProfileKind::GIL,
        wait: WaitReason::NONE,
        ..of
    };
    (sample, waiting)
}

/// A sample without time of a thread that was never seen running.
pub(super) fn unseen((process, thread): Key) -> Sample {
    Sample {
        header: Sample::HEADER,
        time_ns: 0,
        stack: 0,
        native_stack: 0,
        tgid: process,
        tid: thread,
        value: 0,
        count: 0,
        kind: ProfileKind::WALL,
        python_status: PythonUnwindStatus::NOT_SAMPLED,
        holds_gil: 0,
        collects_garbage: 0,
        native_status: NativeUnwindStatus::NOT_WALKED,
        wait: WaitReason::NONE,
        memory: MemoryType::NONE,
        task: 0,
    }
}

#[cfg(test)]
mod tests;
