//! Samples of the tasks of asyncio.
//!
//! Invariants: the tasks of a process have all of their elapsed time, whichever of them are read and in whichever passes: each
//! of those stands for as many as are left out, and time of a pass that does not read them is in the next one that does. A
//! process takes a bounded part of a pass.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::{
    memory::UserMemory as _,
    record::{ProfileKind, Sample, WaitReason},
};
use tracing::warn;

use super::{PassError, Passer};
use crate::{
    python::remote::tasks::TaskActivity,
    threads::walker::{StackRecords, Walked},
};

/// Most tasks of a process that are read in a pass.
const MAX_TASKS: usize = 256;

/// Most processes whose tasks are read in a pass.
const MAX_PROCESSES: usize = 32;

/// Most time to read the tasks of a process in a pass.
const LIMIT: Duration = Duration::from_millis(60);

/// Passes in a row without some tasks after which that is said: in one they may have been many for a moment.
const CUT_BEFORE_WARNING: u32 = 3;

/// Threads by their processes and thread pointers.
type ThreadPointers = HashMap<(u32, u64), u32>;

/// A task that was read.
struct Read {
    walked: Walked,
    records: StackRecords,
    wait: WaitReason,
    /// The thread pointer of its thread; [`None`] where that is not known.
    thread: Option<u64>,
}

impl Passer {
    /// Adds samples of the tasks of the processes with threads that are known.
    ///
    /// Each is one sample, whatever its value is.
    pub(super) fn sample_tasks(&mut self, time_ns: u64, elapsed_ns: u64) -> Result<(), PassError> {
        let mut processes = self.shared.locations.with_tasks();
        let threads = self.threads_of(&processes);
        let present: HashSet<u32> = threads.keys().map(|(tgid, _)| *tgid).collect();
        processes.retain(|tgid| present.contains(tgid));
        self.owed_to_tasks.add(&processes, elapsed_ns);
        let end = Instant::now() + self.time_limit(elapsed_ns);
        let owed = self.owed_to_tasks.ordered();
        for (tgid, owed_ns) in owed.into_iter().take(MAX_PROCESSES) {
            let now = Instant::now();
            if now >= end {
                break;
            }
            let shared = Arc::clone(&self.shared);
            let read = shared.read(self.turn, tgid, || self.read_tasks(tgid, now + LIMIT))?;
            let Some((tasks, weight)) = read else {
                self.owed_to_tasks.put_last(tgid);
                continue;
            };
            self.owed_to_tasks.pay(tgid);
            let value = scaled(owed_ns, weight);
            for task in tasks {
                task.records.send(&task.walked, &mut self.batch);
                let thread = task
                    .thread
                    .and_then(|pointer| threads.get(&(tgid, pointer)));
                let tid = thread.copied().unwrap_or(tgid);
                self.batch.tasks.push(Sample {
                    time_ns,
                    value,
                    kind: ProfileKind::TASKS,
                    ..task.walked.sample(tgid, tid, task.wait)
                });
            }
        }
        Ok(())
    }

    /// The threads of these processes that this pass has visited.
    fn threads_of(&self, processes: &[u32]) -> ThreadPointers {
        let processes: HashSet<_> = processes.iter().collect();
        let (pass, resting) = (self.pass, &self.resting);
        let threads = self.threads.iter().filter(|(tid, known)| {
            let is_present = known.pass == pass || resting.was_visited(**tid, pass);
            is_present && processes.contains(&known.visit.tgid)
        });
        let threads =
            threads.map(|(tid, known)| ((known.visit.tgid, known.visit.thread_pointer), *tid));
        threads.collect()
    }

    /// Reads tasks of a process, and for how many each stands; [`None`] where that has none.
    fn read_tasks(&mut self, tgid: u32, deadline: Instant) -> Option<(Vec<Read>, f64)> {
        self.open_process(tgid)?;
        let process = self.processes.get_mut(&tgid)?;
        let sampled = process.tasks(MAX_TASKS, deadline)?;
        let interpreter = process.interpreter?;
        if sampled.is_cut {
            self.shared.status.add_cut_tasks();
            process.cut_tasks = process.cut_tasks.saturating_add(1);
            if process.cut_tasks == CUT_BEFORE_WARNING {
                warn!(
                    pid = tgid,
                    "the process has more tasks of asyncio than can be found in time: their profile lacks some"
                );
            }
        } else {
            process.cut_tasks = 0;
        }
        let mut read = Vec::with_capacity(sampled.stacks.len());
        for mut stack in sampled.stacks {
            if Instant::now() >= deadline + LIMIT {
                stack.frames = None;
            }
            let (walked, records) = self.walker.walk_task(
                &process.memory,
                &interpreter,
                &stack,
                &mut process.symbols,
                &mut self.batch,
            );
            let thread_id = stack.thread.field(interpreter.layout.thread.thread_id);
            let thread_id = process.memory.word(thread_id).ok();
            read.push(Read {
                walked,
                records,
                wait: match stack.activity {
                    TaskActivity::Runs => WaitReason::NONE,
                    TaskActivity::IsReady => WaitReason::EVENT_LOOP,
                    TaskActivity::Awaits => WaitReason::AWAIT,
                },
                thread: thread_id.map(|thread_id| process.thread_pointer(thread_id)),
            });
        }
        Some((read, sampled.weight))
    }
}

/// The elapsed time of so many tasks.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the time of a pass in nanoseconds is below 2^53, and the weight is positive"
)]
fn scaled(elapsed_ns: u64, weight: f64) -> u64 {
    (elapsed_ns as f64 * weight).round() as u64
}
