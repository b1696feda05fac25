//! The GIL: who holds it, and on whose account waits for it are.

use std::{collections::HashSet, sync::Arc, time::Instant};

use agent_common::{
    record::{NativeUnwindStatus, ProfileKind, PythonUnwindStatus, Sample, WaitReason},
    visit::ThreadVisit,
};

use super::{PassError, Passer, away::TracedSample};
use crate::threads::{
    batch::{BlockedThread, KeptWaiting, RunningThread},
    gil::{GilHolders, GilWait, Holder},
    known_thread::{Shown, Wait},
};

impl Passer {
    /// Reads who holds the GILs of the processes of which a thread may: one that runs, or waits for it, or with it;
    /// `traced` are first parts of traced waits. Of processes for which there is no time nothing is read.
    pub(super) fn gil_holders(
        &mut self,
        heads: &[ThreadVisit],
        traced: &[TracedSample],
        deadline: Instant,
    ) -> Result<GilHolders, PassError> {
        let is_concerned = |head: &&ThreadVisit| {
            let known = self.threads.get(&head.tid);
            known.is_some_and(|known| {
                let concerns_gil = |wait: Wait| wait.is_to_run() || wait.stack.holds_gil;
                known.shown_wait().is_none_or(concerns_gil)
            })
        };
        let concerned = heads.iter().filter(is_concerned).map(|head| head.tgid);
        let traced = traced.iter().filter(|it| it.gil.is_some());
        let traced = traced.map(|wait| wait.sample.tgid);
        let concerned: HashSet<u32> = concerned.chain(traced).collect();
        let threads = heads
            .iter()
            .map(|head| (head.tgid, head.thread_pointer, head.tid));
        let mut holders = GilHolders::of_processes(&concerned, threads);
        for tgid in concerned {
            if Instant::now() >= deadline {
                break;
            }
            let shared = Arc::clone(&self.shared);
            let read = shared.read(self.turn, tgid, || {
                self.open_process(tgid)?;
                Some(self.processes.get_mut(&tgid)?.gil_holders())
            })?;
            if let Some(read) = read {
                holders.add(tgid, &read);
            }
        }
        Ok(holders)
    }

    /// Adds the elapsed time to the threads that hold a GIL.
    ///
    /// It is read once in a pass, whatever the samples of elapsed time show of the thread: what is summed up is
    /// the time in which the interpreter's words say that it has the GIL, and never more than has elapsed.
    pub(super) fn add_holders(&mut self, holders: &GilHolders, time_ns: u64, elapsed_ns: u64) {
        for (tgid, holder) in holders.all() {
            let tid = match holder {
                Holder::Nobody => continue,
                Holder::Thread(tid) => tid,
                Holder::Unknown => 0,
            };
            let known = self.threads.get(&tid);
            if let Some((known, reason)) = known.and_then(|it| Some((it, it.waits_with_gil()?))) {
                let sample = known.sample(time_ns, elapsed_ns, reason);
                self.batch.gil_held.push(Sample {
                    kind: ProfileKind::GIL_HELD,
                    ..sample
                });
            } else {
                let is_runnable = Shown::Elsewhere { is_runnable: true };
                self.batch.holding.push(RunningThread {
                    tgid,
                    tid,
                    elapsed_ns,
                    is_runnable: known.is_some_and(|known| known.shown == is_runnable),
                    holds_gil: Some(true),
                    is_new: known.is_some_and(|known| known.is_new(time_ns)),
                });
            }
        }
    }

    /// Adds the sample of a wait for the GIL, of which `waiting` is that of elapsed time.
    pub(super) fn add_gil_wait(&mut self, waiting: &Sample, wait: GilWait, holders: &GilHolders) {
        let tgid = waiting.tgid;
        let is_stopped = waiting.wait == WaitReason::STOP_THE_WORLD;
        let holder = if wait.pass == self.pass || is_stopped {
            // It held the GIL while the other one was proved to wait, or stops it for as long as that does not run.
            holders.thread(tgid, wait.holder)
        } else {
            holders.holder(tgid, wait.gil)
        };
        let kept = KeptWaiting {
            tid: waiting.tid,
            is_stopped,
        };
        let of_gil = |sample| Sample {
            kind: ProfileKind::GIL,
            ..sample
        };
        match holder {
            Holder::Thread(holding) if holding != waiting.tid => {
                let known = self.threads.get(&holding);
                if let Some((known, reason)) = known.and_then(|it| Some((it, it.waits_with_gil()?)))
                {
                    let sample = known.sample(waiting.time_ns, waiting.value, reason);
                    self.batch.gil_waits.push((of_gil(sample), kept));
                } else {
                    // It runs, or has got the GIL since its stack was read.
                    self.batch.blocked.push(BlockedThread {
                        tgid,
                        holder: holding,
                        is_new: known.is_some_and(|known| known.is_new(waiting.time_ns)),
                        waiting: kept,
                        elapsed_ns: waiting.value,
                    });
                }
            }
            // It is free, or the thread has got it since: it is being handed over.
            Holder::Nobody | Holder::Thread(_) => {
                let nobody = KeptWaiting::default();
                self.batch.gil_waits.push((of_gil(*waiting), nobody));
            }
            Holder::Unknown => {
                let unknown = Sample {
                    tid: 0,
                    stack: 0,
                    native_stack: 0,
                    python_status: PythonUnwindStatus::NOT_SAMPLED,
                    native_status: NativeUnwindStatus::NOT_WALKED,
                    wait: WaitReason::NONE,
                    ..of_gil(*waiting)
                };
                self.batch.gil_waits.push((unknown, kept));
            }
        }
    }
}
