//! Threads whose stacks there was no time to read: their samples are put off until a later pass reads them.
//!
//! A thread that has not run since has the stack that it had, so that its time is that of this stack. Of one that has,
//! nothing more becomes known.
//!
//! Invariant: time that is put off is in a sample later, with a stack or without.

use super::Passer;
use crate::bpf::monotonic_ns;

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

    /// Adds the samples of all time that was put off: no pass follows.
    pub(in crate::threads) fn finish(&mut self) {
        let time_ns = monotonic_ns();
        for known in self.threads.values_mut() {
            known.give_up_time(time_ns, &mut self.batch, &self.shared.status);
        }
    }
}
