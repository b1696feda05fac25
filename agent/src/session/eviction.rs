//! Evicts from the caches of a session what is not needed any more.

use std::time::Instant;

use anyhow::Result;
use tokio::sync::oneshot::error::TryRecvError;
use tracing::warn;

use super::{Due, Profiles, Session};

impl Session {
    /// Evicts from the caches what is due at the end of a window.
    pub fn evict(&mut self, due: Due) {
        if due.release {
            self.profiles.run(|profiles| {
                if let Some(native) = &mut profiles.native {
                    native.release_memory();
                }
            });
        }
        if due.generation {
            // The BPF programs resend what is still needed; what they did not send since the last
            // rotation is evicted.
            match self.bpf.resend() {
                Ok(()) => {
                    self.profiles.run(Profiles::rotate);
                }
                Err(error) => warn!("caches are not rotated: {error}"),
            }
        }
    }

    /// Forgets the executables that were not mapped since `unused_before`, once all profiles are built
    /// that were requested so far. No open window may have samples from before that time.
    pub fn forget_executables(&mut self, unused_before: Instant) {
        // One at a time: if profiles take long, the next window has the next opportunity.
        if self.forgetting.is_none() {
            let built = self.profiles.run(Profiles::release_files);
            self.forgetting = Some((unused_before, built));
        }
    }

    /// Forgets executables that are due, and others where there are too many.
    pub(super) fn forget_due(&mut self) -> Result<()> {
        let mut unused_before = None;
        if let Some((before, mut built)) = self.forgetting.take() {
            match built.try_recv() {
                Ok(()) => unused_before = Some(before),
                Err(TryRecvError::Empty) => self.forgetting = Some((before, built)),
                Err(TryRecvError::Closed) => {}
            }
        }
        let executables = &self.examinations.executables;
        match &mut self.unwind_tables {
            Some(tables) => tables.forget(&mut self.bpf, executables, unused_before),
            None => Ok(()),
        }
    }
}
