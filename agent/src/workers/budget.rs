//! What the job of the present thread may still take.
//!
//! Everything that reads on behalf of a job calls [`charge`] first, so that no parser has to pass a
//! budget on. Threads without a job have no budget.

use std::{
    cell::RefCell,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::quarantine::Subject;

/// Most bytes that one job reads.
const MAX_BYTES: u64 = 4 << 30;

/// The budget of a job.
pub(super) struct Budget {
    bytes: u64,
    ends: Instant,
    /// Set when nobody waits for the job any more.
    is_abandoned: Arc<AtomicBool>,
    is_exceeded: bool,
    /// What else takes too long.
    overran: Vec<Subject>,
}

thread_local! {
    static PRESENT: RefCell<Option<Budget>> = const { RefCell::new(None) };
}

impl Budget {
    pub(super) fn new(time: Duration, is_abandoned: Arc<AtomicBool>) -> Self {
        Self {
            bytes: MAX_BYTES,
            ends: Instant::now() + time,
            is_abandoned,
            is_exceeded: false,
            overran: Vec::new(),
        }
    }

    /// Makes it the budget of this thread.
    pub(super) fn begin(self) {
        PRESENT.set(Some(self));
    }

    /// Ends the budget of this thread; returns whether it was exceeded, and what else [`overrun`]
    /// has named.
    pub(super) fn end() -> (bool, Vec<Subject>) {
        let budget = PRESENT.take();
        budget.map_or_else(Default::default, |it| (it.is_exceeded, it.overran))
    }

    fn charge(&mut self, bytes: u64) -> bool {
        self.is_exceeded |= bytes > self.bytes || Instant::now() > self.ends;
        self.bytes = self.bytes.saturating_sub(bytes);
        !self.is_exceeded && !self.is_abandoned.load(Ordering::Relaxed)
    }
}

/// Charges `bytes` that are about to be read to the job of this thread.
///
/// # Errors
///
/// When the job has exceeded its budget, or was abandoned.
pub fn charge(bytes: usize) -> io::Result<()> {
    PRESENT.with_borrow_mut(|present| {
        let may_read = present
            .as_mut()
            .is_none_or(|budget| budget.charge(bytes as u64));
        if may_read {
            Ok(())
        } else {
            Err(io::Error::other("the budget of this work is exceeded"))
        }
    })
}

/// Puts a subject into quarantine that the job of this thread needed and that takes too long; the job
/// goes on without it.
pub fn overrun(subject: Subject) {
    PRESENT.with_borrow_mut(|present| {
        if let Some(budget) = present {
            budget.overran.push(subject);
        }
    });
}
