//! A snapshot: one stack of each thread.

use anyhow::Result;

use super::{Began, End, EndReason, Observer, Session};
use crate::{
    profile::CPU,
    threads::{Snapshot, SnapshotProgress},
};

impl Session {
    /// Goes on, after [`Self::start`], until each thread has its stack in the snapshot, or until `end`.
    ///
    /// The program that samples threads that run takes the kernel longer to verify than all else takes: it is
    /// loaded when passes have seen a thread run, which meanwhile go on.
    ///
    /// # Errors
    ///
    /// When the BPF programs or their maps fail.
    pub async fn take_snapshot<O: Observer>(
        &mut self,
        began: &Began,
        snapshot: &Snapshot,
        end: &mut End,
        observer: &mut O,
    ) -> Result<EndReason> {
        let progress = tokio::select! {
            reason = self.run(began, end, None, observer) => return reason,
            progress = snapshot.progress() => progress,
        };
        if progress == SnapshotProgress::Complete {
            return Ok(EndReason::TimeOver);
        }
        self.bpf.load_events(&[&CPU])?;
        tokio::select! {
            reason = self.run(began, end, None, observer) => reason,
            () = snapshot.complete() => Ok(EndReason::TimeOver),
        }
    }
}
