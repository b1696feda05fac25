//! Passes for a snapshot: the first one at once, and the next ones soon after, until it ends.

use std::{
    sync::{
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use tracing::error;

use super::{
    pass::{PassError, Passer},
    shared::Shared,
};

/// Time between two passes: one must not keep the threads that it waits for from running.
const PAUSE: Duration = Duration::from_millis(1);

/// Elapsed time that a sample stands for: so long that it shows what the pass has seen, not what the kernel's
/// accounts say of the time before.
const ELAPSED_NS: u64 = i64::MAX.cast_unsigned();

/// Makes passes until `stopped`.
pub(super) fn run(mut passer: Passer, stopped: &mpsc::Receiver<()>, shared: &Shared) {
    loop {
        match passer.pass(ELAPSED_NS) {
            Ok(()) => {}
            Err(PassError::GivenUp) => return,
            Err(PassError::Failed(error)) => {
                error!("passes over the threads have failed: {error}");
                return;
            }
        }
        (shared.send)(passer.batch.take());
        shared.status.passes.fetch_add(1, Ordering::Relaxed);
        match stopped.recv_timeout(PAUSE) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
    }
}
