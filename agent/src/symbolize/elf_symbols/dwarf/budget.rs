//! Limits on what is read, visited and kept.

use super::error::DwarfError;

/// Most bytes that are read for one look-up.
pub(super) const MAX_READ: u64 = 256 << 20;

/// Most entries, attributes, ranges and lines that are visited for one look-up.
pub(super) const MAX_WORK: u64 = 1 << 26;

/// How many entries, attributes, ranges and lines may still be visited.
pub(super) struct WorkBudget(pub(super) u64);

impl WorkBudget {
    pub(super) fn spend(&mut self, amount: usize) -> Result<(), DwarfError> {
        let left = self.0.checked_sub(amount as u64);
        self.0 = left.ok_or(DwarfError::TooLarge)?;
        Ok(())
    }
}

/// Limits of the memory of debugging information, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct DwarfLimits {
    /// While it is read, with decompressed sections.
    pub at_once: usize,
    /// Between look-ups, for cached units.
    pub kept: usize,
}
