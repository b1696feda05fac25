//! Where passes get threads from, and what is known of their processes: from the BPF programs and their maps, or, where
//! those may not be loaded, from outside.

use std::{io, sync::Arc, time::Duration};

use agent_common::{
    layout::Layout,
    maps::{Mapping, ProcessState, TableLocation, TrackedProcess},
    unwind::Rule,
    visit::ThreadVisit,
};

use super::outside::{OutsideProcesses, OutsideVisits};
use crate::bpf::{LockWaits, PassClocks, PassMaps, Rows, ThreadVisits, Visit, Visited, WalkMaps};

/// Least and most time for what is read in a pass.
const SHORTEST_LIMIT: Duration = Duration::from_millis(100);
const LONGEST_LIMIT: Duration = Duration::from_millis(500);

/// What passes are made of.
pub struct PassSources {
    pub(super) visits: Visits,
    pub(super) maps: Lookups,
    /// Waits for locks whose ends are recorded, if any are.
    pub(super) lock_waits: Option<LockWaits>,
    /// Samples threads that run, where that can be done.
    pub(super) clocks: Option<PassClocks>,
}

impl From<PassMaps> for PassSources {
    fn from(maps: PassMaps) -> Self {
        Self {
            visits: Visits::Bpf(Box::new(maps.visits)),
            maps: Lookups::Bpf(Box::new(maps.maps)),
            lock_waits: maps.lock_waits,
            clocks: maps.clocks,
        }
    }
}

impl From<OutsideProcesses> for PassSources {
    fn from(processes: OutsideProcesses) -> Self {
        let processes = Arc::new(processes);
        Self {
            visits: Visits::Outside(Box::new(OutsideVisits::new(Arc::clone(&processes)))),
            maps: Lookups::Outside(processes),
            lock_waits: None,
            clocks: None,
        }
    }
}

/// Visits threads.
pub(super) enum Visits {
    Bpf(Box<ThreadVisits>),
    Outside(Box<OutsideVisits>),
}

impl Visits {
    /// Most time for reading stacks and GILs in a pass that stands for so much time. Threads that there is no time for
    /// have no stack.
    ///
    /// From outside a pass takes longer to visit all threads than to read some stacks. Thousands of threads have
    /// theirs sooner by a long pass than by many.
    pub(super) fn time_limit(&self, elapsed: Duration) -> Duration {
        match self {
            Self::Bpf(_) => (elapsed / 8).clamp(SHORTEST_LIMIT, LONGEST_LIMIT),
            Self::Outside(_) => LONGEST_LIMIT,
        }
    }

    /// Whether a thread is told from others that do not run whose processor the calling thread has taken.
    pub(super) fn knows_preempted(&self) -> bool {
        match self {
            Self::Bpf(visits) => visits.knows_preempted(),
            Self::Outside(_) => false,
        }
    }

    /// Most chunks of a pass with many threads: the BPF programs may have to visit all threads each time.
    pub(super) fn most_chunks(&self) -> usize {
        match self {
            Self::Bpf(visits) if !visits.finds_noted() => 16,
            Self::Bpf(_) | Self::Outside(_) => usize::MAX,
        }
    }

    /// What a proof of so many stacks takes: as long as so many visits of threads one after another; 0 where it takes no less
    /// to prove each by itself.
    pub(super) fn visits_of_proof(&self, stacks: usize) -> usize {
        match self {
            Self::Bpf(visits) => visits.visits_of_proof(stacks),
            Self::Outside(_) => 0,
        }
    }

    /// Visits every thread.
    ///
    /// # Errors
    ///
    /// When a BPF program fails.
    pub(super) fn visit_all(&mut self) -> io::Result<Box<dyn Iterator<Item = Visited<'_>> + '_>> {
        Ok(match self {
            Self::Bpf(visits) => Box::new(visits.visit_all()?),
            Self::Outside(visits) => Box::new(visits.visit_all().map(Visited::Seen)),
        })
    }

    /// Begins with some of the threads of a pass.
    ///
    /// # Errors
    ///
    /// When the map cannot be written.
    pub(super) fn begin_chunk(&mut self) -> io::Result<()> {
        match self {
            Self::Bpf(visits) => visits.begin_chunk().map_err(io::Error::other)?,
            Self::Outside(visits) => visits.begin_chunk(),
        }
        Ok(())
    }

    /// Visits the threads again that were [noted](Self::note) in this chunk.
    ///
    /// # Errors
    ///
    /// When a BPF program fails.
    pub(super) fn visit_noted(&mut self) -> io::Result<Box<dyn Iterator<Item = Visit<'_>> + '_>> {
        Ok(match self {
            Self::Bpf(visits) => Box::new(visits.visit_noted()?),
            Self::Outside(visits) => Box::new(visits.visit_noted()),
        })
    }

    /// Notes that the stack of a thread was read in this chunk; [`false`] where there is no room.
    ///
    /// # Errors
    ///
    /// When the map cannot be written.
    pub(super) fn note(&mut self, visit: &ThreadVisit) -> io::Result<bool> {
        match self {
            Self::Bpf(visits) => visits.note(visit).map_err(io::Error::other),
            Self::Outside(visits) => Ok(visits.note(visit)),
        }
    }

    /// Has the details of a thread recorded by the next [`Self::visit_noted`] of this chunk.
    ///
    /// # Errors
    ///
    /// When the map cannot be written.
    pub(super) fn select(&mut self, tid: u32) -> io::Result<bool> {
        match self {
            Self::Bpf(visits) => visits.select(tid).map_err(io::Error::other),
            Self::Outside(visits) => Ok(visits.select(tid)),
        }
    }

    /// Has the details of all threads recorded again.
    pub(super) fn forget_all(&mut self) {
        match self {
            Self::Bpf(visits) => visits.forget_all(),
            Self::Outside(visits) => visits.forget_all(),
        }
    }

    /// Has the details of a thread recorded again at its next visit.
    pub(super) fn forget(&mut self, tid: u32) {
        match self {
            Self::Bpf(visits) => visits.forget(tid),
            Self::Outside(visits) => visits.forget(tid),
        }
    }
}

/// What walks look up. From outside there are no native frames, so that there are no mappings and no unwind tables.
pub(super) enum Lookups {
    Bpf(Box<WalkMaps>),
    Outside(Arc<OutsideProcesses>),
}

impl Lookups {
    /// What is known about the program that a process runs, and what the BPF programs have noted about the
    /// process; [`None`] while nothing is known.
    pub(super) fn process(&self, tgid: u32) -> Option<(TrackedProcess, ProcessState)> {
        match self {
            Self::Bpf(maps) => maps.process(tgid),
            Self::Outside(processes) => processes.process(tgid),
        }
    }

    /// Whether a process is profiled and has not ended, whatever is known about it.
    pub(super) fn has_process(&self, tgid: u32) -> bool {
        match self {
            Self::Bpf(maps) => maps.has_process(tgid),
            Self::Outside(processes) => processes.process(tgid).is_some(),
        }
    }

    /// The layout with this index.
    pub(super) fn layout(&self, index: u32) -> Option<Layout> {
        match self {
            Self::Bpf(maps) => maps.layout(index),
            Self::Outside(processes) => processes.layout(index),
        }
    }

    /// The mappings of a process.
    pub(super) fn mappings(&self, process: &TrackedProcess) -> Vec<Mapping> {
        self.of_bpf(|maps| Some(maps.mappings(process)))
            .unwrap_or_default()
    }

    /// Where the unwind table with this index is.
    pub(super) fn table(&self, index: u32) -> Option<TableLocation> {
        self.of_bpf(|maps| maps.table(index))
    }

    /// The unwind rule with this index.
    pub(super) fn rule(&self, index: u16) -> Option<Rule> {
        self.of_bpf(|maps| maps.rule(index))
    }

    /// The map with the rows of a table.
    pub(super) fn rows(&self, table: &TableLocation) -> Option<Rows> {
        self.of_bpf(|maps| maps.rows(table))
    }

    /// What was sent before this time is to be sent again, in nanoseconds of the monotonic clock.
    pub(super) fn resend_before_ns(&self) -> u64 {
        self.of_bpf(|maps| Some(maps.resend_before_ns()))
            .unwrap_or(0)
    }

    fn of_bpf<T>(&self, look_up: impl FnOnce(&WalkMaps) -> Option<T>) -> Option<T> {
        match self {
            Self::Bpf(maps) => look_up(maps),
            Self::Outside(_) => None,
        }
    }
}
