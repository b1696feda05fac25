//! What a pass says of a thread: its samples.

use agent_common::{
    record::{ProfileKind, Sample, WaitReason},
    visit::ThreadVisit,
};

use super::Passer;
use crate::threads::{
    batch::{LockWaitSample, Rest, RunningThread, TracedTime},
    gil::GilHolders,
    known_thread::{KnownThread, Shown, Wait},
};

impl Passer {
    /// Adds the sample of a thread.
    pub(super) fn add_sample(
        &mut self,
        head: &ThreadVisit,
        holders: &GilHolders,
        time_ns: u64,
        elapsed_ns: u64,
    ) {
        let Some(known) = self.threads.get_mut(&head.tid) else {
            // One of more than are remembered.
            let unknown = KnownThread::new(*head);
            let sample = unknown.sample(time_ns, elapsed_ns, WaitReason::OTHER);
            self.batch.samples.push(sample);
            return;
        };
        if known.owes(elapsed_ns) {
            return;
        }
        let wait = known.shown_wait();
        let owed_ns = wait.map_or(0, |_| known.take_owed());
        let elapsed_ns = elapsed_ns.saturating_add(owed_ns);
        if let Some(times) = &self.records.gil_times {
            let holds = holders.holds(head.tgid, head.tid) == Some(true);
            let waits = !holds && wait.is_some_and(Wait::is_to_run);
            times.add(head.tgid, head.tid, elapsed_ns, holds, waits);
        }
        if let Shown::Traced { is_runnable } = known.shown {
            self.batch.traced_times.push(TracedTime {
                tgid: head.tgid,
                tid: head.tid,
                elapsed_ns,
                is_runnable,
            });
        } else if let Shown::Elsewhere { is_runnable } = known.shown {
            self.batch.running.push(RunningThread {
                tgid: head.tgid,
                tid: head.tid,
                elapsed_ns,
                is_runnable,
                holds_gil: holders.holds(head.tgid, head.tid),
                is_new: known.is_new(time_ns),
            });
        } else if let Some(wait) = wait {
            let sample = known.sample_of(&wait, time_ns, elapsed_ns);
            self.batch.samples.push(sample);
            if self.records.snapshot.is_some() {
                let process = self.processes.get(&head.tgid);
                self.batch.rests.push(Rest {
                    tid: sample.tid,
                    duration_ns: known.rest_ns,
                    thread_id: process.map_or(0, |it| it.thread_id(head.thread_pointer)),
                });
            }
            if self.locks.is_some() && wait.reason == WaitReason::LOCK {
                let of_lock = Sample {
                    kind: ProfileKind::LOCK,
                    ..sample
                };
                self.batch.lock_waits.push(LockWaitSample {
                    sample: of_lock,
                    lock: wait.lock,
                    switches: wait.switches,
                    start_time_ns: head.start_time_ns,
                });
            }
            if let Some(gil) = wait.gil.filter(|_| wait.is_to_run()) {
                self.add_gil_wait(&sample, gil, holders);
            }
            self.begin_rest(head, time_ns);
        }
    }
}
