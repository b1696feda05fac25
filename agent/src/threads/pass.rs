//! One pass: every thread of the profiled processes at one instant.
//!
//! ```text
//! visit all ─► changed ones: registers ─► reason, walk ─► visit those again: proved? ─► samples
//!         └──► others: they have the stack that they had
//! ```
//!
//! Invariants: a stack is used only if it is *proved*: its thread was on no processor and made no context
//! switch from before the registers were read until after the last read of its memory; each thread
//! gets all of the elapsed time, whether its stack is proved or not.

use std::{collections::HashMap, io, sync::Arc};

use agent_common::{
    record::{WaitReason, WantedTable},
    visit::{ThreadDetails, ThreadVisit},
};

use super::{
    batch::{Batch, RunningThread},
    known_thread::{Activity, KnownThread},
    names,
    process::VisitedProcess,
    shared::{GivenUp, Shared},
    walker::{Source, Walked, Walker},
};
use crate::{
    bpf::{Visit, monotonic_ns},
    workers::Subject,
};

/// Stacks that are read before they are proved, at the first attempt. Most threads wait for long; one that
/// ran meanwhile is read again on its own.
const CHUNK: usize = 32;

/// Times that a stack is read before it is given up.
const ATTEMPTS: usize = 5;

/// Most threads that are remembered.
const MAX_THREADS: usize = 64 << 10;

/// Why a pass has not ended.
#[derive(Debug)]
pub(super) enum PassError {
    /// The iterator or a map has failed.
    Failed(io::Error),
    /// A process has held the thread up for so long that another one makes the passes.
    GivenUp,
}

impl From<io::Error> for PassError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Makes passes, one after another.
pub(super) struct Passer {
    shared: Arc<Shared>,
    /// The turn of the thread that makes them.
    turn: u32,
    walker: Walker,
    processes: HashMap<u32, VisitedProcess>,
    threads: HashMap<u32, KnownThread>,
    pub(super) batch: Batch,
    resend_before_ns: u64,
    /// The number of the pass.
    pass: u64,
}

/// A thread whose stack is to be read.
struct Changed {
    visit: ThreadVisit,
    details: ThreadDetails,
    /// Addresses of kernel frames, as bytes.
    kernel: Vec<u8>,
}

impl Changed {
    fn of(visit: &Visit<'_>) -> Option<Self> {
        let (details, kernel) = visit.details?;
        Some(Self {
            visit: visit.head,
            details,
            kernel: kernel.to_vec(),
        })
    }
}

impl Passer {
    pub(super) fn new(shared: Arc<Shared>, walker: Walker, turn: u32) -> Self {
        Self {
            shared,
            turn,
            walker,
            processes: HashMap::new(),
            threads: HashMap::new(),
            batch: Batch::default(),
            resend_before_ns: 0,
            pass: 0,
        }
    }

    /// Makes a pass: each thread gets a sample of `elapsed_ns` nanoseconds.
    ///
    /// # Errors
    ///
    /// When the iterator or a map fails, or the thread was given up.
    pub(super) fn pass(&mut self, elapsed_ns: u64) -> Result<(), PassError> {
        self.pass += 1;
        self.resend_if_due();
        let mut heads = Vec::with_capacity(self.threads.len());
        let mut changed = Vec::new();
        let time_ns = monotonic_ns();
        for visit in self.shared.visits().visit_all()? {
            heads.push(visit.head);
            changed.extend(Changed::of(&visit));
        }
        for head in &heads {
            self.meet(head);
        }
        self.shared.status.add_visits(heads.len());
        self.read_stacks(changed)?;
        for head in &heads {
            self.add_sample(head, time_ns, elapsed_ns);
        }
        self.forget_gone();
        Ok(())
    }

    /// Has all sent again that the receivers may have forgotten.
    fn resend_if_due(&mut self) {
        let before = self.shared.maps.resend_before_ns();
        if before == self.resend_before_ns {
            return;
        }
        self.resend_before_ns = before;
        self.batch.resend();
        for process in self.processes.values_mut() {
            process.symbols.clear();
        }
        self.threads.clear();
        self.shared.visits().forget_all();
    }

    /// Notes that a thread is there.
    fn meet(&mut self, head: &ThreadVisit) {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&head.tid) {
            return;
        }
        let known = self
            .threads
            .entry(head.tid)
            .or_insert_with(|| KnownThread::new(*head));
        if !known.is(head) {
            *known = KnownThread::new(*head);
        }
        known.pass = self.pass;
    }

    /// Reads the stacks of threads and proves them.
    fn read_stacks(&mut self, changed: Vec<Changed>) -> Result<(), PassError> {
        let mut waiting = changed;
        for attempt in 1..=ATTEMPTS {
            let mut again = Vec::new();
            let size = if attempt == 1 { CHUNK } else { 1 };
            for chunk in waiting.chunks(size) {
                self.read_chunk(chunk, &mut again)?;
            }
            waiting = again;
            if waiting.is_empty() {
                break;
            }
            if attempt == ATTEMPTS {
                for changed in &waiting {
                    self.give_up(changed.visit.tid);
                }
            }
        }
        Ok(())
    }

    /// Reads and proves some stacks; those of threads that ran meanwhile and wait again are to be read
    /// again.
    fn read_chunk(&mut self, chunk: &[Changed], again: &mut Vec<Changed>) -> Result<(), PassError> {
        self.shared.visits().begin_chunk()?;
        for changed in chunk {
            if let Some(process) = self.processes.get(&changed.visit.tgid) {
                process.memory.clear();
            }
        }
        let mut walked = HashMap::with_capacity(chunk.len());
        for changed in chunk {
            let shared = Arc::clone(&self.shared);
            let stack = shared.read(self.turn, changed.visit.tgid, || self.read(changed));
            if let Some(stack) = stack.map_err(|GivenUp| PassError::GivenUp)? {
                walked.insert(changed.visit.tid, (changed.visit, stack));
            }
            let noted = self.shared.visits().note(&changed.visit);
            // Without room for it, it is read in each pass.
            let _ = noted.map_err(io::Error::other)?;
        }
        let mut seen = Vec::with_capacity(chunk.len());
        for visit in self.shared.visits().visit_noted()? {
            seen.push((visit.head, Changed::of(&visit)));
        }
        for (head, details) in seen {
            let Some((before, (stack, reason))) = walked.remove(&head.tid) else {
                continue;
            };
            let is_proved = head.on_cpu == 0
                && head.switches == before.switches
                && head.start_time_ns == before.start_time_ns;
            if is_proved {
                if let Some(known) = self.threads.get_mut(&head.tid) {
                    known.stack = Some(stack);
                    known.reason = reason;
                }
            } else if let Some(details) = details {
                again.push(details);
            } else {
                self.give_up(head.tid);
            }
        }
        // They have ended, or their processes are not known yet.
        for tid in walked.into_keys() {
            self.give_up(tid);
        }
        Ok(())
    }

    /// The stack of a thread could not be proved.
    fn give_up(&mut self, tid: u32) {
        self.shared.status.add_unproved();
        self.shared.visits().forget(tid);
        if let Some(known) = self.threads.get_mut(&tid) {
            known.stack = None;
        }
    }

    /// Reads the stack of a thread, its name, and why it waits.
    fn read(&mut self, changed: &Changed) -> Option<(Walked, WaitReason)> {
        let Self {
            shared,
            walker,
            processes,
            threads,
            batch,
            ..
        } = self;
        let (maps, gils) = (&shared.maps, &shared.gils);
        let Changed {
            visit,
            details,
            kernel,
        } = changed;
        let known = threads.get_mut(&visit.tid)?;
        known.stack = None;
        known.reason = WaitReason::OTHER;
        let process = match processes.entry(visit.tgid) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                if shared.workers.is_quarantined(&Subject::stacks(visit.tgid)) {
                    return None;
                }
                entry.insert(VisitedProcess::open(visit.tgid, maps, gils)?)
            }
        };
        if process.pass != self.pass {
            process.pass = self.pass;
            let is_left_out = shared.workers.is_quarantined(&Subject::stacks(visit.tgid));
            if is_left_out || !process.update(visit.tgid, maps, gils) {
                processes.remove(&visit.tgid);
                return None;
            }
        }
        let reason = process.reason(visit, &details.registers);
        known.reason = reason;
        let thread_id = process.thread_id(details.thread_pointer);
        let mut wanted = Vec::new();
        let mut walked = None;
        for is_stale in [false, true] {
            let states = process.states(thread_id, is_stale).to_vec();
            let source = Source {
                maps,
                memory: &process.memory,
                interpreter: process.interpreter.as_ref(),
                states: &states,
                thread_id,
                registers: &details.registers,
                kernel,
                tgid: visit.tgid,
            };
            let stack = walker.walk(
                &source,
                &mut process.code,
                &mut process.symbols,
                &mut wanted,
                batch,
            );
            let is_lost =
                stack.python_status == agent_common::record::PythonUnwindStatus::THREAD_FAULT;
            walked = Some(stack);
            if !is_lost || states.is_empty() {
                break;
            }
        }
        let walked = walked?;
        for executable in wanted {
            batch.want_table(WantedTable::of(executable, visit.tgid));
        }
        let now_ns = monotonic_ns();
        if names::are_due(known.named_ns, now_ns) {
            known.named_ns = now_ns;
            names::send(visit, details, &walked, process, walker.scratch(), batch);
        }
        Some((walked, reason))
    }

    /// Adds the sample of a thread.
    fn add_sample(&mut self, head: &ThreadVisit, time_ns: u64, elapsed_ns: u64) {
        let Some(known) = self.threads.get_mut(&head.tid) else {
            // One of more than are remembered.
            let unknown = KnownThread::new(*head);
            let sample = unknown.sample(time_ns, elapsed_ns, WaitReason::OTHER);
            self.batch.samples.push(sample);
            return;
        };
        let is_in_call = known.reason != WaitReason::NONE && known.reason != WaitReason::RUNNABLE;
        match known.update(head, elapsed_ns, is_in_call) {
            Activity::Running => self.batch.running.push(RunningThread {
                tgid: head.tgid,
                tid: head.tid,
                elapsed_ns,
            }),
            Activity::Runnable => {
                let sample = known.sample(time_ns, elapsed_ns, WaitReason::RUNNABLE);
                self.batch.samples.push(sample);
            }
            Activity::Waiting => {
                let sample = known.sample(time_ns, elapsed_ns, known.reason);
                self.batch.samples.push(sample);
            }
        }
    }

    /// Forgets threads and processes that this pass did not visit.
    fn forget_gone(&mut self) {
        let pass = self.pass;
        let gone: Vec<u32> = self
            .threads
            .iter()
            .filter(|(_, known)| known.pass != pass)
            .map(|(tid, _)| *tid)
            .collect();
        for tid in gone {
            self.threads.remove(&tid);
            self.shared.visits().forget(tid);
        }
        if pass.is_multiple_of(PASSES_TO_FORGET) {
            let used: std::collections::HashSet<u32> = self
                .threads
                .values()
                .map(|known| known.visit.tgid)
                .collect();
            self.processes.retain(|tgid, _| used.contains(tgid));
        }
    }
}

/// Passes after which processes are looked through for those that have ended.
const PASSES_TO_FORGET: u64 = 64;
