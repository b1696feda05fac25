//! Whether the threads of the session make progress, for the watchdog.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use tracing::error;

use crate::session::Session;

/// Most time for one profile, on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the threads had done at the last check.
#[derive(Debug, Default)]
pub(super) struct Vitals {
    /// [`None`] before the first check.
    drains: Option<u64>,
    built: Option<(u64, Instant)>,
}

impl Vitals {
    /// Whether the ring buffer was read since the last call, and profiles are built where they are
    /// due.
    pub(super) fn are_good(&mut self, session: &Session) -> bool {
        let drains = session.drain_status().drains.load(Ordering::Relaxed);
        let is_drained = self.drains.replace(drains) != Some(drains);
        let now = Instant::now();
        self.built = match (session.profiles.progress(), self.built) {
            (Some(built), Some((before, since))) if built == before => Some((built, since)),
            (Some(built), _) => Some((built, now)),
            (None, _) => None,
        };
        let is_building = self.built.is_none_or(|(_, since)| now - since < PATIENCE);
        if !is_drained {
            error!("the ring buffer is not read");
        }
        if !is_building {
            error!("no profile was built for {} s", PATIENCE.as_secs());
        }
        is_drained && is_building
    }
}
