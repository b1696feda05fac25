//! Reads the stacks of threads, and proves them.
//!
//! Invariant: a stack is used only if its thread was on no processor and made no context switch from before its
//! registers were read until after the last read of its memory.

use std::{collections::HashMap, sync::Arc, time::Instant};

use agent_common::{limits::MAX_NOTED_THREADS, record::WaitReason, visit::ThreadVisit};

use super::{PassError, Passer, changed::Changed, processes::MAX_OPEN, reading::Read};
use crate::{
    bpf::monotonic_ns,
    threads::{
        known_thread::{KnownThread, did_not_run},
        locks::{FoundLock, NamedLock},
        names,
        page_cache::PageCache,
        thread_states::{StateOwner, StatesKnown},
    },
};

/// The fewest and the most stacks that are read before they are proved, at the first attempt. A proof may visit every
/// thread of the host, before Linux 6.8, so the more stacks it is for the better; but the longer it takes to read them,
/// the more threads run meanwhile.
const MIN_CHUNK: usize = 32;
const MAX_CHUNK: usize = MAX_NOTED_THREADS as usize;

/// So many threads are visited in the time in which a stack is read again on its own, of a thread that ran meanwhile.
const VISITS_PER_AGAIN: usize = 200;

/// Most pages of a walk that are remembered. One that takes more has mostly described new code, which the next one need not.
const MAX_PAGES: usize = 32;

/// Times that the stack of a thread that runs for short times is read again.
const ATTEMPTS: usize = 6;

/// A thread that ran while its stack was read.
struct Again {
    tgid: u32,
    tid: u32,
    /// The pages of the last walk.
    pages: Vec<u64>,
    /// Why it waited when the pass saw it.
    reason: WaitReason,
    /// What was recorded of it since.
    details: Option<Changed>,
}

impl Passer {
    /// Reads the stacks of threads and proves them, as many as there is time for.
    pub(super) fn read_stacks(
        &mut self,
        changed: &[Changed],
        deadline: Instant,
    ) -> Result<(), PassError> {
        self.chunk = self.chunk.max(MIN_CHUNK);
        let visits = self.shared.visits();
        let least = changed.len() / visits.most_chunks();
        let of_proof = visits.visits_of_proof(self.chunk);
        drop(visits);
        let fair = of_proof.div_ceil(VISITS_PER_AGAIN);
        let mut again = Vec::new();
        let mut rest = changed;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(self.chunk.max(least).min(rest.len()));
            rest = after;
            if Instant::now() < deadline {
                let before = again.len();
                self.read_chunk(chunk, deadline, &mut again)?;
                self.chunk = next_chunk(self.chunk, chunk.len(), again.len() - before, fair);
            } else {
                for changed in chunk {
                    self.put_off(changed.visit.tid);
                }
            }
        }
        for again in again {
            if Instant::now() < deadline {
                self.read_again(again)?;
            } else {
                self.give_up(again.tid);
            }
        }
        Ok(())
    }

    /// Reads and proves some stacks, as many as there is time for; those of threads that ran meanwhile are to be read again.
    fn read_chunk(
        &mut self,
        chunk: &[Changed],
        deadline: Instant,
        again: &mut Vec<Again>,
    ) -> Result<(), PassError> {
        self.shared.visits().begin_chunk()?;
        for changed in chunk {
            if let Some(process) = self.processes.get(&changed.visit.tgid) {
                process.memory.clear();
            }
        }
        self.prefetch(chunk)?;
        let mut walked = HashMap::with_capacity(chunk.len());
        for changed in chunk {
            let visit = changed.visit;
            if Instant::now() >= deadline {
                self.put_off(visit.tid);
                continue;
            }
            if let Some(known) = self.threads.get_mut(&visit.tid) {
                known.reset();
            }
            if let Some(read) = self.read(changed)?
                && self.note(&visit)?
            {
                if let Some(known) = self.threads.get_mut(&visit.tid) {
                    known.reason = read.reason;
                    known.gil = read.gil;
                }
                walked.insert(visit.tid, (visit, read));
            } else {
                self.give_up(visit.tid);
            }
        }
        for (head, details) in self.visit_noted(chunk.len())? {
            let Some((before, read)) = walked.remove(&head.tid) else {
                continue;
            };
            if did_not_run(&before, &head) {
                self.set_stack(head.tid, &read);
            } else {
                again.push(Again {
                    tgid: head.tgid,
                    tid: head.tid,
                    pages: read.pages,
                    reason: read.reason,
                    details,
                });
            }
        }
        // They have ended.
        for tid in walked.into_keys() {
            self.give_up(tid);
        }
        Ok(())
    }

    /// Copies what the last walks of some threads have read.
    fn prefetch(&mut self, chunk: &[Changed]) -> Result<(), PassError> {
        let mut wanted: HashMap<u32, Vec<u64>> = HashMap::new();
        for Changed { visit, .. } in chunk {
            if let Some(known) = self.threads.get(&visit.tid)
                && !known.pages.is_empty()
                && (wanted.len() < MAX_OPEN || wanted.contains_key(&visit.tgid))
            {
                wanted.entry(visit.tgid).or_default().extend(&known.pages);
            }
        }
        for (tgid, pages) in wanted {
            let shared = Arc::clone(&self.shared);
            shared.read(self.turn, tgid, || {
                self.open_process(tgid)?;
                self.processes.get(&tgid)?.memory.prefetch(pages);
                Some(())
            })?;
        }
        Ok(())
    }

    /// Reads the stack of a thread again that runs for short times: as a copy of the pages of its last
    /// walk, which is walked when it is proved.
    ///
    /// A stack of another wait than the one that the pass has seen is not used: long waits would be seen
    /// more often than they are.
    fn read_again(&mut self, mut again: Again) -> Result<(), PassError> {
        let Again { tgid, tid, .. } = again;
        // It may have been closed to read others.
        let shared = Arc::clone(&self.shared);
        let opened = shared.read(self.turn, tgid, || self.open_process(tgid))?;
        if opened.is_none() {
            self.give_up(tid);
            return Ok(());
        }
        for _ in 0..ATTEMPTS {
            let changed = match again.details.take() {
                Some(changed) => changed,
                None => match self.select(tid)? {
                    Some(changed) => changed,
                    // It runs.
                    None => continue,
                },
            };
            let is_same = |known: &KnownThread| known.is(&changed.visit);
            if !self.threads.get(&tid).is_some_and(is_same) {
                // Another one has its id.
                break;
            }
            let shared = Arc::clone(&self.shared);
            let processes = &mut self.processes;
            let copied = shared.read(self.turn, tgid, || {
                let process = processes.get_mut(&tgid)?;
                // Not in the copy.
                process.memory.clear();
                let thread_id = process.thread_id(changed.visit.thread_pointer);
                process.update_states(StateOwner { tid, thread_id }, false);
                process.memory.take_snapshot(&again.pages);
                Some(())
            });
            if copied.map_err(PassError::from)?.is_none() {
                break;
            }
            self.shared.visits().begin_chunk()?;
            if !self.note(&changed.visit)? {
                break;
            }
            let seen = self.visit_noted(1)?.pop();
            let Some((head, details)) = seen.filter(|(head, _)| head.tid == tid) else {
                // It has ended.
                break;
            };
            if !did_not_run(&changed.visit, &head) {
                again.details = details;
                continue;
            }
            let Some(read) = self.read(&changed)? else {
                break;
            };
            if !read.is_complete {
                // The walk has led to other pages.
                again.pages.extend(read.pages);
                again.pages.sort_unstable();
                again.pages.dedup();
                continue;
            }
            let memory = self.processes.get(&tgid).map(|process| &process.memory);
            if read.reason != again.reason || !memory.is_some_and(PageCache::is_alive) {
                break;
            }
            self.set_stack(tid, &read);
            self.clear_memory(tgid);
            return Ok(());
        }
        self.clear_memory(tgid);
        self.give_up(tid);
        Ok(())
    }

    /// Visits a thread once more; [`None`] while it runs.
    fn select(&mut self, tid: u32) -> Result<Option<Changed>, PassError> {
        let mut visits = self.shared.visits();
        visits.begin_chunk()?;
        visits.select(tid)?;
        drop(visits);
        let seen = self.visit_noted(1)?.pop();
        Ok(seen.and_then(|(_, details)| details))
    }

    /// Notes that a stack was read; [`false`] where there is no room, and it cannot be proved.
    fn note(&mut self, visit: &ThreadVisit) -> Result<bool, PassError> {
        if let Some(known) = self.threads.get_mut(&visit.tid) {
            known.read_switches = visit.switches;
        }
        Ok(self.shared.visits().note(visit)?)
    }

    /// Visits those again that were noted in this chunk.
    fn visit_noted(&self, count: usize) -> Result<Vec<(ThreadVisit, Option<Changed>)>, PassError> {
        let mut seen = Vec::with_capacity(count);
        for visit in self.shared.visits().visit_noted()? {
            seen.push((visit.head, Changed::of(&visit)));
        }
        Ok(seen)
    }

    /// Takes over a stack that is proved, and sends its records.
    fn set_stack(&mut self, tid: u32, read: &Read) {
        let name = read.lock.and_then(|found| self.lock_name(tid, found));
        self.note_lock_wait(tid, read.lock_wait);
        self.note_held_locks(tid, read, name.as_deref());
        let process = self.threads.get(&tid).map_or(0, |known| known.visit.tgid);
        let lock = name.map(|name| NamedLock::new(self.walker.seed(), process, &name));
        if let Some(known) = self.threads.get_mut(&tid) {
            known.gil = read.gil;
            known.rest_ns = read.rest_ns;
            known.pages = if read.pages.len() > MAX_PAGES {
                Box::default()
            } else {
                read.pages.as_slice().into()
            };
            known.lock = lock.as_ref().map_or(0, |lock| lock.hash);
            let is_named = !read.lock.is_some_and(FoundLock::is_deferred);
            let now_ns = monotonic_ns();
            known.set_stack(read.stack, read.stack.is_whole && is_named, now_ns);
            if let StatesKnown::After(time) = read.states {
                known.read_again_after(time, now_ns);
            }
            if let Some(name) = &read.name {
                known.name_due_ns = names::due_ns(read.stack.python_status, monotonic_ns());
                self.batch.add_reference(name);
            }
        }
        if let Some(lock) = &lock
            && self.batch.is_new(lock.hash)
        {
            self.batch.add_reference(&lock.record);
        }
        read.records.send(&read.stack, &mut self.batch);
    }

    fn clear_memory(&self, tgid: u32) {
        if let Some(process) = self.processes.get(&tgid) {
            process.memory.clear();
        }
    }

    /// The stack of a thread could not be proved.
    pub(super) fn give_up(&mut self, tid: u32) {
        self.shared.status.add_unproved();
        self.shared.visits().forget(tid);
        if let Some(known) = self.threads.get_mut(&tid) {
            known.stack = None;
        }
    }
}

/// How many stacks are read before they are proved, after so many of which some were of threads that `ran` meanwhile.
///
/// `fair`: so many are read again in the time that a proof takes.
fn next_chunk(present: usize, read: usize, ran: usize, fair: usize) -> usize {
    if ran > 2 * fair {
        (present / 2).max(MIN_CHUNK)
    } else if ran < fair && read >= present {
        (present * 2).min(MAX_CHUNK)
    } else {
        present
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_time_is_spent_on_proofs_as_on_reading_again() {
        let next = |present, read, ran| next_chunk(present, read, ran, 3);
        assert_eq!(next(MIN_CHUNK, MIN_CHUNK, 2), 2 * MIN_CHUNK);
        assert_eq!(next(MAX_CHUNK, MAX_CHUNK, 0), MAX_CHUNK);
        for ran in [3, 6] {
            assert_eq!(next(64, 64, ran), 64);
        }
        assert_eq!(next(64, 64, 7), MIN_CHUNK);
        assert_eq!(next(MIN_CHUNK, MIN_CHUNK, 7), MIN_CHUNK);
        // There were not so many, which says nothing.
        assert_eq!(next(64, 63, 0), 64);
        // A proof that visits nothing else.
        assert_eq!(next_chunk(MIN_CHUNK, MIN_CHUNK, 0, 0), MIN_CHUNK);
    }
}
