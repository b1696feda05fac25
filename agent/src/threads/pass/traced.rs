//! Traced context switches: what threads waited for, and how long.
//!
//! The BPF programs record some threads that leave their processors with their stacks, and for how long they were away
//! when they are back. Why a thread waits is found out in the pass after that.

use std::sync::Arc;

use agent_common::{
    limits::SHORT_WAIT_NS,
    record::{EndedWait, ProfileKind, RecordKind, Sample, StartedWait, WaitReason},
    visit::ThreadVisit,
};

use super::{
    PassError, Passer,
    away::{Away, TracedSample},
};
use crate::{
    python::gil::Gil,
    threads::{
        batch::LockWaitSample,
        gil::{GilHolders, GilWait, HolderPointer},
        locks::NamedLock,
        reason::is_stopped,
        traced_waits::TracedWait,
    },
};

impl Passer {
    /// Finds out what was recorded since the last pass; returns the first parts of waits. Of threads that waited for a
    /// processor there are samples.
    pub(super) fn take_traced(
        &mut self,
        heads: &[ThreadVisit],
        now_ns: u64,
    ) -> Result<Vec<TracedSample>, PassError> {
        let Some(traced) = &self.traced else {
            return Ok(Vec::new());
        };
        let dropped = traced.waits.dropped();
        self.shared.status.set_dropped_waits(dropped);
        let mut waits = Vec::new();
        for wait in traced.waits.take() {
            match wait {
                TracedWait::Started(started) => {
                    if let Some(away) = self.find_out(&started)?
                        && let Some(traced) = &mut self.traced
                    {
                        traced.leave(away);
                    }
                }
                TracedWait::Ended(ended) => {
                    let EndedWait {
                        tid,
                        left_ns,
                        wait_ns,
                        delay_ns,
                        ..
                    } = ended;
                    if let Some(traced) = &mut self.traced {
                        waits.extend(traced.wait(tid, left_ns, wait_ns));
                        let delayed = traced.come_back(tid, left_ns, delay_ns);
                        self.batch.traced_waits.extend(delayed);
                    }
                }
            }
        }
        let Some(traced) = &mut self.traced else {
            return Ok(waits);
        };
        traced.forget_gone(heads);
        for head in heads {
            let wait_ns = now_ns.saturating_sub(head.left_ns);
            if head.left_ns != 0 && wait_ns >= SHORT_WAIT_NS {
                waits.extend(traced.wait(head.tid, head.left_ns, wait_ns));
            }
        }
        Ok(waits)
    }

    /// Finds out why a thread waits; [`None`] where its process has ended, or is left out.
    fn find_out(&mut self, started: &StartedWait) -> Result<Option<Away>, PassError> {
        let shared = Arc::clone(&self.shared);
        let tgid = started.sample.tgid;
        let found = shared.read(self.turn, tgid, || self.try_find_out(started))?;
        Ok(found)
    }

    fn try_find_out(&mut self, started: &StartedWait) -> Option<Away> {
        let mut sample = started.sample;
        sample.header.kind = RecordKind::SAMPLE;
        sample.header.bytes = u32::try_from(size_of::<Sample>()).unwrap_or(0);
        let StartedWait {
            registers, state, ..
        } = started;
        let mut away = Away {
            sample,
            gil: None,
            lock: 0,
            start_time_ns: started.start_time_ns,
            is_taken: false,
        };
        if *state == 0 {
            // It does not wait.
            return Some(away);
        }
        if is_stopped(*state) {
            away.sample.wait = WaitReason::STOPPED;
            return Some(away);
        }
        self.open_process(sample.tgid)?;
        let scratch = self.walker.scratch();
        let process = self.processes.get_mut(&sample.tgid)?;
        sample.wait = process.reason(*state, registers);
        if sample.wait == WaitReason::GIL && sample.holds_gil != 0 {
            // For the mutex with which it gives the GIL up.
            sample.wait = WaitReason::OTHER;
        }
        if sample.wait == WaitReason::LOCK && process.stop(registers, started.thread_id).is_some() {
            sample.wait = WaitReason::STOP_THE_WORLD;
        }
        let gil =
            (self.reads.gil && sample.wait == WaitReason::GIL).then(|| match started.gil_holder {
                0 => HolderPointer::Nobody,
                StartedWait::UNKNOWN_HOLDER => HolderPointer::Unknown,
                holder => process.holder_with(holder),
            });
        let mut lock = 0;
        if self.locks.is_some() && sample.wait == WaitReason::LOCK {
            let found = process.lock(registers, started.thread_id, scratch);
            let found = found.map(|found| process.look_up_lock(found, scratch));
            let name = found.and_then(|found| process.locks.name(found));
            if let Some(name) = name {
                let named = NamedLock::new(self.walker.seed(), sample.tgid, name);
                lock = named.hash;
                if self.batch.is_new(lock) {
                    self.batch.add_reference(&named.record);
                }
            }
        }
        away.sample = sample;
        (away.gil, away.lock) = (gil, lock);
        Some(away)
    }

    /// Adds the samples of the first parts of waits.
    pub(super) fn add_traced(&mut self, waits: &[TracedSample], holders: &GilHolders) {
        for wait in waits {
            let TracedSample {
                sample,
                gil,
                lock,
                start_time_ns,
            } = *wait;
            self.batch.traced_waits.push(sample);
            if self.locks.is_some() && sample.wait == WaitReason::LOCK {
                let of_lock = Sample {
                    kind: ProfileKind::LOCK,
                    ..sample
                };
                self.batch.lock_waits.push(LockWaitSample {
                    sample: of_lock,
                    lock,
                    // Its end is not recorded.
                    switches: 0,
                    start_time_ns,
                });
            }
            if let Some(holder) = gil {
                let wait = GilWait {
                    gil: Gil::Only,
                    holder,
                    pass: self.pass,
                };
                self.add_gil_wait(&sample, wait, holders);
            }
        }
    }
}
