//! Threads that rest: each pass finds them in the wait in which their stacks were read, and says of them what the last one
//! has said. Those who count samples know them, and get word only when a rest begins or ends.
//!
//! Invariants: a thread rests as long as each pass visits it and the kernel says that it has not run; a thread of which
//! passes may say something else, although it has not run, does not rest: samples and their times are those that it would
//! have.

use agent_common::{record::WaitReason, visit::ThreadVisit};

use super::{Passer, resting_threads::Rest};
use crate::threads::known_thread::Shown;

impl Passer {
    /// Takes over that a thread has waited ever since its stack was read, in a pass that stands for so much time; returns its
    /// visit, unless there is nothing to say but that it goes on resting.
    pub(super) fn rest(
        &mut self,
        (tid, state): (u32, u32),
        now_ns: u64,
        elapsed_ns: u64,
    ) -> Option<ThreadVisit> {
        if let Some(rest) = self.resting.threads.get_mut(&tid)
            && rest.state == state
            && rest.owes_ns < elapsed_ns
            && (rest.again_ns == 0 || now_ns < rest.again_ns)
        {
            if rest.pass != self.pass {
                rest.pass = self.pass;
                self.visited += 1;
            }
            return None;
        }
        let known = self.threads.get(&tid);
        if known.is_none() {
            // All is recorded of it in the next pass.
            self.shared.visits().forget(tid);
        }
        known.map(|known| ThreadVisit {
            state,
            ..known.unchanged()
        })
    }

    /// A thread of which this pass has found what the next ones will find too begins to rest.
    pub(super) fn begin_rest(&mut self, head: &ThreadVisit, time_ns: u64) {
        if head.is_unchanged == 0 || !self.resting.are_some {
            return;
        }
        let Some(known) = self.threads.get(&head.tid) else {
            return;
        };
        let Shown::Waiting(reason) = known.shown else {
            return;
        };
        let is_at_lock = reason == WaitReason::LOCK && !self.resting.are_at_locks;
        // It is not: samples show how long it did, by the kernel's account.
        if is_at_lock || reason == WaitReason::RUNNABLE {
            return;
        }
        let rest = Rest {
            pass: self.pass,
            again_ns: known.again_ns,
            state: head.state,
            owes_ns: known.owes_ns(),
        };
        self.batch.begin_rest(known.sample(time_ns, 0, reason));
        self.resting.threads.insert(head.tid, rest);
    }

    /// A thread does not rest any more, if it did.
    pub(super) fn end_rest(&mut self, tid: u32) {
        if self.resting.threads.remove(&tid).is_some() {
            self.batch.end_rest(tid);
        }
    }
}

#[cfg(test)]
mod tests;
