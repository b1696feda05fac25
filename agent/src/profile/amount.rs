//! How much samples measured.

use std::ops::AddAssign;

/// How much equal samples measured together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Number of samples.
    pub count: u64,
    /// Sum of their values, in the unit of their kind.
    pub value: u64,
}

/// A number of an [`Amount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// [`Amount::count`].
    Count,
    /// [`Amount::value`].
    Value,
}

impl Amount {
    /// One of the numbers.
    #[must_use]
    pub fn get(self, source: ValueSource) -> u64 {
        match source {
            ValueSource::Count => self.count,
            ValueSource::Value => self.value,
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.value = self.value.saturating_add(other.value);
    }
}
