//! The processor of a thread that runs, taken for as long as a pass takes.
//!
//! A thread that runs has no stack that can be read from outside: it changes. But one that is ready to run and does not, since
//! another thread has its processor, is as easy to read as one that sleeps. That other thread is the one that makes the pass,
//! as any program would be that shares the machine; nothing is asked of the profiled one.
//!
//! Invariants: processors are taken only from threads that must share them; how soon the scheduler gives one depends on
//! weights and on who else wants it, so that the thread that waits for it can be released from elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::{
    process::{Pid, getpid},
    thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity},
};

use crate::process::{Scheduling, SchedulingPolicy, scheduling};

/// Takes processors, until it is released. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Taker(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_released: bool,
    present: Option<Present>,
}

/// A thread that is on one processor alone.
#[derive(Clone, Copy, Debug)]
struct Present {
    thread: Pid,
    processor: usize,
    /// Those that it may use otherwise, with this one.
    all: CpuSet,
}

impl Present {
    /// Those that it may use but for this one, if there are any.
    fn others(&self) -> CpuSet {
        let mut others = self.all;
        others.unset(self.processor);
        if others.count() == 0 {
            self.all
        } else {
            others
        }
    }
}

/// What comes of taking the processor of a thread.
#[derive(Debug)]
pub(super) enum Taking {
    /// The calling thread has it.
    Taken(TakenProcessor),
    /// The thread need not share it, or the calling one may not use it.
    Refused,
    /// The thread has ended.
    Ended,
}

/// The calling thread is on one processor alone, until this is dropped.
#[derive(Debug)]
pub(super) struct TakenProcessor(Taker);

impl Taker {
    /// Takes the processor of a thread; returns when the scheduler has given it.
    pub(super) fn take(&self, process: u32, thread: u32) -> Taking {
        let Some(of) = scheduling(process, thread) else {
            return Taking::Ended;
        };
        if self.try_take(&of).is_none() {
            return Taking::Refused;
        }
        Taking::Taken(TakenProcessor(self.clone()))
    }

    fn try_take(&self, of: &Scheduling) -> Option<()> {
        let [process, thread] = [getpid(), gettid()].map(|id| id.as_raw_pid().cast_unsigned());
        let own = scheduling(process, thread)?;
        let all = sched_getaffinity(None).ok()?;
        let processor = usize::try_from(of.processor).ok()?;
        let may_use = processor < CpuSet::MAX_CPU && all.is_set(processor);
        if !must_share(of, &own) || !may_use {
            return None;
        }
        let present = Present {
            thread: gettid(),
            processor,
            all,
        };
        {
            let mut state = self.state();
            if state.is_released {
                return None;
            }
            state.present = Some(present);
        }
        let mut only = CpuSet::new();
        only.set(processor);
        let is_taken = sched_setaffinity(None, &only).is_ok();
        if self.state().is_released {
            // It may have been released before it waited.
            let _ = sched_setaffinity(None, &present.others());
        }
        if !is_taken {
            self.state().present = None;
        }
        is_taken.then_some(())
    }

    /// Takes processors again.
    pub(super) fn allow(&self) {
        self.state().is_released = false;
    }

    /// Gives the present one back, from another thread, and takes no more.
    pub(super) fn release(&self) {
        let mut state = self.state();
        state.is_released = true;
        if let Some(present) = state.present {
            // Where it is allowed to stay it may wait there all the same. An error means that it has ended.
            let _ = sched_setaffinity(Some(present.thread), &present.others());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TakenProcessor {
    fn drop(&mut self) {
        if let Some(present) = self.0.state().present.take() {
            // Where it fails the thread stays where it is, which is a place like another one.
            let _ = sched_setaffinity(None, &present.all);
        }
    }
}

/// Whether a thread gets no more of a processor than another one that wants it.
fn must_share(thread: &Scheduling, own: &Scheduling) -> bool {
    own.policy == SchedulingPolicy::Ordinary
        && thread.policy != SchedulingPolicy::Precedent
        && thread.nice >= own.nice
}

#[cfg(test)]
mod tests {
    use std::{
        hint,
        sync::atomic::{AtomicBool, AtomicU32, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn who_has_precedence_keeps_its_processor() {
        let thread = |nice, policy| Scheduling {
            processor: 0,
            nice,
            policy,
        };
        let own = thread(0, SchedulingPolicy::Ordinary);
        for (nice, policy, expected) in [
            (0, SchedulingPolicy::Ordinary, true),
            (19, SchedulingPolicy::Ordinary, true),
            (0, SchedulingPolicy::Background, true),
            (-1, SchedulingPolicy::Ordinary, false),
            (0, SchedulingPolicy::Precedent, false),
        ] {
            let found = must_share(&thread(nice, policy), &own);
            assert_eq!(found, expected, "{nice} {policy:?}");
        }
        // One that waits for all others would wait for long.
        let own = thread(0, SchedulingPolicy::Background);
        assert!(!must_share(&thread(0, SchedulingPolicy::Ordinary), &own));
    }

    #[test]
    fn it_is_that_of_the_thread_and_is_given_back() {
        let (tid, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                tid.store(gettid().as_raw_pid().cast_unsigned(), Ordering::Release);
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
            while tid.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            let (pid, tid) = (std::process::id(), tid.load(Ordering::Acquire));
            let mask = || sched_getaffinity(None).unwrap();
            let before = mask();
            let processors = Taker::default();
            let Taking::Taken(taken) = processors.take(pid, tid) else {
                panic!("it is not taken");
            };
            let own = gettid().as_raw_pid().cast_unsigned();
            let processor = scheduling(pid, own).unwrap().processor;
            assert_eq!(mask().count(), 1);
            assert!(mask().is_set(processor as usize));
            drop(taken);
            assert_eq!(mask(), before);
            // From elsewhere, and no more of them.
            let Taking::Taken(taken) = processors.take(pid, tid) else {
                panic!("it is not taken");
            };
            let only = mask();
            let elsewhere = processors.clone();
            scope.spawn(move || elsewhere.release()).join().unwrap();
            let is_elsewhere = |it: &usize| before.is_set(*it) && !only.is_set(*it);
            let elsewhere = (0..CpuSet::MAX_CPU).filter(is_elsewhere).count();
            assert_eq!(mask().count() as usize, elsewhere.max(1));
            drop(taken);
            assert_eq!(mask(), before);
            assert!(matches!(processors.take(pid, tid), Taking::Refused));
            processors.allow();
            assert!(matches!(processors.take(pid, tid), Taking::Taken(_)));
            let other = Taker::default();
            assert!(matches!(other.take(pid, u32::MAX), Taking::Ended));
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
