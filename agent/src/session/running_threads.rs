//! Elapsed time of threads that were running.
//!
//! A pass finds out that a thread runs, not where: its next sample of CPU time tells, which then stands for
//! the elapsed time too. What no sample has paid for at the end of a window goes to where the thread was
//! last seen running.
//!
//! Invariant: what is remembered is bounded; elapsed time of more threads has no stack.

use agent_common::record::{
    Header, NativeUnwindStatus, ProfileKind, PythonUnwindStatus, RecordKind, Sample, WaitReason,
};
use foldhash::HashMap;

use crate::threads::RunningThread;

/// Most threads that are remembered.
const MAX_THREADS: usize = 16 << 10;

/// Elapsed time of running threads that has no stack yet.
#[derive(Debug, Default)]
pub(super) struct RunningThreads {
    /// By process and thread.
    owed: HashMap<(u32, u32), Owed>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    running: Elapsed,
    runnable: Elapsed,
    /// The last sample of CPU time.
    seen: Option<Sample>,
    /// Windows that have ended since.
    age: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Elapsed {
    samples: u32,
    ns: u64,
}

impl RunningThreads {
    /// Adds elapsed time of a thread; returns a sample where it cannot be remembered.
    pub(super) fn add(&mut self, running: &RunningThread) -> Option<Sample> {
        let key = (running.tgid, running.tid);
        let (count, ns) = (1, running.elapsed_ns);
        if self.owed.len() >= MAX_THREADS && !self.owed.contains_key(&key) {
            let elapsed = Elapsed { samples: count, ns };
            return Some(wall(unseen(key), elapsed, running.is_runnable));
        }
        let owed = self.owed.entry(key).or_default();
        let elapsed = if running.is_runnable {
            &mut owed.runnable
        } else {
            &mut owed.running
        };
        elapsed.samples += count;
        elapsed.ns = elapsed.ns.saturating_add(ns);
        None
    }

    /// Notes a sample of CPU time; returns those of the elapsed time that it stands for.
    pub(super) fn pay(&mut self, cpu: &Sample) -> impl Iterator<Item = Sample> + use<> {
        let key = (cpu.tgid, cpu.tid);
        let paid = self.owed.get_mut(&key).map(|owed| {
            owed.seen = Some(*cpu);
            owed.age = 0;
            owed.take(key)
        });
        paid.into_iter().flatten().flatten()
    }

    /// The samples of what was not paid for, at the end of a window.
    pub(super) fn end_window(&mut self) -> Vec<Sample> {
        let unpaid = self.owed.iter_mut();
        let samples = unpaid.flat_map(|(key, owed)| owed.take(*key)).flatten();
        let samples = samples.collect();
        self.owed.retain(|_, owed| {
            owed.age += 1;
            owed.age < 2
        });
        samples
    }
}

impl Owed {
    fn take(&mut self, key: (u32, u32)) -> [Option<Sample>; 2] {
        let seen = self.seen.unwrap_or_else(|| unseen(key));
        let running = std::mem::take(&mut self.running);
        let runnable = std::mem::take(&mut self.runnable);
        [(running, false), (runnable, true)].map(|(elapsed, is_runnable)| {
            (elapsed.samples != 0).then(|| wall(seen, elapsed, is_runnable))
        })
    }
}

/// A sample of elapsed time, with the stack of another one.
fn wall(of: Sample, elapsed: Elapsed, is_runnable: bool) -> Sample {
    Sample {
        value: elapsed.ns,
        count: elapsed.samples,
        kind: ProfileKind::WALL,
        wait: if is_runnable {
            WaitReason::RUNNABLE
        } else {
            WaitReason::NONE
        },
        ..of
    }
}

/// A sample of a thread that was never seen running.
fn unseen((process, thread): (u32, u32)) -> Sample {
    Sample {
        header: Header {
            kind: RecordKind::SAMPLE,
            reserved: 0,
            bytes: u32::try_from(size_of::<Sample>()).unwrap_or(0),
        },
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
        native_status: NativeUnwindStatus::NOT_WALKED,
        wait: WaitReason::NONE,
        reserved: 0,
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

    fn running(tid: u32) -> RunningThread {
        RunningThread {
            tgid: 1,
            tid,
            elapsed_ns: 100,
            is_runnable: false,
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
        assert_eq!(threads.pay(&cpu(3, 7)).count(), 0);
        let paid: Vec<_> = threads.pay(&cpu(2, 8)).collect();
        let shown = |paid: &Sample| (paid.stack, paid.count, paid.value, paid.wait);
        assert_eq!(
            paid.iter().map(shown).collect::<Vec<_>>(),
            [
                (8, 2, 200, WaitReason::NONE),
                (8, 1, 100, WaitReason::RUNNABLE)
            ]
        );
        assert!(paid.iter().all(|paid| paid.kind == ProfileKind::WALL));
        assert_eq!(threads.pay(&cpu(2, 9)).count(), 0);
    }

    #[test]
    fn what_is_not_paid_for_stays_where_the_thread_was_last_seen() {
        let mut threads = RunningThreads::default();
        threads.add(&running(2));
        threads.add(&running(3));
        assert_eq!(threads.pay(&cpu(2, 8)).count(), 1);
        threads.add(&running(2));
        let mut samples = threads.end_window();
        samples.sort_by_key(|sample| sample.tid);
        let seen: Vec<_> = samples
            .iter()
            .map(|sample| (sample.tid, sample.stack, sample.value))
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
