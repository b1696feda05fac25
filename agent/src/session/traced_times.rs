//! Traced context switches: how long each thread was in the first parts of its waits, and waited for processors, exactly,
//! and where, by those that were sampled.
//!
//! A pass finds a thread doing so without a sample: there is one only if it was chosen when the thread left its processor.
//! How much of the time of the thread that is, is known from the kernel and from the BPF programs: at the end of a window
//! the samples of the thread share it by what they stand for.
//!
//! Invariants: each thread has all of its time, in one place; what is remembered is bounded: where there are too many
//! different samples, the others of their thread have their time.

use agent_common::{
    limits::SHORT_WAIT_NS,
    record::{Sample, WaitReason},
};
use foldhash::HashMap;

use super::running_threads::unseen;
use crate::threads::TracedTime;

/// Most threads that are remembered.
const MAX_THREADS: usize = 32 << 10;

/// Most samples of a window that differ.
const MAX_SAMPLES: usize = 256 << 10;

/// Windows without a sample after which a thread is forgotten.
const MAX_AGE: u8 = 8;

/// Time of threads whose context switches are traced.
#[derive(Debug, Default)]
pub(super) struct TracedTimes {
    /// By process and thread.
    threads: HashMap<(u32, u32), Thread>,
    /// Samples of all threads that differ.
    samples: usize,
    /// Whether samples of other times differ.
    keeps_times: bool,
}

#[derive(Debug, Default)]
struct Thread {
    /// First parts of waits.
    waiting: Account,
    /// Waiting for a processor.
    runnable: Account,
    /// Its last sample.
    last: Option<Sample>,
    /// Windows that have ended since there was one.
    age: u8,
}

#[derive(Debug, Default)]
struct Account {
    /// Time that no sample has yet, in nanoseconds.
    owed_ns: u64,
    /// What was sampled, with the nanoseconds that it stands for.
    samples: HashMap<Key, Sample>,
}

/// What tells samples of a thread apart: the stacks and how they end, what else is known of the thread, and when it was.
type Key = ((u64, u64, u64), (PythonKey, u16, u8, u8), (WaitReason, u64));

/// The number of a [`PythonUnwindStatus`].
type PythonKey = u16;

impl TracedTimes {
    /// Keeps the times of samples too, to some milliseconds.
    pub(super) fn with_times(self) -> Self {
        Self {
            keeps_times: true,
            ..self
        }
    }

    /// Adds a sample of a wait that is over; its value is for how many nanoseconds it stands.
    pub(super) fn add(&mut self, sample: &Sample) {
        let key = self.key(sample);
        let has_room = self.samples < MAX_SAMPLES;
        let Some(thread) = self.thread(sample) else {
            return;
        };
        thread.last = Some(*sample);
        thread.age = 0;
        let samples = &mut thread.account(sample.wait == WaitReason::RUNNABLE).samples;
        if let Some(known) = samples.get_mut(&key) {
            known.value = known.value.saturating_add(sample.value);
            known.count = known.count.saturating_add(sample.count);
        } else if has_room {
            samples.insert(key, *sample);
            self.samples += 1;
        }
    }

    /// Notes a sample of a thread that waits for longer: what it waits for is known, if nothing else is.
    pub(super) fn note(&mut self, sample: &Sample) {
        if sample.wait != WaitReason::NONE
            && let Some(thread) = self.threads.get_mut(&(sample.tgid, sample.tid))
        {
            thread.last = Some(*sample);
        }
    }

    /// Adds time; returns a sample where it cannot be remembered.
    pub(super) fn add_time(&mut self, time: &TracedTime) -> Option<Sample> {
        let unknown = unknown(time);
        let Some(thread) = self.thread(&unknown) else {
            return Some(unknown);
        };
        let owed_ns = &mut thread.account(time.is_runnable).owed_ns;
        *owed_ns = owed_ns.saturating_add(time.elapsed_ns);
        None
    }

    fn thread(&mut self, of: &Sample) -> Option<&mut Thread> {
        let key = (of.tgid, of.tid);
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&key) {
            return None;
        }
        Some(self.threads.entry(key).or_default())
    }

    fn key(&self, sample: &Sample) -> Key {
        let time = if self.keeps_times {
            sample.time_ns / SHORT_WAIT_NS
        } else {
            0
        };
        (
            (sample.stack, sample.native_stack, sample.task),
            (
                sample.python_status.0,
                sample.native_status.0,
                sample.holds_gil,
                sample.collects_garbage,
            ),
            (sample.wait, time),
        )
    }

    /// The samples of the time of each thread, at the end of a window.
    pub(super) fn end_window(&mut self) -> Vec<Sample> {
        let mut all = Vec::new();
        for ((tgid, tid), thread) in &mut self.threads {
            thread.age = thread.age.saturating_add(1);
            for is_runnable in [false, true] {
                let last = thread.last;
                let account = thread.account(is_runnable);
                if account.owed_ns == 0 {
                    // Less than a pass stands for: its time comes with a later one.
                    continue;
                }
                let time = TracedTime {
                    tgid: *tgid,
                    tid: *tid,
                    elapsed_ns: std::mem::take(&mut account.owed_ns),
                    is_runnable,
                };
                let samples = std::mem::take(&mut account.samples);
                self.samples -= samples.len();
                let shared = share(time.elapsed_ns, samples.into_values());
                if shared.is_empty() {
                    all.push(without_sample(&time, last));
                }
                all.extend(shared);
            }
        }
        let left = &mut self.samples;
        self.threads.retain(|_, thread| {
            let is_kept = thread.age < MAX_AGE;
            if !is_kept {
                *left -= thread.waiting.samples.len() + thread.runnable.samples.len();
            }
            is_kept
        });
        all
    }
}

impl Thread {
    fn account(&mut self, is_runnable: bool) -> &mut Account {
        if is_runnable {
            &mut self.runnable
        } else {
            &mut self.waiting
        }
    }
}

/// The time of a thread of which nothing of the kind was sampled, with its last sample.
fn without_sample(time: &TracedTime, last: Option<Sample>) -> Sample {
    let last = last.unwrap_or_else(|| unknown(time));
    Sample {
        value: time.elapsed_ns,
        count: 1,
        wait: match last.wait {
            _ if time.is_runnable => WaitReason::RUNNABLE,
            WaitReason::RUNNABLE => WaitReason::OTHER,
            wait => wait,
        },
        ..last
    }
}

/// Has samples share a time by their values, to the nanosecond; none where they have none.
fn share(owed_ns: u64, samples: impl Iterator<Item = Sample>) -> Vec<Sample> {
    let samples: Vec<_> = samples.collect();
    let total: u128 = samples.iter().map(|sample| u128::from(sample.value)).sum();
    let (mut before, mut given) = (0_u128, 0_u64);
    let shared = samples.into_iter().filter_map(|sample| {
        before += u128::from(sample.value);
        let up_to = (before * u128::from(owed_ns)).checked_div(total)?;
        let up_to = u64::try_from(up_to).unwrap_or(owed_ns);
        let value = up_to - given;
        given = up_to;
        (value != 0).then_some(Sample { value, ..sample })
    });
    shared.collect()
}

/// A sample of a thread of which nothing was sampled.
fn unknown(time: &TracedTime) -> Sample {
    Sample {
        value: time.elapsed_ns,
        count: 1,
        wait: if time.is_runnable {
            WaitReason::RUNNABLE
        } else {
            WaitReason::OTHER
        },
        ..unseen((time.tgid, time.tid))
    }
}

#[cfg(test)]
mod tests {
    use agent_common::record::ProfileKind;

    use super::*;
    use crate::aggregate::fixtures::sample;

    fn wait(tid: u32, stack: u64, value: u64) -> Sample {
        Sample {
            kind: ProfileKind::WALL,
            wait: WaitReason::SLEEP,
            tgid: 1,
            tid,
            stack,
            value,
            count: 1,
            ..sample()
        }
    }

    fn time(tid: u32, elapsed_ns: u64) -> TracedTime {
        TracedTime {
            tgid: 1,
            tid,
            elapsed_ns,
            is_runnable: false,
        }
    }

    /// Thread, stack, samples and time, in this order.
    fn shown(samples: &[Sample]) -> Vec<(u32, u64, u32, u64)> {
        let shown = samples
            .iter()
            .map(|it| (it.tid, it.stack, it.count, it.value));
        let mut shown: Vec<_> = shown.collect();
        shown.sort_unstable();
        shown
    }

    #[test]
    fn samples_share_the_time_of_their_thread_by_what_they_stand_for() {
        let mut waits = TracedTimes::default();
        for _ in 0..3 {
            waits.add(&wait(2, 7, 100));
        }
        waits.add(&wait(2, 8, 700));
        waits.add(&wait(3, 7, 1));
        assert!(waits.add_time(&time(2, 10_000)).is_none());
        assert!(waits.add_time(&time(3, 5)).is_none());
        assert_eq!(
            shown(&waits.end_window()),
            [(2, 7, 3, 3000), (2, 8, 1, 7000), (3, 7, 1, 5)]
        );
        assert!(waits.end_window().is_empty());
        assert_eq!(waits.samples, 0);
    }

    #[test]
    fn waiting_for_a_processor_is_an_account_of_its_own() {
        let mut waits = TracedTimes::default();
        waits.add(&wait(2, 7, 100));
        let delayed = Sample {
            wait: WaitReason::RUNNABLE,
            ..wait(2, 8, 9)
        };
        waits.add(&delayed);
        let is_runnable = |is_runnable| TracedTime {
            is_runnable,
            ..time(2, 1000)
        };
        waits.add_time(&is_runnable(true));
        assert_eq!(shown(&waits.end_window()), [(2, 8, 1, 1000)]);
        waits.add_time(&is_runnable(false));
        waits.add_time(&is_runnable(true));
        let samples = waits.end_window();
        let reasons: Vec<_> = samples.iter().map(|it| (it.stack, it.wait)).collect();
        assert_eq!(reasons, [(7, WaitReason::SLEEP), (8, WaitReason::RUNNABLE)]);
    }

    #[test]
    fn no_nanosecond_is_lost() {
        let mut waits = TracedTimes::default();
        for stack in 1..=7 {
            waits.add(&wait(2, stack, stack));
        }
        waits.add_time(&time(2, 1_000_003));
        let total: u64 = waits.end_window().iter().map(|it| it.value).sum();
        assert_eq!(total, 1_000_003);
    }

    #[test]
    fn time_without_samples_is_of_the_last_wait() {
        let mut waits = TracedTimes::default();
        waits.add_time(&time(2, 10));
        waits.note(&wait(2, 9, 1));
        waits.note(&wait(5, 9, 1));
        assert_eq!(shown(&waits.end_window()), [(2, 9, 1, 10)]);
        waits.add_time(&time(4, 10));
        assert_eq!(shown(&waits.end_window()), [(4, 0, 1, 10)]);
    }

    #[test]
    fn samples_without_time_wait_for_it() {
        let mut waits = TracedTimes::default();
        waits.add(&wait(2, 7, 100));
        assert!(waits.end_window().is_empty());
        waits.add_time(&time(2, 50));
        assert_eq!(shown(&waits.end_window()), [(2, 7, 1, 50)]);
        waits.add(&wait(2, 7, 100));
        for _ in 0..MAX_AGE {
            waits.end_window();
        }
        assert!(waits.threads.is_empty());
        assert_eq!(waits.samples, 0);
    }

    #[test]
    fn so_many_threads_are_remembered() {
        let mut waits = TracedTimes::default();
        let most = u32::try_from(MAX_THREADS).unwrap();
        let others = (0..most + 10).filter_map(|tid| waits.add_time(&time(tid, 1)));
        assert_eq!(others.count(), 10);
        waits.add(&wait(most + 20, 1, 1));
        assert_eq!(waits.end_window().len(), MAX_THREADS);
    }
}
