//! Where a file has code.

use std::ops::Range;

use agent_common::unwind::PAGE_BYTES;

use crate::binaries::elf::Segments;

/// The parts of a file that may be executed, and from where addresses in them are counted.
#[derive(Clone, Debug)]
pub(super) struct Code {
    ranges: Vec<Range<u64>>,
    /// A multiple of [`PAGE_BYTES`].
    base: u64,
}

impl Code {
    pub(super) fn of(segments: &Segments) -> Self {
        let ranges: Vec<_> = segments.code().filter(|range| !range.is_empty()).collect();
        let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        Self {
            ranges,
            base: start & !(PAGE_BYTES - 1),
        }
    }

    /// From where distances are counted.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// How far an address is from the base. Code does not reach further than 4 GiB, since
    /// instructions cannot either.
    pub(super) fn distance(&self, address: u64) -> Option<u32> {
        address.checked_sub(self.base)?.try_into().ok()
    }

    /// The part of these addresses that is code, if the first is.
    pub(super) fn distances(&self, start: u64, bytes: u64) -> Option<Range<u32>> {
        let code = self.ranges.iter().find(|range| range.contains(&start))?;
        let end = start.saturating_add(bytes).min(code.end);
        Some(self.distance(start)?..self.distance(end)?)
    }
}
