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
    samples: u32,
    elapsed_ns: u64,
    /// The last sample of CPU time.
    seen: Option<Sample>,
    /// Windows that have ended since.
    age: u8,
}

impl RunningThreads {
    /// Adds elapsed time of a running thread; returns a sample where it cannot be remembered.
    pub(super) fn add(&mut self, running: &RunningThread) -> Option<Sample> {
        let key = (running.tgid, running.tid);
        if self.owed.len() >= MAX_THREADS && !self.owed.contains_key(&key) {
            return Some(wall(unseen(key), 1, running.elapsed_ns));
        }
        let owed = self.owed.entry(key).or_default();
        owed.samples += 1;
        owed.elapsed_ns = owed.elapsed_ns.saturating_add(running.elapsed_ns);
        owed.age = 0;
        None
    }

    /// Notes a sample of CPU time; returns one of the elapsed time that it stands for.
    pub(super) fn pay(&mut self, cpu: &Sample) -> Option<Sample> {
        let key = (cpu.tgid, cpu.tid);
        let owed = self.owed.get_mut(&key)?;
        owed.seen = Some(*cpu);
        owed.age = 0;
        owed.take(key)
    }

    /// The samples of what was not paid for, at the end of a window.
    pub(super) fn end_window(&mut self) -> Vec<Sample> {
        let unpaid = self.owed.iter_mut();
        let samples = unpaid.filter_map(|(key, owed)| owed.take(*key)).collect();
        self.owed.retain(|_, owed| {
            owed.age += 1;
            owed.age < 2
        });
        samples
    }
}

impl Owed {
    fn take(&mut self, key: (u32, u32)) -> Option<Sample> {
        if self.samples == 0 {
            return None;
        }
        let seen = self.seen.unwrap_or_else(|| unseen(key));
        let sample = wall(seen, self.samples, self.elapsed_ns);
        self.samples = 0;
        self.elapsed_ns = 0;
        Some(sample)
    }
}

/// A sample of elapsed time, with the stack of another one.
fn wall(of: Sample, count: u32, elapsed_ns: u64) -> Sample {
    Sample {
        value: elapsed_ns,
        count,
        kind: ProfileKind::WALL,
        wait: WaitReason::NONE,
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
        }
    }

    #[test]
    fn the_next_sample_of_cpu_time_says_where_a_thread_ran() {
        let mut threads = RunningThreads::default();
        assert!(threads.add(&running(2)).is_none());
        assert!(threads.add(&running(2)).is_none());
        assert!(threads.pay(&cpu(3, 7)).is_none());
        let paid = threads.pay(&cpu(2, 8)).unwrap();
        assert_eq!((paid.stack, paid.count, paid.value), (8, 2, 200));
        assert_eq!(paid.kind, ProfileKind::WALL);
        assert!(threads.pay(&cpu(2, 9)).is_none());
    }

    #[test]
    fn what_is_not_paid_for_stays_where_the_thread_was_last_seen() {
        let mut threads = RunningThreads::default();
        threads.add(&running(2));
        threads.add(&running(3));
        threads.pay(&cpu(2, 8));
        threads.add(&running(2));
        let mut samples = threads.end_window();
        samples.sort_by_key(|sample| sample.tid);
        let seen: Vec<_> = samples
            .iter()
            .map(|sample| (sample.tid, sample.stack, sample.value))
            .collect();
        assert_eq!(seen, [(2, 8, 100), (3, 0, 100)]);
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
