//! A snapshot: one stack of each thread.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::{Began, End, EndReason, Observer, Session};
use crate::{
    profile::CPU,
    threads::{Snapshot, SnapshotProgress},
};

/// Least time for samples of threads that run, however long the program takes to load; where less is given for all it
/// is not loaded.
const LEAST_SAMPLED: Duration = Duration::from_millis(100);

impl Session {
    /// Goes on, after [`Self::start`], until each thread has its stack in the snapshot, for `limit`, or until `end`.
    ///
    /// The program that samples threads that run takes the kernel longer to verify than all else takes: it is
    /// loaded when passes, which go on, have not found the stack of a thread that runs.
    ///
    /// # Errors
    ///
    /// When the BPF programs or their maps fail.
    pub async fn take_snapshot<O: Observer>(
        &mut self,
        began: &Began,
        snapshot: &Snapshot,
        limit: Duration,
        end: &mut End,
        observer: &mut O,
    ) -> Result<EndReason> {
        let progress = tokio::select! {
            reason = self.run(began, end, None, observer) => return reason,
            progress = snapshot.progress() => progress,
            () = sleep(limit) => return Ok(EndReason::TimeOver),
        };
        if progress == SnapshotProgress::Complete {
            return Ok(EndReason::TimeOver);
        }
        let mut left = limit.saturating_sub(began.at.elapsed());
        if limit >= LEAST_SAMPLED {
            self.bpf.load_events(&[&CPU])?;
            left = limit.saturating_sub(began.at.elapsed());
            left = left.max(LEAST_SAMPLED);
        }
        tokio::select! {
            reason = self.run(began, end, None, observer) => reason,
            () = snapshot.complete() => Ok(EndReason::TimeOver),
            () = sleep(left) => Ok(EndReason::TimeOver),
        }
    }

    /// Tells the snapshot, if one is taken, whether unwind tables are being loaded.
    pub(super) fn note_tables(&self) {
        if let (Some(snapshot), Some(tables)) =
            (&self.pass_settings.records.snapshot, &self.unwind_tables)
        {
            snapshot.set_tables(tables.is_loading(), tables.ended());
        }
    }
}
