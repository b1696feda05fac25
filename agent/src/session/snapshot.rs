//! A snapshot: one stack of each thread.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::{Began, End, EndReason, Observer, Session};
use crate::{
    aggregate::{Filter, ProfileTiming},
    profile::{CPU, Profile},
    threads::{Passes, Snapshot, SnapshotProgress},
};

/// Least time for samples of threads that run, however long the program takes to load; where less is given for all it
/// is not loaded.
const LEAST_SAMPLED: Duration = Duration::from_millis(100);

impl Session {
    /// Starts passes for a snapshot: the first one, or another one of a session that has [ended](Self::end_snapshot) one.
    ///
    /// # Errors
    ///
    /// When passes cannot be made.
    pub fn start_snapshot(&mut self) -> Result<Began> {
        let Some(passes) = &mut self.passes else {
            return self.start();
        };
        let records = &self.pass_settings.records;
        if let Some(snapshot) = &records.snapshot {
            snapshot.clear();
        }
        if let Some(deadlocks) = &records.deadlocks {
            deadlocks.clear();
        }
        let began = Began::now();
        passes.resume()?;
        Ok(began)
    }

    /// Goes on until each thread has its stack in the snapshot, for `limit`, or until `end`.
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
            self.bpf.start_events(&[&CPU])?;
            left = limit.saturating_sub(began.at.elapsed());
            left = left.max(LEAST_SAMPLED);
        }
        tokio::select! {
            reason = self.run(began, end, None, observer) => reason,
            () = snapshot.complete() => Ok(EndReason::TimeOver),
            () = sleep(left) => Ok(EndReason::TimeOver),
        }
    }

    /// Ends the passes and samples of a snapshot and returns its profile, and whether the session may take another one: not where
    /// a process has held up the passes.
    ///
    /// When a signal has ended it, or `end` gets one meanwhile, what takes longer than a moment is left out.
    ///
    /// # Errors
    ///
    /// When the BPF programs or their maps fail.
    pub async fn end_snapshot<O: Observer>(
        &mut self,
        about: ProfileTiming,
        filter: Filter,
        reason: EndReason,
        end: &mut End,
        observer: &mut O,
    ) -> Result<(Profile, bool)> {
        let may_go_on = self.passes.as_deref_mut().is_some_and(Passes::pause);
        self.bpf.pause_events()?;
        let window = self.take_window(observer).await?;
        let building = self
            .profiles
            .run(move |profiles| profiles.profile_of(&window, &about, &filter));
        let profile = self.build_in_time(building, reason, end, None).await?;
        Ok((profile, may_go_on))
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
