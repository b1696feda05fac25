//! Threads that have left their processors, as far as that is sampled.
//!
//! Invariant: the first part of a wait is taken once, whether it goes on or is over; what is beyond that is in the samples
//! of passes.

use std::collections::{HashMap, HashSet};

use agent_common::{
    limits::SHORT_WAIT_NS,
    record::{Sample, WaitReason},
    visit::ThreadVisit,
};

use crate::threads::{gil::HolderPointer, traced_waits::TracedWaits};

/// Most threads that are away and were not visited: they may have ended.
const MAX_UNSEEN: usize = 1024;

/// Most threads that are away.
const MAX_AWAY: usize = 64 << 10;

/// What is sampled of all threads.
pub(super) struct Traced {
    pub(super) waits: TracedWaits,
    /// Threads that have left and are not back.
    away: HashMap<u32, Away>,
}

/// A thread that has left its processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Away {
    /// Its sample, with the time when it left. Its value is for how many of them it stands.
    pub(super) sample: Sample,
    /// Who held the GIL then, if it waits for that.
    pub(super) gil: Option<HolderPointer>,
    /// The lock for which it waits, by the hash of its name.
    pub(super) lock: u64,
    /// When it was made, in nanoseconds.
    pub(super) start_time_ns: u64,
    /// Whether the first part of its wait has been taken.
    pub(super) is_taken: bool,
}

/// The first part of a traced wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct TracedSample {
    pub(super) sample: Sample,
    /// As [`Away::gil`].
    pub(super) gil: Option<HolderPointer>,
    pub(super) lock: u64,
    pub(super) start_time_ns: u64,
}

impl Traced {
    pub(super) fn new(waits: TracedWaits) -> Self {
        Self {
            waits,
            away: HashMap::new(),
        }
    }

    /// Forgets a thread that has ended.
    pub(super) fn forget(&mut self, tid: u32) {
        self.away.remove(&tid);
    }

    /// Forgets threads that were not visited, where there are too many.
    pub(super) fn forget_gone(&mut self, heads: &[ThreadVisit]) {
        if self.away.len() <= heads.len() + MAX_UNSEEN {
            return;
        }
        let seen: HashSet<u32> = heads.iter().map(|head| head.tid).collect();
        self.away.retain(|tid, _| seen.contains(tid));
    }

    pub(super) fn leave(&mut self, away: Away) {
        let tid = away.sample.tid;
        if self.away.len() < MAX_AWAY || self.away.contains_key(&tid) {
            self.away.insert(tid, away);
        }
    }

    /// A thread that left at this time has waited for so long.
    pub(super) fn wait(&mut self, tid: u32, left_ns: u64, wait_ns: u64) -> Option<TracedSample> {
        let away = self.away.get_mut(&tid)?;
        if away.is_taken || away.sample.time_ns != left_ns || wait_ns == 0 {
            return None;
        }
        away.is_taken = true;
        Some(TracedSample {
            sample: of_time(&away.sample, wait_ns.min(SHORT_WAIT_NS)),
            gil: away.gil,
            lock: away.lock,
            start_time_ns: away.start_time_ns,
        })
    }

    /// It is back, after it has waited for a processor for so long.
    pub(super) fn come_back(&mut self, tid: u32, left_ns: u64, delay_ns: u64) -> Option<Sample> {
        let away = self.away.get(&tid)?;
        if away.sample.time_ns != left_ns {
            return None;
        }
        let away = self.away.remove(&tid)?;
        let sample = Sample {
            wait: WaitReason::RUNNABLE,
            ..away.sample
        };
        (delay_ns != 0).then(|| of_time(&sample, delay_ns))
    }
}

/// A sample of so many nanoseconds, and of those for which it stands.
fn of_time(sample: &Sample, nanoseconds: u64) -> Sample {
    Sample {
        value: sample.value.saturating_mul(nanoseconds),
        ..*sample
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros as _;

    use super::*;

    const LEFT: u64 = 1_000_000_000;

    fn traced() -> Traced {
        let mut traced = Traced::new(TracedWaits::default());
        traced.leave(Away {
            sample: Sample {
                wait: WaitReason::SLEEP,
                tid: 2,
                time_ns: LEFT,
                value: 4,
                ..Sample::new_zeroed()
            },
            gil: None,
            lock: 0,
            start_time_ns: 3,
            is_taken: false,
        });
        traced
    }

    fn value(taken: Option<TracedSample>) -> Option<u64> {
        taken.map(|taken| taken.sample.value)
    }

    #[test]
    fn a_short_wait_is_as_long_as_it_is() {
        let mut traced = traced();
        assert_eq!(value(traced.wait(2, LEFT, 50_000)), Some(200_000));
        let delayed = traced.come_back(2, LEFT, 7_000).unwrap();
        assert_eq!(
            (delayed.value, delayed.wait),
            (28_000, WaitReason::RUNNABLE)
        );
        assert!(traced.away.is_empty());
    }

    #[test]
    fn of_a_long_wait_the_first_part_is_taken_once() {
        let mut traced = traced();
        let first = traced.wait(2, LEFT, SHORT_WAIT_NS + 1);
        assert_eq!(value(first), Some(4 * SHORT_WAIT_NS));
        assert_eq!(value(traced.wait(2, LEFT, 20 * SHORT_WAIT_NS)), None);
        assert!(traced.come_back(2, LEFT, 0).is_none());
        assert!(traced.away.is_empty());
    }

    #[test]
    fn what_is_of_another_time_is_left_out() {
        let mut traced = traced();
        assert_eq!(value(traced.wait(2, LEFT + 1, 5)), None);
        assert_eq!(value(traced.wait(3, LEFT, 5)), None);
        assert!(traced.come_back(2, LEFT + 1, 5).is_none());
        assert_eq!(traced.away.len(), 1);
    }

    #[test]
    fn threads_that_have_ended_are_forgotten() {
        let mut traced = traced();
        let away = *traced.away.get(&2).unwrap();
        for tid in 10..10 + u32::try_from(MAX_UNSEEN).unwrap() {
            let sample = Sample { tid, ..away.sample };
            traced.leave(Away { sample, ..away });
        }
        traced.forget_gone(&[]);
        assert!(traced.away.is_empty());
    }
}
