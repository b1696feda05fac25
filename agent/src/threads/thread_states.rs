//! The thread states of a process, by thread.
//!
//! They are in the lists of its interpreters, which are read again for a thread that has none: it is new, or has entered
//! Python for the first time since. Where that is in vain, as for the threads of a native library, it is tried ever less
//! often; but never for a thread for which it was not tried yet.
//!
//! Invariant: what the lists of a process take is at most a hundredth of the time.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use agent_common::maps::ThreadState;

/// How much longer than it takes to read the lists it is at least until they are read again.
const PAUSE: u32 = 100;

/// The least and the most time after which they are read again for a thread that had no state.
const MIN_AGAIN: Duration = Duration::from_millis(5);
const MAX_AGAIN: Duration = Duration::from_secs(1);

/// Most threads that are known to have none.
const MAX_WITHOUT: usize = 16 << 10;

/// Thread states by `pthread_self()`.
type States = HashMap<u64, Vec<ThreadState>>;

/// The thread states of a process.
#[derive(Debug, Default)]
pub(super) struct ThreadStates {
    states: States,
    /// Threads that had none when the lists were read for them, by the kernel's id.
    without: HashSet<u32>,
    listed: Option<Listed>,
    /// The time after which the lists are read again for one of them.
    again: Duration,
}

/// When lists were read.
#[derive(Clone, Copy, Debug)]
struct Listed {
    at: Instant,
    took: Duration,
}

/// A thread, by the kernel's id and `pthread_self()`.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateOwner {
    pub(super) tid: u32,
    pub(super) thread_id: u64,
}

/// When more is known of a thread without a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatesKnown {
    /// They are as they are now.
    Now,
    /// The lists are to be read again after this time.
    After(Duration),
}

impl ThreadStates {
    /// Those of a thread, the newest interpreter first.
    pub(super) fn of(&self, thread_id: u64) -> &[ThreadState] {
        self.states.get(&thread_id).map_or(&[], Vec::as_slice)
    }

    /// Forgets all, as of another interpreter.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Reads the lists for a thread if it has no state in them, or they are `stale`, and that is due.
    pub(super) fn update(
        &mut self,
        owner: StateOwner,
        is_stale: bool,
        list: impl FnOnce() -> Option<States>,
    ) -> StatesKnown {
        let StateOwner { tid, thread_id } = owner;
        if self.states.contains_key(&thread_id) && !is_stale {
            return StatesKnown::Now;
        }
        let due_in = self.due_in(tid);
        if !due_in.is_zero() && !is_stale {
            return StatesKnown::After(due_in);
        }
        let start = Instant::now();
        if let Some(states) = list() {
            self.states = states;
        }
        let end = Instant::now();
        self.listed = Some(Listed {
            at: end,
            took: end - start,
        });
        if self.states.contains_key(&thread_id) {
            self.without.remove(&tid);
            self.again = MIN_AGAIN;
        } else {
            if self.without.len() >= MAX_WITHOUT {
                self.without.clear();
            }
            let factor = if self.without.insert(tid) { 1 } else { 2 };
            let again = self.again.saturating_mul(factor);
            self.again = again.clamp(MIN_AGAIN, MAX_AGAIN);
        }
        StatesKnown::Now
    }

    /// The time after which the lists may be read for a thread.
    fn due_in(&self, tid: u32) -> Duration {
        let Some(Listed { at, took }) = self.listed else {
            return Duration::ZERO;
        };
        let mut pause = took.saturating_mul(PAUSE);
        if self.without.contains(&tid) {
            pause = pause.max(self.again);
        }
        pause.min(MAX_AGAIN).saturating_sub(at.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use agent_common::memory::UserAddr;

    use super::*;

    const STATE: ThreadState = ThreadState {
        address: UserAddr(0x1000),
        interpreter: UserAddr(0x9000),
    };

    fn owner(tid: u32) -> StateOwner {
        StateOwner {
            tid,
            thread_id: u64::from(tid) << 12,
        }
    }

    fn states(tids: &[u32]) -> States {
        let states = tids.iter().map(|tid| (owner(*tid).thread_id, vec![STATE]));
        states.collect()
    }

    /// Of the list of these threads: when more is known of a thread, and whether it was read.
    fn update(states: &mut ThreadStates, tid: u32, listed: &[u32]) -> (StatesKnown, bool) {
        let mut is_read = false;
        let known = states.update(owner(tid), false, || {
            is_read = true;
            Some(self::states(listed))
        });
        (known, is_read)
    }

    /// As if that were so long ago.
    fn pass_time(states: &mut ThreadStates, time: Duration) {
        if let Some(listed) = &mut states.listed {
            listed.at = listed.at.checked_sub(time).unwrap();
            listed.took = Duration::ZERO;
        }
    }

    #[test]
    fn a_new_thread_has_its_state_at_once() {
        let mut states = ThreadStates::default();
        assert_eq!(update(&mut states, 1, &[1]), (StatesKnown::Now, true));
        assert_eq!(update(&mut states, 1, &[]), (StatesKnown::Now, false));
        pass_time(&mut states, Duration::from_millis(1));
        assert_eq!(update(&mut states, 2, &[1, 2]), (StatesKnown::Now, true));
        assert_eq!(states.of(owner(2).thread_id), [STATE]);
        assert!(states.of(owner(3).thread_id).is_empty());
    }

    #[test]
    fn lists_that_take_long_are_read_seldom() {
        let mut states = ThreadStates::default();
        update(&mut states, 1, &[1]);
        let listed = states.listed.as_mut().unwrap();
        listed.took = Duration::from_millis(3);
        let (known, is_read) = update(&mut states, 2, &[1, 2]);
        let StatesKnown::After(wait) = known else {
            panic!("{known:?}");
        };
        assert!(!is_read && wait <= Duration::from_millis(300), "{wait:?}");
        assert!(wait > Duration::from_millis(100), "{wait:?}");
        // Those that are stale are no use.
        let known = states.update(owner(1), true, || Some(self::states(&[1, 2])));
        assert_eq!(known, StatesKnown::Now);
        assert_eq!(states.of(owner(2).thread_id), [STATE]);
    }

    #[test]
    fn what_is_in_vain_is_tried_ever_less_often_but_not_for_others() {
        let mut states = ThreadStates::default();
        update(&mut states, 1, &[]);
        for milliseconds in [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000] {
            let almost = Duration::from_millis(milliseconds) * 9 / 10;
            pass_time(&mut states, almost);
            if milliseconds > 5 {
                assert!(!update(&mut states, 1, &[]).1, "{milliseconds}");
            }
            pass_time(&mut states, almost);
            assert!(update(&mut states, 1, &[]).1, "{milliseconds}");
        }
        pass_time(&mut states, Duration::from_millis(1));
        assert_eq!(update(&mut states, 2, &[2]), (StatesKnown::Now, true));
        // It calls into Python for the first time.
        pass_time(&mut states, MIN_AGAIN);
        assert_eq!(update(&mut states, 1, &[1, 2]), (StatesKnown::Now, true));
    }
}
