//! What a session says of itself.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

#[cfg(feature = "recorder")]
use super::recorder;
use super::{DrainStatus, LeftOut, Session, unwind_tables::UnwindTables};
use crate::{
    bpf::{self, Counters},
    threads::{PassStatus, UnfinishedStacks, UnfinishedTotals},
    workers::WorkersStatus,
};

impl Session {
    /// What the BPF programs have counted so far.
    ///
    /// # Errors
    ///
    /// When the counters cannot be read.
    pub fn counters(&self) -> Result<Counters, bpf::Error> {
        let counters = self.bpf.counters()?;
        #[cfg(feature = "recorder")]
        recorder::counters(&counters);
        Ok(counters)
    }

    /// Samples in the present window so far.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.drain.status().samples.load(Ordering::Relaxed)
    }

    /// What the thread that drains the ring buffer is doing.
    #[must_use]
    pub fn drain_status(&self) -> &Arc<DrainStatus> {
        self.drain.status()
    }

    /// What the passes over the threads are doing; [`None`] where there are none.
    #[must_use]
    pub fn pass_status(&self) -> Option<&PassStatus> {
        self.passes.as_ref().map(|passes| passes.status())
    }

    /// Native stacks that were walked on when their code was known.
    #[must_use]
    pub fn unfinished_totals(&self) -> UnfinishedTotals {
        let unfinished = self.unfinished.as_ref();
        unfinished.map_or_else(UnfinishedTotals::default, UnfinishedStacks::totals)
    }

    /// CPU time that grows with the sampling rate: that of the thread that drains the ring buffer,
    /// and of the sampling program where the kernel measures it.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let drain = self.drain.status().cpu_ns.load(Ordering::Relaxed);
        let program = self
            .bpf
            .run_stats()
            .map_or(0, |(_, nanoseconds)| nanoseconds);
        Duration::from_nanos(drain.saturating_add(program))
    }

    /// How many times something found no room in the BPF maps.
    #[must_use]
    pub fn left_out(&self) -> LeftOut {
        let tables = self.unwind_tables.as_ref();
        LeftOut {
            layouts: self.layouts_left_out,
            ..tables.map(UnwindTables::left_out).unwrap_or_default()
        }
    }

    /// What the worker threads are doing.
    #[must_use]
    pub fn workers_status(&self) -> WorkersStatus {
        self.examinations.workers.status()
    }
}
