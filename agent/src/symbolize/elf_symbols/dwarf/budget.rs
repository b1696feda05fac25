//! How much is read, looked at and kept.

use super::error::DwarfError;

/// Most bytes that are read for one address.
pub(super) const MAX_READ: u64 = 256 << 20;

/// Most entries, attributes, ranges and lines that are looked at for one address.
pub(super) const MAX_WORK: u64 = 1 << 26;

/// What may still be looked at.
pub(super) struct WorkBudget(pub(super) u64);

impl WorkBudget {
    pub(super) fn spend(&mut self, amount: usize) -> Result<(), DwarfError> {
        let left = self.0.checked_sub(amount as u64);
        self.0 = left.ok_or(DwarfError::TooLarge)?;
        Ok(())
    }
}

/// How much memory debugging information may take, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct DwarfLimits {
    /// While it is read; what is compressed has to fit.
    pub at_once: usize,
    /// Between look-ups, of what was found.
    pub kept: usize,
}
