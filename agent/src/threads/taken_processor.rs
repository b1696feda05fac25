//! The processor of a thread that runs, taken for as long as a pass takes.
//!
//! A thread that runs has no stack that can be read from outside: it changes. But one that is ready to run and does not, since
//! another thread has its processor, is as easy to read as one that sleeps. That other thread is the one that makes the pass,
//! for some hundred microseconds, as any program would be that shares the machine; nothing is asked of the profiled one.
//!
//! Invariant: only from threads that must share, so that the scheduler gives it within some milliseconds.

use rustix::{
    process::getpid,
    thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity},
};

use crate::process::{Scheduling, scheduling};

/// The calling thread is on one processor alone, until this is dropped.
#[derive(Debug)]
pub(super) struct TakenProcessor {
    /// Those that it may use otherwise.
    others: CpuSet,
}

impl TakenProcessor {
    /// Takes the processor of a thread; returns when the scheduler has given it. [`None`] where the thread need not share
    /// it, or the calling one may not use it.
    pub(super) fn of(tgid: u32, tid: u32) -> Option<Self> {
        let [own_pid, own_tid] = [getpid(), gettid()].map(|id| id.as_raw_pid().cast_unsigned());
        let (own, of) = (scheduling(own_pid, own_tid)?, scheduling(tgid, tid)?);
        if !must_share(&of, &own) {
            return None;
        }
        let others = sched_getaffinity(None).ok()?;
        let processor = usize::try_from(of.processor).ok()?;
        if processor >= CpuSet::MAX_CPU || !others.is_set(processor) {
            return None;
        }
        let mut only = CpuSet::new();
        only.set(processor);
        sched_setaffinity(None, &only).ok()?;
        Some(Self { others })
    }
}

impl Drop for TakenProcessor {
    fn drop(&mut self) {
        // Where it fails the thread stays where it is, which is a place like another one.
        let _ = sched_setaffinity(None, &self.others);
    }
}

/// Whether a thread gets no more of a processor than another one that wants it.
fn must_share(thread: &Scheduling, own: &Scheduling) -> bool {
    thread.is_ordinary && thread.nice >= own.nice
}

#[cfg(test)]
mod tests {
    use std::{
        hint,
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicU32, Ordering},
        },
        thread,
    };

    use super::*;

    #[test]
    fn who_has_precedence_keeps_its_processor() {
        let thread = |nice, is_ordinary| Scheduling {
            processor: 0,
            nice,
            is_ordinary,
        };
        let own = thread(0, true);
        assert!(must_share(&thread(0, true), &own));
        assert!(must_share(&thread(19, true), &own));
        assert!(!must_share(&thread(-1, true), &own));
        assert!(!must_share(&thread(0, false), &own));
    }

    #[test]
    fn it_is_that_of_the_thread_and_is_given_back() {
        let (tid, is_over) = (
            Arc::new(AtomicU32::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let busy = thread::spawn({
            let (tid, is_over) = (Arc::clone(&tid), Arc::clone(&is_over));
            move || {
                tid.store(gettid().as_raw_pid().cast_unsigned(), Ordering::Release);
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            }
        });
        while tid.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        let before = sched_getaffinity(None).unwrap();
        let taken = TakenProcessor::of(std::process::id(), tid.load(Ordering::Acquire)).unwrap();
        let during = sched_getaffinity(None).unwrap();
        let own = gettid().as_raw_pid().cast_unsigned();
        let own = scheduling(std::process::id(), own).unwrap();
        assert_eq!(during.count(), 1);
        assert!(during.is_set(own.processor as usize));
        drop(taken);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        is_over.store(true, Ordering::Relaxed);
        busy.join().unwrap();
        // Of a thread that there is not there is none.
        assert!(TakenProcessor::of(std::process::id(), u32::MAX).is_none());
    }
}
