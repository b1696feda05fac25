//! Threads that run at a pass: it has those sampled of which the clock of CPU time may have no samples, since their
//! stacks cannot be read from outside.

use std::collections::BTreeSet;

use agent_common::visit::ThreadVisit;

use super::Passer;
use crate::threads::gil::{GilHolders, Holder};

/// CPU time up to which a thread has hardly run: the clock has few samples of it, or none.
const HARDLY_NS: u64 = 50_000_000;

impl Passer {
    /// Has the threads sampled that the pass at this time has just seen running.
    pub(super) fn sample_running(&self, heads: &[ThreadVisit], time_ns: u64) {
        let running = heads.iter().filter(|head| head.on_cpu != 0);
        self.sample_seldom(running, time_ns);
    }

    /// Has the threads sampled that hold a GIL and run, as far as it is known where: the pass has read stacks since it
    /// has seen which threads run.
    pub(super) fn sample_holders(&self, holders: &GilHolders, time_ns: u64) {
        let running = holders.all().filter_map(|(_, holder)| {
            let Holder::Thread(tid) = holder else {
                return None;
            };
            let known = self.threads.get(&tid)?;
            known.waits_with_gil().is_none().then_some(&known.visit)
        });
        self.sample_seldom(running, time_ns);
    }

    /// Has those of these threads sampled that are new or have hardly run.
    fn sample_seldom<'a>(&self, running: impl Iterator<Item = &'a ThreadVisit>, time_ns: u64) {
        let Some(mut clocks) = self.shared.clocks() else {
            return;
        };
        let seldom = running.filter(|visit| {
            let known = self.threads.get(&visit.tid);
            visit.run_ns < HARDLY_NS || known.is_some_and(|known| known.is_new(time_ns))
        });
        let processors: BTreeSet<_> = seldom.map(|visit| visit.processor).collect();
        clocks.sample(&Vec::from_iter(processors));
    }
}
