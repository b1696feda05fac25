//! Visits of threads through `/proc`, as the BPF programs make them.
//!
//! Invariants: of a thread that may run there are no details; the number of open files and of visited threads is bounded.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::{
    limits::MAX_KNOWN_THREADS,
    visit::{ThreadDetails, ThreadVisit},
};

use super::{
    OutsideProcesses,
    thread_ids::{ThreadId, ThreadIds},
};
use crate::{
    bpf::Visit,
    process::{Runs, TaskFiles, TaskLook, last_run_ns, own_thread_id, scheduler_now_ns, task_ids},
};

/// Most threads that are visited.
const MAX_THREADS: usize = MAX_KNOWN_THREADS as usize;

/// Most threads whose files stay open from one visit to the next one, three of each: opening costs more than reading.
const MAX_OPEN: usize = 128;

/// Time of a visit of all threads after which it is not read any more for how long they have not run.
const REST_LIMIT: Duration = Duration::from_millis(50);

/// What was recorded of a thread.
type Visited = (ThreadVisit, Option<ThreadDetails>);

/// Visits threads.
#[derive(Debug)]
pub(in crate::threads) struct OutsideVisits {
    processes: Arc<OutsideProcesses>,
    ids: HashMap<u32, ThreadIds>,
    /// Threads whose stacks were read.
    known: HashMap<u32, Known>,
    /// Those that were noted in the present chunk.
    noted: Vec<u32>,
    /// The threads of the last visit of all.
    seen: HashMap<u32, Seen>,
    open: HashMap<u32, TaskFiles>,
    visited: Vec<Visited>,
}

/// A thread whose stack was read, or is to be.
#[derive(Clone, Copy, Debug)]
struct Known {
    start_ticks: u64,
    runs: Runs,
}

/// A thread, as it was last seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    tgid: u32,
    own_id: u32,
    visit: ThreadVisit,
    runs: Runs,
}

impl OutsideVisits {
    pub(in crate::threads) fn new(processes: Arc<OutsideProcesses>) -> Self {
        Self {
            processes,
            ids: HashMap::new(),
            known: HashMap::new(),
            noted: Vec::new(),
            seen: HashMap::new(),
            open: HashMap::new(),
            visited: Vec::new(),
        }
    }

    /// Visits every thread.
    pub(in crate::threads) fn visit_all(&mut self) -> impl Iterator<Item = Visit<'_>> {
        let begin = Instant::now();
        let now_ns = scheduler_now_ns();
        self.visited.clear();
        self.seen.clear();
        let processes = Arc::clone(&self.processes);
        for (&tgid, process) in &processes.known {
            if !process.opened.is_same_program() {
                continue;
            }
            let is_nested = process.opened.namespace_pids().len() > 1;
            let looks = self.looks(tgid, is_nested);
            let ids = self.ids.entry(tgid).or_default();
            if let (Some(target), Ok(memory)) = (&process.target, process.opened.memory()) {
                let threads: HashSet<u32> = looks.iter().map(|(_, own_id, _)| *own_id).collect();
                ids.update(memory, target, &threads);
            }
            for (tid, own_id, look) in looks {
                let mut visited = self.visited(tgid, tid, own_id, &look);
                if let (_, Some(details)) = &mut visited
                    && begin.elapsed() < REST_LIMIT
                {
                    let last_ns = last_run_ns(tgid, tid);
                    let rest = now_ns
                        .zip(last_ns)
                        .map(|(now, last)| now.saturating_sub(last));
                    details.rest_ns = rest.unwrap_or(0);
                }
                self.visited.push(visited);
            }
        }
        // Those of threads that have ended.
        self.open.retain(|tid, _| self.seen.contains_key(tid));
        visits(&self.visited)
    }

    /// Looks at the threads of a process: their ids, and those in the process's own PID namespace.
    fn looks(&mut self, pid: u32, is_nested: bool) -> Vec<(u32, u32, TaskLook)> {
        let most = MAX_THREADS - self.seen.len();
        let looks = task_ids(pid).take(most).filter_map(|tid| {
            let known = self.known.get(&tid).copied();
            let (look, has_rested) = self.look(pid, tid, known)?;
            let own_id = if is_nested {
                own_thread_id(pid, tid)?
            } else {
                tid
            };
            // Whether it has, or still does, is seen at the next look.
            let may_run = !has_rested && known.is_some_and(|known| known.runs == look.runs);
            let look = TaskLook {
                registers: look.registers.filter(|_| !may_run),
                ..look
            };
            // One that has ended stays until it is waited for.
            (!matches!(look.state, b'Z' | b'X')).then_some((tid, own_id, look))
        });
        looks.collect()
    }

    /// Looks at a thread, and whether it has not run since its stack was read.
    fn look(&mut self, pid: u32, tid: u32, known: Option<Known>) -> Option<(TaskLook, bool)> {
        let open = self.open.remove(&tid);
        let look = |files: TaskFiles| {
            let has_rested = known.is_some_and(|known| files.has_rested(&known.runs));
            let look = files.look()?;
            let is_same = known.is_some_and(|known| known.start_ticks == look.start_ticks);
            Some((look, has_rested && is_same, files))
        };
        // Another one may have its id by now.
        let (look, has_rested, files) = open
            .and_then(look)
            .or_else(|| look(TaskFiles::open(pid, tid)?))?;
        if self.open.len() < MAX_OPEN {
            self.open.insert(tid, files);
        }
        Some((look, has_rested))
    }

    /// Begins with some of the threads of a pass.
    pub(in crate::threads) fn begin_chunk(&mut self) {
        self.noted.clear();
    }

    /// Visits the threads again that were noted in this chunk.
    pub(in crate::threads) fn visit_noted(&mut self) -> impl Iterator<Item = Visit<'_>> {
        self.visited.clear();
        for tid in self.noted.clone() {
            // One without has ended.
            if let Some(visited) = self.visit_again(tid) {
                self.visited.push(visited);
            }
        }
        visits(&self.visited)
    }

    fn visit_again(&mut self, tid: u32) -> Option<Visited> {
        let seen = *self.seen.get(&tid)?;
        let known = self.known.get(&tid).copied();
        let (look, has_rested) = self.look(seen.tgid, tid, known)?;
        if has_rested {
            // As it was noted: whether it runs by now does not matter.
            return Some((seen.visit, None));
        }
        let (visit, details) = self.visited(seen.tgid, tid, seen.own_id, &look);
        if known.is_some() && visit.switches == seen.visit.switches {
            // It ran all the same.
            return Some((ThreadVisit { on_cpu: 1, ..visit }, None));
        }
        Some((visit, details))
    }

    /// What a look at a thread has shown; without details of one whose stack was read since it last ran.
    fn visited(&mut self, pid: u32, tid: u32, own_id: u32, look: &TaskLook) -> Visited {
        let thread_id = match self.processes.known.get(&pid) {
            Some(process) if process.target.is_none() => ThreadId::None,
            _ => {
                let ids = self.ids.get(&pid);
                ids.map_or(ThreadId::Unknown, |ids| ids.get(own_id))
            }
        };
        let visit = ThreadVisit {
            bytes: 0,
            tgid: pid,
            tid,
            state: state_bits(look.state),
            on_cpu: look.registers.is_none().into(),
            processor: 0,
            preempted: 0,
            start_time_ns: look.start_ticks,
            switches: look.runs.count,
            run_ns: 0,
            run_delay_ns: 0,
            thread_pointer: match thread_id {
                ThreadId::Found(thread_id) => thread_id,
                ThreadId::None | ThreadId::Unknown => 0,
            },
            short_ns: 0,
            left_ns: 0,
            is_traced: 0,
            is_unchanged: 0,
            padding: 0,
        };
        let seen = Seen {
            tgid: pid,
            own_id,
            visit,
            runs: look.runs,
        };
        self.seen.insert(tid, seen);
        let is_known = self
            .known
            .get(&tid)
            .is_some_and(|known| known.start_ticks == look.start_ticks && known.runs == look.runs);
        let is_wanted = !is_known && thread_id != ThreadId::Unknown;
        let details = look.registers.filter(|_| is_wanted);
        let details = details.map(|registers| ThreadDetails {
            registers,
            rest_ns: 0,
            comm: look.comm,
        });
        (visit, details)
    }

    /// Notes that the stack of a thread was read in this chunk; until it runs, or is [forgotten](Self::forget), no details
    /// of it are recorded. [`false`] where that is not what it was last seen to do, so that it cannot be proved.
    pub(in crate::threads) fn note(&mut self, visit: &ThreadVisit) -> bool {
        let seen = self.seen.get(&visit.tid);
        let Some(seen) = seen.filter(|seen| seen.visit == *visit) else {
            return false;
        };
        let known = Known {
            start_ticks: seen.visit.start_time_ns,
            runs: seen.runs,
        };
        self.noted.push(visit.tid);
        self.known.insert(visit.tid, known);
        true
    }

    /// Has the details of a thread recorded by the next [`Self::visit_noted`] of this chunk.
    pub(in crate::threads) fn select(&mut self, tid: u32) -> bool {
        self.known.remove(&tid);
        self.noted.push(tid);
        self.seen.contains_key(&tid)
    }

    /// Has the details of a thread recorded again at its next visit.
    pub(in crate::threads) fn forget(&mut self, tid: u32) {
        self.known.remove(&tid);
    }

    /// The same of all threads.
    pub(in crate::threads) fn forget_all(&mut self) {
        self.known.clear();
    }
}

/// `__state` of the kernel.
fn state_bits(letter: u8) -> u32 {
    match letter {
        b'R' => 0,
        b'D' => 2,
        b'T' => 4,
        b't' => 8,
        _ => 1,
    }
}

fn visits(visited: &[Visited]) -> impl Iterator<Item = Visit<'_>> {
    visited.iter().map(|(head, details)| Visit {
        head: *head,
        details: details.map(|details| (details, &[][..])),
    })
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;
    use crate::process::Process;

    fn visits() -> OutsideVisits {
        let mut processes = OutsideProcesses::default();
        processes.add(Process::open(std::process::id()).unwrap(), None);
        OutsideVisits::new(Arc::new(processes))
    }

    /// What a visit records of a thread, and whether with details.
    fn visit(visits: &mut OutsideVisits, tid: u32) -> Option<(ThreadVisit, bool)> {
        let mut all = visits.visit_all();
        let found = all.find(|visit| visit.head.tid == tid)?;
        Some((found.head, found.details.is_some()))
    }

    #[test]
    fn a_thread_that_waits_has_details_until_its_stack_was_read() {
        let (send, ids) = mpsc::channel();
        let (end, waiting) = mpsc::channel::<()>();
        let waiter = thread::spawn(move || {
            let id = rustix::thread::gettid().as_raw_nonzero().get();
            send.send(id.cast_unsigned()).unwrap();
            waiting.recv()
        });
        let tid = ids.recv().unwrap();
        let mut visits = visits();
        let seen = (0..1000).find_map(|_| {
            thread::sleep(Duration::from_millis(1));
            visit(&mut visits, tid).filter(|(_, has_details)| *has_details)
        });
        let (head, _) = seen.unwrap();
        assert_eq!((head.on_cpu, head.tgid), (0, std::process::id()));
        visits.begin_chunk();
        assert!(visits.note(&head));
        let again: Vec<_> = visits.visit_noted().collect();
        let [again] = &*again else {
            panic!("{again:?}");
        };
        assert_eq!((again.head, again.details.is_none()), (head, true));
        assert_eq!(visit(&mut visits, tid), Some((head, false)));
        visits.begin_chunk();
        assert!(visits.select(tid));
        let has_details = visits.visit_noted().all(|visit| visit.details.is_some());
        assert!(has_details);
        visits.forget(tid);
        assert_eq!(visit(&mut visits, tid), Some((head, true)));
        end.send(()).unwrap();
        waiter.join().unwrap().unwrap();
        assert!((0..1000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            visit(&mut visits, tid).is_none()
        }));
        // One that is not there cannot be proved.
        assert!(!visits.note(&head));
    }

    #[test]
    fn states_are_those_of_the_kernel() {
        let states = [b'R', b'S', b'D', b'T', b't', b'I'].map(state_bits);
        assert_eq!(states, [0, 1, 2, 4, 8, 1]);
    }
}
