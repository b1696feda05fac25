//! Elapsed time of threads that were running, that in which they held the GIL, and that of those that waited for it.
//!
//! A pass finds out that a thread runs, not where: its next sample of CPU time tells, which then stands for
//! the elapsed time too. Where the pass knows whether the thread held the GIL, only a sample tells of which
//! that is as true. What no sample has paid for at the end of a window goes to where the thread was last
//! seen running, with the GIL if it is about that.
//!
//! Invariant: what is remembered is bounded; elapsed time of more threads has no stack.

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

/// Elapsed time of running threads that has no stack yet.
#[derive(Debug, Default)]
pub(super) struct RunningThreads {
    /// By process and thread.
    owed: HashMap<(u32, u32), Owed>,
}

/// A sample, and the thread that its thread keeps waiting.
pub(super) type Paid = (Sample, KeptWaiting);

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
    /// Windows that have ended since.
    age: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Elapsed {
    samples: u32,
    ns: u64,
}

impl Elapsed {
    fn add(&mut self, ns: u64) {
        self.samples = self.samples.saturating_add(1);
        self.ns = self.ns.saturating_add(ns);
    }

    /// Takes it out, if there is any.
    fn take(&mut self) -> Option<Self> {
        let taken = std::mem::take(self);
        (taken.samples != 0).then_some(taken)
    }
}

impl RunningThreads {
    /// Adds elapsed time of a thread; returns a sample where it cannot be remembered.
    pub(super) fn add(&mut self, running: &RunningThread) -> Option<Paid> {
        let key = (running.tgid, running.tid);
        let Some(owed) = self.owed_of(key) else {
            let mut elapsed = Elapsed::default();
            elapsed.add(running.elapsed_ns);
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

    /// Adds elapsed time in which a thread had the GIL; returns a sample where it cannot be remembered.
    pub(super) fn add_holding(&mut self, holding: &RunningThread) -> Option<Paid> {
        let key = (holding.tgid, holding.tid);
        // One of which nothing is known but that it has the GIL.
        let owed = (holding.tid != 0).then(|| self.owed_of(key)).flatten();
        let Some(owed) = owed else {
            let mut elapsed = Elapsed::default();
            elapsed.add(holding.elapsed_ns);
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

    /// Adds elapsed time of a thread that waits for a running one; returns a sample where it cannot be
    /// remembered.
    pub(super) fn add_blocked(&mut self, blocked: &BlockedThread) -> Option<Paid> {
        let key = (blocked.tgid, blocked.holder);
        let Some(owed) = self.owed_of(key) else {
            let mut elapsed = Elapsed::default();
            elapsed.add(blocked.elapsed_ns);
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

    fn owed_of(&mut self, key: (u32, u32)) -> Option<&mut Owed> {
        if self.owed.len() >= MAX_THREADS && !self.owed.contains_key(&key) {
            return None;
        }
        Some(self.owed.entry(key).or_default())
    }

    /// Notes a sample of CPU time; returns those of the elapsed time that it stands for.
    pub(super) fn pay(&mut self, cpu: &Sample) -> Vec<Paid> {
        let key = (cpu.tgid, cpu.tid);
        self.owed.get_mut(&key).map_or_else(Vec::new, |owed| {
            owed.age = 0;
            owed.seen = Some(*cpu);
            let mut paid = owed.take(*cpu);
            if cpu.holds_gil == 0 {
                paid.extend(wall_of(&mut owed.without_gil, false, *cpu));
            } else {
                owed.seen_with_gil = Some(*cpu);
                paid.append(&mut owed.take_with_gil(*cpu));
            }
            paid
        })
    }

    /// The samples of what was not paid for, at the end of a window.
    pub(super) fn end_window(&mut self) -> Vec<Paid> {
        let mut samples = Vec::new();
        for (key, owed) in &mut self.owed {
            let seen = owed.seen.unwrap_or_else(|| unseen(*key));
            samples.append(&mut owed.take(seen));
            let without_gil = Sample {
                holds_gil: 0,
                ..seen
            };
            let with_gil = Sample {
                holds_gil: 1,
                ..owed.seen_with_gil.unwrap_or(seen)
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
pub(super) fn unseen((process, thread): (u32, u32)) -> Sample {
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
        python_status: PythonUnwindStatus::TORN,
        holds_gil: 0,
        collects_garbage: 0,
        native_status: NativeUnwindStatus::NOT_WALKED,
        wait: WaitReason::NONE,
        memory: MemoryType::NONE,
        task: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(tid: u32, stack: u64) -> Sample {
        Sample {
            stack,
            kind: ProfileKind::CPU,
            value: 10,
            count: 1,
            ..unseen((1, tid))
        }
    }

    fn kept(tid: u32) -> KeptWaiting {
        KeptWaiting {
            tid,
            is_stopped: false,
        }
    }

    fn running(tid: u32) -> RunningThread {
        RunningThread {
            tgid: 1,
            tid,
            elapsed_ns: 100,
            is_runnable: false,
            holds_gil: None,
        }
    }

    #[test]
    fn the_next_sample_of_cpu_time_says_where_a_thread_ran() {
        let mut threads = RunningThreads::default();
        assert!(threads.add(&running(2)).is_none());
        assert!(threads.add(&running(2)).is_none());
        let runnable = RunningThread {
            is_runnable: true,
            ..running(2)
        };
        assert!(threads.add(&runnable).is_none());
        assert!(threads.pay(&cpu(3, 7)).is_empty());
        let paid = threads.pay(&cpu(2, 8));
        let shown = |(paid, _): &Paid| (paid.stack, paid.count, paid.value, paid.wait);
        assert_eq!(
            paid.iter().map(shown).collect::<Vec<_>>(),
            [
                (8, 2, 200, WaitReason::NONE),
                (8, 1, 100, WaitReason::RUNNABLE)
            ]
        );
        let is_wall = |(paid, _): &Paid| paid.kind == ProfileKind::WALL;
        assert!(paid.iter().all(is_wall));
        assert!(threads.pay(&cpu(2, 9)).is_empty());
    }

    #[test]
    fn a_sample_tells_of_what_is_as_true_of_the_gil() {
        let mut threads = RunningThreads::default();
        for holds_gil in [Some(true), Some(false), Some(false)] {
            let running = RunningThread {
                holds_gil,
                ..running(2)
            };
            assert!(threads.add(&running).is_none());
        }
        let blocked = BlockedThread {
            tgid: 1,
            holder: 2,
            waiting: kept(5),
            elapsed_ns: 100,
        };
        assert!(threads.add_blocked(&blocked).is_none());
        let shown = |paid: Vec<Paid>| {
            let shown = paid.iter().map(|(paid, blocked)| {
                let of = (paid.kind, paid.holds_gil, blocked.tid);
                (paid.stack, paid.value, of)
            });
            shown.collect::<Vec<_>>()
        };
        assert_eq!(
            shown(threads.pay(&cpu(2, 7))),
            [(7, 200, (ProfileKind::WALL, 0, 0))]
        );
        let with_gil = Sample {
            holds_gil: 1,
            ..cpu(2, 8)
        };
        assert_eq!(
            shown(threads.pay(&with_gil)),
            [
                (8, 100, (ProfileKind::WALL, 1, 0)),
                (8, 100, (ProfileKind::GIL, 1, 5))
            ]
        );
        let holding = |is_runnable| RunningThread {
            is_runnable,
            holds_gil: Some(true),
            ..running(2)
        };
        assert!(threads.add_holding(&holding(false)).is_none());
        assert!(threads.add_holding(&holding(true)).is_none());
        assert!(threads.pay(&cpu(2, 6)).is_empty());
        let held = (ProfileKind::GIL_HELD, 1, 0);
        assert_eq!(
            shown(threads.pay(&with_gil)),
            [(8, 100, held), (8, 100, held)]
        );
        // At the end nothing is left out, and what was with the GIL is where it had it.
        assert!(threads.add_blocked(&blocked).is_none());
        assert!(threads.add_holding(&holding(false)).is_none());
        assert!(threads.add(&running(2)).is_none());
        threads.pay(&cpu(2, 9));
        assert!(threads.add(&running(2)).is_none());
        let last = shown(threads.end_window());
        let wall = (9, 100, (ProfileKind::WALL, 0, 0));
        assert_eq!(
            last,
            [wall, (8, 100, held), (8, 100, (ProfileKind::GIL, 1, 5))]
        );
        // A thread that no pass has met.
        let unknown = threads.add_holding(&RunningThread {
            tid: 0,
            ..holding(false)
        });
        assert_eq!(shown(unknown.into_iter().collect()), [(0, 100, held)]);
    }

    #[test]
    fn a_thread_that_is_stopped_does_not_wait_for_the_gil() {
        let mut threads = RunningThreads::default();
        for is_stopped in [false, true, true] {
            let blocked = BlockedThread {
                tgid: 1,
                holder: 2,
                waiting: KeptWaiting { tid: 5, is_stopped },
                elapsed_ns: 100,
            };
            assert!(threads.add_blocked(&blocked).is_none());
        }
        let paid = threads.end_window().into_iter();
        let mut paid: Vec<_> = paid.map(|(it, kept)| (kept.is_stopped, it.value)).collect();
        paid.sort_unstable();
        assert_eq!(paid, [(false, 100), (true, 200)]);
    }

    #[test]
    fn of_too_many_blocked_threads_is_remembered_how_long_they_waited() {
        let mut threads = RunningThreads::default();
        for tid in 1..=1000 {
            let blocked = BlockedThread {
                tgid: 1,
                holder: 2,
                waiting: kept(tid),
                elapsed_ns: 100,
            };
            assert!(threads.add_blocked(&blocked).is_none());
        }
        let samples = threads.end_window();
        assert_eq!(samples.len(), MAX_BLOCKED + 1);
        let total: u64 = samples.iter().map(|(sample, _)| sample.value).sum();
        assert_eq!(total, 100_000);
    }

    #[test]
    fn what_is_not_paid_for_stays_where_the_thread_was_last_seen() {
        let mut threads = RunningThreads::default();
        threads.add(&running(2));
        threads.add(&running(3));
        assert_eq!(threads.pay(&cpu(2, 8)).len(), 1);
        threads.add(&running(2));
        let mut samples = threads.end_window();
        samples.sort_by_key(|(sample, _)| sample.tid);
        let seen: Vec<_> = samples
            .iter()
            .map(|(sample, _)| (sample.tid, sample.stack, sample.value))
            .collect();
        assert_eq!(seen, [(2, 8, 100), (3, 0, 100)]);
        assert!(threads.end_window().is_empty());
        assert!(threads.end_window().is_empty());
        assert!(threads.owed.is_empty());
    }

    #[test]
    fn there_is_a_sample_for_each_of_too_many_threads() {
        let mut threads = RunningThreads::default();
        let most = u32::try_from(MAX_THREADS).unwrap();
        let unpaid = (0..most + 10).filter_map(|tid| threads.add(&running(tid)));
        assert_eq!(unpaid.count(), 10);
        assert_eq!(threads.end_window().len(), MAX_THREADS);
    }
}
