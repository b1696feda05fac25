//! Passes for a snapshot: the first one at once, and the next ones soon after, until it ends.
//!
//! A thread that runs is read in a pass that is made on its processor. Where one cannot be had, or several passes have not
//! led to stacks, samples of threads that run are asked for.

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
    snapshot::Snapshot,
    taken_processor::Taking,
};

/// Time between two passes: one must not keep the threads that it waits for from running.
const PAUSE: Duration = Duration::from_millis(1);

/// Elapsed time that a sample stands for: so long that it shows what the pass has seen, not what the kernel's
/// accounts say of the time before.
const ELAPSED_NS: u64 = i64::MAX.cast_unsigned();

/// Most passes on the processors of threads that run.
const MAX_ON_PROCESSORS: u32 = 8;

/// Makes passes until `stopped`.
pub(super) fn run(
    mut passer: Passer,
    snapshot: &Snapshot,
    stopped: &mpsc::Receiver<()>,
    shared: &Shared,
) {
    let mut left = if shared.visits().knows_preempted() {
        MAX_ON_PROCESSORS
    } else {
        0
    };
    loop {
        let running = snapshot.running_without_stack();
        let mut processor = None;
        if running.len() > left as usize {
            snapshot.ask_for_samples();
        } else if let Some((tgid, tid)) = fastrand::choice(running) {
            left -= 1;
            match snapshot.processors().take(tgid, tid) {
                Taking::Taken(taken) => processor = Some(taken),
                Taking::Refused => snapshot.ask_for_samples(),
                Taking::Ended => {}
            }
        }
        let pass = passer.pass(ELAPSED_NS);
        drop(processor);
        match pass {
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
