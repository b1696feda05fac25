//! Limits of what is read and kept of sections.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use gimli::{Error, Result};

/// Limits the bytes of sections in memory and the bytes read in one look-up.
#[derive(Debug)]
pub(super) struct Meter {
    /// Bytes in memory.
    resident: AtomicUsize,
    /// Limit of `resident`.
    max_resident: usize,
    /// Bytes that may still be read in this look-up.
    left: AtomicU64,
}

impl Meter {
    pub(super) fn new(max_resident: usize) -> Self {
        Self {
            resident: AtomicUsize::new(0),
            max_resident,
            left: AtomicU64::new(0),
        }
    }

    /// Starts a look-up that may read `bytes` bytes.
    pub(super) fn allow(&self, bytes: u64) {
        self.left.store(bytes, Relaxed);
    }

    /// Whether one of the limits is reached.
    pub(super) fn is_exhausted(&self) -> bool {
        self.left.load(Relaxed) == 0 || self.resident() >= self.max_resident
    }

    /// Bytes in memory.
    pub(super) fn resident(&self) -> usize {
        self.resident.load(Relaxed)
    }

    /// Bytes that may still be kept in memory.
    pub(super) fn room(&self) -> u64 {
        self.max_resident.saturating_sub(self.resident()) as u64
    }

    /// Counts `bytes` bytes that stay in memory.
    pub(super) fn keep(&self, bytes: usize) -> Result<()> {
        // Only one thread reads at a time.
        let resident = self.resident().saturating_add(bytes);
        self.resident.store(resident, Relaxed);
        if resident < self.max_resident {
            Ok(())
        } else {
            Err(Error::Io)
        }
    }

    pub(super) fn spend(&self, bytes: usize) -> Result<()> {
        let left = self.left.load(Relaxed).saturating_sub(bytes as u64);
        self.left.store(left, Relaxed);
        if left == 0 { Err(Error::Io) } else { Ok(()) }
    }
}
