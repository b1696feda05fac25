//! The processes that are open.
//!
//! Invariant: their number is bounded, between passes and in them.

use super::Passer;
use crate::{
    threads::{locks::LockNaming, process::VisitedProcess, shared::Shared},
    workers::Subject,
};

/// Most processes that are open after a pass: each takes five file descriptors. One whose threads do not run
/// need not be.
pub(super) const MAX_OPEN: usize = 64;

/// Most that are open in the middle of a pass.
const MAX_OPEN_IN_PASS: usize = 4 * MAX_OPEN;

impl Passer {
    /// Opens a process, or takes over what is new about it, once in a pass; [`None`] where it has ended
    /// or is left out, or is not known yet.
    pub(super) fn open_process(&mut self, tgid: u32) -> Option<()> {
        let Shared {
            maps,
            locations,
            workers,
            ..
        } = &*self.shared;
        let present = self.processes.get(&tgid);
        if present.is_some_and(|process| process.pass == self.pass) {
            return Some(());
        }
        let is_known = !self.unknown.contains(&tgid) && maps.process(tgid).is_some();
        let opened = if !is_known || workers.is_quarantined(&Subject::stacks(tgid)) {
            None
        } else {
            let locks = self.locks.unwrap_or(LockNaming::WithoutIdentities);
            match self.processes.remove(&tgid) {
                Some(mut process) => process.update(tgid, maps, locations).then_some(process),
                None => VisitedProcess::open(tgid, maps, locations, locks),
            }
        };
        let Some(mut process) = opened else {
            self.unknown.insert(tgid);
            return None;
        };
        process.pass = self.pass;
        if self.processes.len() >= MAX_OPEN_IN_PASS {
            self.close_processes();
        }
        self.processes.insert(tgid, process);
        Some(())
    }

    /// Closes the processes that were not read for the longest time, if more are open than may be.
    pub(super) fn close_processes(&mut self) {
        let surplus = self.processes.len().saturating_sub(MAX_OPEN);
        if surplus == 0 {
            return;
        }
        let mut open: Vec<(u64, u32)> = self
            .processes
            .iter()
            .map(|(tgid, process)| (process.pass, *tgid))
            .collect();
        open.sort_unstable();
        for (_, tgid) in open.into_iter().take(surplus) {
            self.processes.remove(&tgid);
        }
    }
}
