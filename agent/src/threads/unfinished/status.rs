//! What the thread that walks on has done, readable at any time.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What has become of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedTotals {
    /// Those that were walked to their end.
    pub finished: u64,
    /// Those that were walked to the end of the copy.
    pub truncated: u64,
    /// Those that were not walked on, since their code did not become known in time or too much was waiting.
    pub given_up: u64,
}

/// What the thread has done, readable at any time.
#[derive(Debug, Default)]
pub(super) struct UnfinishedStatus {
    /// See [`UnfinishedTotals`].
    pub(super) finished: AtomicU64,
    pub(super) truncated: AtomicU64,
    pub(super) given_up: AtomicU64,
    /// Stacks that wait.
    pub(super) waiting: AtomicUsize,
    /// Those of them that wait for a table.
    pub(super) without_table: AtomicUsize,
    pub(super) sent_bytes: AtomicUsize,
    /// Whether the thread was told that something was loaded, and has not looked yet.
    pub(super) has_news: AtomicBool,
}

impl UnfinishedStatus {
    pub(super) fn given_up(&self, stacks: usize) {
        self.given_up.fetch_add(stacks as u64, Ordering::Relaxed);
    }
}
