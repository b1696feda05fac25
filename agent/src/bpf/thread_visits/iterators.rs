//! Visits by the kernel's iterator over tasks: each read of it runs its program once for each thread of the kernel, or
//! of the only process. What is to be visited again is visited one by one where that takes less time.

use std::{fs, io};

use aya::Ebpf;

use super::{
    known_threads::KnownThreads,
    task_iterator::TaskIterator,
    visited::{Visited, visits},
};
use crate::bpf::{btf::KernelBtf, error::Error};

/// The programs of the two parts of a pass.
const ON_THREAD: &str = "on_thread";
const ON_READ_THREAD: &str = "on_read_thread";

/// So many threads are visited one after another in about the time in which one is visited by itself, which makes and
/// closes two descriptors: 6 to 8 µs, where a thread whose data is in no cache takes 0.4 to 1 µs.
const VISITS_PER_LINK: usize = 16;

/// Visits threads, of which the kernel finds each by its id.
pub(super) struct Iterators {
    all: TaskIterator,
    read_ones: TaskIterator,
    /// How many the kernel visits when it visits all.
    visited: usize,
    /// Whether the kernel can visit one thread by itself; [`None`] until it was tried.
    finds_threads: Option<bool>,
}

impl Iterators {
    /// Loads the programs; `process` is the only one whose threads are visited.
    pub(super) fn load(
        object: &mut Ebpf,
        process: Option<u32>,
        btf: &KernelBtf,
    ) -> Result<Self, Error> {
        Ok(Self {
            all: TaskIterator::load(object, ON_THREAD, &btf.functions, process)?,
            read_ones: TaskIterator::load(object, ON_READ_THREAD, &btf.functions, process)?,
            visited: 0,
            finds_threads: None,
        })
    }

    /// As how many visits, one after another, it takes to visit so many threads again.
    pub(super) fn visits_of_proof(&self, threads: usize) -> usize {
        self.visited.min(threads * VISITS_PER_LINK)
    }

    /// Visits every thread, and appends what is recorded.
    ///
    /// # Errors
    ///
    /// When the iterator fails.
    pub(super) fn visit_all(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        self.all.read(into)?;
        self.visited = if self.all.is_of_process() {
            visits(into).count()
        } else {
            threads_of_host()
        };
        Ok(())
    }

    /// Visits the threads again that are noted, and appends what is recorded.
    ///
    /// # Errors
    ///
    /// When the iterator fails.
    pub(super) fn visit_noted(
        &mut self,
        known: &mut KnownThreads,
        into: &mut Vec<u8>,
    ) -> io::Result<()> {
        let is_faster = known.noted().len() * VISITS_PER_LINK < self.visited;
        if is_faster && self.finds_threads(known) {
            let mut noted = known.noted().iter();
            if noted
                .try_for_each(|tid| self.read_ones.read_thread(*tid, into))
                .is_ok()
            {
                return Ok(());
            }
            into.clear();
        }
        self.read_ones.read(into)
    }

    /// Whether the kernel can visit one thread by itself. Tries it with the calling thread, which must not be the
    /// first one of its process: that one is asked for too. A kernel that finds only processes does not visit the
    /// calling thread in any case, and one without such a filter does so in both.
    fn finds_threads(&mut self, known: &mut KnownThreads) -> bool {
        if let Some(finds) = self.finds_threads {
            return finds;
        }
        let [own, first] = [rustix::thread::gettid(), rustix::process::getpid()]
            .map(|id| id.as_raw_pid().cast_unsigned());
        let is_selected = matches!(known.select(own), Ok(true));
        let visits_own = |tid| {
            let mut visited = Vec::new();
            self.read_ones.read_thread(tid, &mut visited).is_ok()
                && visits(&visited)
                    .filter_map(Visited::seen)
                    .any(|visit| visit.head.tid == own)
        };
        let finds = is_selected && visits_own(own) && !visits_own(first);
        known.take_back(own);
        self.finds_threads = Some(finds);
        finds
    }
}

/// How many threads this host has; 0 if it does not say so.
fn threads_of_host() -> usize {
    // As in `0.31 0.25 0.22 2/1410 19093`.
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let threads = load.split(['/', ' ']).nth(4);
    threads.and_then(|it| it.parse().ok()).unwrap_or(0)
}
