//! Threads whose stacks there was no time to read: their samples are put off until a later pass reads them.
//!
//! A thread that has not run since has the stack that it had, so that its time is that of this stack. Of one that has,
//! nothing more becomes known.
//!
//! Invariant: time that is put off is in a sample later, with a stack or without.

use agent_common::visit::ThreadVisit;

use super::{Passer, proof::did_not_run};
use crate::{bpf::monotonic_ns, threads::known_thread::Wait};

impl Passer {
    /// Puts the sample of a thread off; of a snapshot there is no later pass.
    pub(super) fn put_off(&mut self, tid: u32) {
        if self.is_moment() {
            self.give_up(tid);
            return;
        }
        self.shared.visits().forget(tid);
        if let Some(known) = self.threads.get_mut(&tid) {
            known.reset();
            known.is_put_off = true;
        }
    }

    /// Adds the sample of the time that was put off of a thread that has run since, or was not visited again.
    pub(super) fn give_up_time(&mut self, tid: u32, visit: Option<&ThreadVisit>, time_ns: u64) {
        let Some(known) = self.threads.get_mut(&tid) else {
            return;
        };
        let is_same = visit.is_some_and(|visit| did_not_run(&known.visit, visit));
        if known.owed_ns != 0 && !is_same {
            let wait = Wait::UNPROVED;
            let owed_ns = known.take_owed();
            self.batch
                .samples
                .push(known.sample_of(&wait, time_ns, owed_ns));
            self.shared.status.add_unproved();
        }
    }

    /// Adds the samples of all time that was put off: no pass follows.
    pub(in crate::threads) fn finish(&mut self) {
        let time_ns = monotonic_ns();
        let tids: Vec<u32> = self.threads.keys().copied().collect();
        for tid in tids {
            self.give_up_time(tid, None, time_ns);
        }
    }
}
