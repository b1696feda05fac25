//! The executable address ranges of a file.

use std::ops::Range;

use agent_common::unwind::PAGE_BYTES;

use crate::binaries::elf::Segments;

/// The executable address ranges of a file, and the base of distances.
#[derive(Clone, Debug)]
pub(super) struct CodeRanges {
    ranges: Vec<Range<u64>>,
    /// A multiple of [`PAGE_BYTES`].
    base: u64,
}

impl CodeRanges {
    pub(super) fn of(segments: &Segments) -> Self {
        let ranges: Vec<_> = segments.code().filter(|range| !range.is_empty()).collect();
        let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        Self {
            ranges,
            base: start & !(PAGE_BYTES - 1),
        }
    }

    /// The address that distances are relative to.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// The distance of an address from the base, less than 4 GiB: instructions do not reach
    /// further either.
    pub(super) fn distance(&self, address: u64) -> Option<u32> {
        address.checked_sub(self.base)?.try_into().ok()
    }

    /// The distances of these addresses up to the end of the code range that contains the first;
    /// [`None`] where none does.
    pub(super) fn distances(&self, start: u64, bytes: u64) -> Option<Range<u32>> {
        let code = self.ranges.iter().find(|range| range.contains(&start))?;
        let end = start.saturating_add(bytes).min(code.end);
        Some(self.distance(start)?..self.distance(end)?)
    }
}
