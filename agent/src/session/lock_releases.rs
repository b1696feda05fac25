//! Time that threads waited for locks, by who ended the wait.
//!
//! Passes find out for how long a thread waits, and the BPF program who ends the wait; either may come first,
//! since they come by different ways. What nobody has ended by the end of a window is counted with the stack of the
//! thread that waits.
//!
//! Invariants: all that is added is returned once; what is remembered is bounded, and more is counted as what nobody
//! has ended.

use agent_common::record::{LockRelease, ProfileKind, RecordKind, Sample, WaitReason};
use foldhash::HashMap;

use crate::{aggregate::Blocked, threads::LockWaitSample};

/// Most waits, and most ends of waits, that are remembered.
const MAX_WAITS: usize = 16 << 10;

/// For how long the end of a wait is remembered, in nanoseconds: a pass that saw the wait may come later.
const REMEMBERED_NS: u64 = 5_000_000_000;

/// Waits for locks that nobody has ended yet, and ends of waits.
#[derive(Debug, Default)]
pub(super) struct LockReleases {
    /// By the thread that waits.
    owed: HashMap<u32, Owed>,
    /// The last end of a wait of each thread.
    ended: HashMap<u32, LockRelease>,
    /// When old ends were last forgotten, in nanoseconds of the monotonic clock.
    forgotten_ns: u64,
}

/// What identifies a wait: when its thread was made, and the thread's context switches.
type Wait = (u64, u64);

fn wait_of(waiting: &LockWaitSample) -> Wait {
    (waiting.start_time_ns, waiting.switches)
}

fn ended_wait(release: &LockRelease) -> Wait {
    (release.start_time_ns, release.switches)
}

/// A sample, and whom its thread keeps waiting.
pub(super) type Paid = (Sample, Blocked);

/// A wait that nobody has ended yet.
#[derive(Clone, Copy, Debug)]
struct Owed {
    samples: u32,
    ns: u64,
    last: LockWaitSample,
}

impl LockReleases {
    /// Adds a sample of a thread that waits for a lock; returns what is known to the end of.
    pub(super) fn add(&mut self, waiting: &LockWaitSample) -> Vec<Paid> {
        let tid = waiting.sample.tid;
        let mut new = Owed {
            samples: 0,
            ns: 0,
            last: *waiting,
        };
        new.add(waiting);
        if let Some(release) = self.ended.get(&tid)
            && ended_wait(release) == wait_of(waiting)
        {
            return vec![new.ended_by(release)];
        }
        let has_room = self.owed.len() < MAX_WAITS || self.owed.contains_key(&tid);
        // Nobody records the end of a wait without context switches.
        if waiting.switches == 0 || !has_room {
            return vec![new.unended()];
        }
        match self.owed.get_mut(&tid) {
            Some(owed) if wait_of(&owed.last) == wait_of(waiting) => {
                owed.add(waiting);
                owed.last = *waiting;
                Vec::new()
            }
            // It waits for something else by now.
            before => {
                let before = before.map(|owed| owed.unended());
                self.owed.insert(tid, new);
                before.into_iter().collect()
            }
        }
    }

    /// Adds the end of a wait; returns how long it is known to have lasted.
    pub(super) fn end(&mut self, release: &LockRelease) -> Option<Paid> {
        let tid = release.waiter;
        self.forget_old_ends(release.sample.time_ns);
        if self.ended.len() < MAX_WAITS || self.ended.contains_key(&tid) {
            self.ended.insert(tid, *release);
        }
        let owed = self.owed.get(&tid)?;
        if wait_of(&owed.last) != ended_wait(release) {
            return None;
        }
        let owed = self.owed.remove(&tid)?;
        Some(owed.ended_by(release))
    }

    /// What nobody has ended, at the end of a window.
    pub(super) fn end_window(&mut self) -> Vec<Paid> {
        self.owed.drain().map(|(_, owed)| owed.unended()).collect()
    }

    fn forget_old_ends(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.forgotten_ns) < REMEMBERED_NS {
            return;
        }
        self.forgotten_ns = now_ns;
        let is_recent =
            |end: &LockRelease| now_ns.saturating_sub(end.sample.time_ns) < REMEMBERED_NS;
        self.ended.retain(|_, end| is_recent(end));
    }
}

impl Owed {
    fn add(&mut self, waiting: &LockWaitSample) {
        self.samples = self.samples.saturating_add(waiting.sample.count);
        self.ns = self.ns.saturating_add(waiting.sample.value);
    }

    /// The wait, with the stack of the thread that has ended it.
    fn ended_by(&self, release: &LockRelease) -> Paid {
        let is_thread_of_process = release.sample.tgid == self.last.sample.tgid;
        let blocked = if is_thread_of_process {
            release.waiter
        } else {
            0
        };
        self.with_stack_of(release.sample, WaitReason::NONE, blocked)
    }

    /// The wait, with the stack of the thread that waits.
    fn unended(&self) -> Paid {
        self.with_stack_of(self.last.sample, WaitReason::LOCK, 0)
    }

    fn with_stack_of(&self, of: Sample, wait: WaitReason, thread: u32) -> Paid {
        let mut sample = Sample {
            value: self.ns,
            count: self.samples,
            kind: ProfileKind::LOCK_RELEASE,
            wait,
            ..of
        };
        sample.header.kind = RecordKind::SAMPLE;
        let blocked = Blocked {
            thread,
            lock: self.last.lock,
            stacks: (self.last.sample.stack, self.last.sample.native_stack),
            ..Blocked::default()
        };
        (sample, blocked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::fixtures::sample;

    fn waiting(tid: u32, switches: u64) -> LockWaitSample {
        LockWaitSample {
            sample: Sample {
                kind: ProfileKind::LOCK,
                wait: WaitReason::LOCK,
                value: 100,
                tid,
                stack: 70,
                ..sample()
            },
            lock: 5,
            switches,
            start_time_ns: 3,
        }
    }

    fn release(waiter: u32, switches: u64, tgid: u32) -> LockRelease {
        LockRelease {
            sample: Sample {
                kind: ProfileKind::LOCK_RELEASE,
                value: 0,
                count: 0,
                tgid,
                tid: 9,
                stack: 90,
                ..sample()
            },
            switches,
            start_time_ns: 3,
            waiter,
            reserved: 0,
        }
    }

    /// Stack, thread, value and samples, and whom it blocks.
    fn shown(paid: impl IntoIterator<Item = Paid>) -> Vec<(u64, u32, u64, u32, u32)> {
        let shown = paid.into_iter().map(|(sample, blocked)| {
            assert_eq!(sample.kind, ProfileKind::LOCK_RELEASE);
            assert_eq!(sample.wait == WaitReason::NONE, sample.tid == 9);
            assert_eq!((blocked.lock, blocked.stacks.0), (5, 70));
            let amount = (sample.value, sample.count);
            (sample.stack, sample.tid, amount.0, amount.1, blocked.thread)
        });
        shown.collect()
    }

    #[test]
    fn whoever_ends_a_wait_has_all_of_it() {
        let mut releases = LockReleases::default();
        let tgid = sample().tgid;
        for _ in 0..3 {
            assert!(releases.add(&waiting(2, 7)).is_empty());
        }
        assert!(releases.end(&release(3, 7, tgid)).is_none());
        let ended = releases.end(&release(2, 7, tgid));
        assert_eq!(shown(ended), [(90, 9, 300, 3, 2)]);
        // A pass that saw it before comes later.
        let late = releases.add(&waiting(2, 7));
        assert_eq!(shown(late), [(90, 9, 100, 1, 2)]);
        // The next wait.
        assert!(releases.add(&waiting(2, 8)).is_empty());
        assert!(releases.end(&release(2, 7, tgid)).is_none());
        // By a thread of another process, which has other threads.
        let ended = releases.end(&release(2, 8, tgid + 1));
        assert_eq!(shown(ended), [(90, 9, 100, 1, 0)]);
    }

    #[test]
    fn what_nobody_has_ended_stays_with_the_thread_that_waits() {
        let mut releases = LockReleases::default();
        assert!(releases.add(&waiting(2, 7)).is_empty());
        // A time limit has ended the wait.
        let before = releases.add(&waiting(2, 9));
        assert_eq!(shown(before), [(70, 2, 100, 1, 0)]);
        assert_eq!(shown(releases.end_window()), [(70, 2, 100, 1, 0)]);
        assert!(releases.end_window().is_empty());
        // The word is not known.
        let unknown = releases.add(&waiting(2, 0));
        assert_eq!(shown(unknown), [(70, 2, 100, 1, 0)]);
    }

    #[test]
    fn so_many_are_remembered_and_none_is_lost() {
        let mut releases = LockReleases::default();
        let mut returned = 0;
        let threads = u32::try_from(2 * MAX_WAITS).unwrap();
        for tid in 1..=threads {
            returned += releases.add(&waiting(tid, 7)).len();
            releases.end(&release(threads + tid, 7, 1));
        }
        assert_eq!(releases.owed.len(), MAX_WAITS);
        assert_eq!(releases.ended.len(), MAX_WAITS);
        returned += releases.end_window().len();
        assert_eq!(returned, 2 * MAX_WAITS);
        let mut late = release(1, 7, 1);
        late.sample.time_ns = 2 * REMEMBERED_NS;
        releases.end(&late);
        assert_eq!(releases.ended.len(), 1);
    }

    #[test]
    fn a_thread_with_the_id_of_another_one_has_waits_of_its_own() {
        let mut releases = LockReleases::default();
        releases.end(&release(2, 7, 1));
        let other = LockWaitSample {
            start_time_ns: 4,
            ..waiting(2, 7)
        };
        assert!(releases.add(&other).is_empty());
        assert!(releases.end(&release(2, 7, 1)).is_none());
        assert_eq!(shown(releases.end_window()), [(70, 2, 100, 1, 0)]);
    }
}
