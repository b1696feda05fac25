//! Passes over the threads: the BPF programs that visit them, and the maps that they read.
//!
//! Where programs can loop over tasks by themselves they do (Linux 6.8 and later): that takes about half of
//! the time. Elsewhere the kernel's iterator runs a program for each task.

mod iterators;
mod known_threads;
mod loops;
mod task_iterator;
mod visited;

use std::io;

use agent_common::visit::ThreadVisit;
use aya::Ebpf;
use tracing::info;

pub use self::visited::{Visit, Visited};
use self::{
    iterators::Iterators, known_threads::KnownThreads, loops::Loops, task_iterator::TaskIterator,
    visited::visits,
};
pub(super) use self::{
    known_threads::KNOWN_THREADS,
    loops::{NOTED_THREADS, VISITED_PROCESSES},
};
use super::{btf::KernelBtf, error::Error, kernel_functions};

/// Visits threads.
pub struct ThreadVisits {
    programs: Programs,
    known: KnownThreads,
    buffer: Vec<u8>,
    knows_preempted: bool,
}

/// How the threads are found.
enum Programs {
    Loops(Box<Loops>),
    Iterators(Iterators),
}

impl ThreadVisits {
    /// The function of the kernel to which the programs are attached.
    pub(super) const FUNCTION: &str = TaskIterator::FUNCTION;

    /// Loads the programs; `process` is the only one whose threads are visited.
    pub(super) fn load(
        object: &mut Ebpf,
        process: Option<u32>,
        btf: &KernelBtf,
    ) -> Result<Self, Error> {
        Ok(Self {
            programs: Programs::load(object, process, btf)?,
            known: KnownThreads::take(object)?,
            buffer: Vec::new(),
            knows_preempted: btf.layout.last_queued != 0 && btf.layout.last_arrival != 0,
        })
    }

    /// Tries whether the kernel lets threads be visited; nothing can be loaded afterwards.
    pub(super) fn check(object: &mut Ebpf) -> Result<(), Error> {
        let btf = KernelBtf::read(&[Self::FUNCTION])?;
        let mut visits = Self::load(object, None, &btf)?;
        let visited = visits.visit_all().map(Iterator::count);
        visited.map(drop).map_err(|source| Error::System {
            call: "visit the threads",
            source,
        })
    }

    /// Whether a visit says of a thread that the calling one has taken its processor.
    pub fn knows_preempted(&self) -> bool {
        self.knows_preempted
    }

    /// Whether only those threads are visited [again](Self::visit_noted) that were noted, whatever their number.
    pub fn finds_noted(&self) -> bool {
        matches!(self.programs, Programs::Loops(_))
    }

    /// As how many visits, one after another, it takes to visit so many threads [again](Self::visit_noted).
    pub fn visits_of_proof(&self, threads: usize) -> usize {
        match &self.programs {
            Programs::Loops(_) => threads,
            Programs::Iterators(iterators) => iterators.visits_of_proof(threads),
        }
    }

    /// Visits every thread.
    ///
    /// # Errors
    ///
    /// When a program fails.
    pub fn visit_all(&mut self) -> io::Result<impl Iterator<Item = Visited<'_>>> {
        self.buffer.clear();
        match &mut self.programs {
            Programs::Loops(loops) => loops.visit_all(&mut self.buffer)?,
            Programs::Iterators(iterators) => iterators.visit_all(&mut self.buffer)?,
        }
        Ok(visits(&self.buffer))
    }

    /// The same where there are [loops](Self::finds_noted), with so many visits in a run of the program; `after_run`
    /// gets the thread that each run has visited last, 0 where others of its process do not follow.
    ///
    /// # Errors
    ///
    /// As [`Self::visit_all`].
    #[cfg(feature = "testing")]
    pub fn visit_all_in_runs(
        &mut self,
        visits_of_run: u32,
        after_run: impl FnMut(u32),
    ) -> io::Result<impl Iterator<Item = Visited<'_>>> {
        self.buffer.clear();
        match &mut self.programs {
            Programs::Loops(loops) => {
                loops.visit_all_in_runs(&mut self.buffer, visits_of_run, after_run)?;
            }
            Programs::Iterators(iterators) => iterators.visit_all(&mut self.buffer)?,
        }
        Ok(visits(&self.buffer))
    }

    /// Begins with some of the threads of a pass.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn begin_chunk(&mut self) -> Result<(), Error> {
        self.known.begin_chunk()
    }

    /// Visits the threads again that were [noted](Self::note) in this chunk.
    ///
    /// # Errors
    ///
    /// When a map cannot be written, or a program fails.
    pub fn visit_noted(&mut self) -> io::Result<impl Iterator<Item = Visit<'_>>> {
        self.buffer.clear();
        match &mut self.programs {
            Programs::Loops(loops) => loops.visit(self.known.noted(), &mut self.buffer)?,
            Programs::Iterators(iterators) => {
                iterators.visit_noted(&mut self.known, &mut self.buffer)?;
            }
        }
        Ok(visits(&self.buffer).filter_map(Visited::seen))
    }

    /// Notes that the stack of a thread was read in this chunk; until it runs, or is
    /// [forgotten](Self::forget), no details of it are recorded. [`false`] where there is no room.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn note(&mut self, visit: &ThreadVisit) -> Result<bool, Error> {
        self.known.note(visit)
    }

    /// Has the details of a thread recorded by the next [`Self::visit_noted`] of this chunk.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn select(&mut self, tid: u32) -> Result<bool, Error> {
        self.known.select(tid)
    }

    /// Has the details of all threads recorded again.
    pub fn forget_all(&mut self) {
        self.known.forget_all();
    }

    /// Has the details of a thread recorded again at its next visit.
    pub fn forget(&mut self, tid: u32) {
        self.known.forget(tid);
    }
}

impl Programs {
    fn load(object: &mut Ebpf, process: Option<u32>, btf: &KernelBtf) -> Result<Self, Error> {
        if kernel_functions::numbers(&btf.functions).is_some() {
            match Loops::load(object, process, &btf.functions) {
                Ok(loops) => return Ok(Self::Loops(Box::new(loops))),
                // As where programs are not compiled (`net.core.bpf_jit_enable`).
                Err(error) => info!("passes over the threads cost more than they might: {error}"),
            }
        }
        Iterators::load(object, process, btf).map(Self::Iterators)
    }
}
