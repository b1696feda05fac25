//! Index of the units of a file by address.
//!
//! Invariant: an address range takes 16 bytes and a unit 8; the sections are read once to build it and
//! not kept.

use std::collections::HashMap;

use gimli::{DebugInfoOffset, Dwarf, Reader as _, Section as _, UnitType};

use super::{
    budget::WorkBudget, error::DwarfError, section_reader::SectionReader, sections::OpenSections,
    unit::DwarfUnit,
};

/// Most units.
const MAX_UNITS: usize = 1 << 20;

/// Most ranges of addresses.
const MAX_RANGES: usize = 1 << 22;

/// Most ranges before an address that are searched for those that contain it.
const MAX_SEARCHED: usize = 256;

/// Bytes read after which the sections are reopened, to free their pages.
const REOPEN_AFTER: usize = 8 << 20;

/// Most units that are searched for an address.
const MAX_FOUND: usize = 4;

/// Offsets of the units of a file in `.debug_info`.
#[derive(Debug, Default)]
pub(super) struct UnitOffsets(Vec<usize>);

impl UnitOffsets {
    /// Reads the headers of all units.
    pub(super) fn read(
        dwarf: &Dwarf<SectionReader>,
        work: &mut WorkBudget,
    ) -> Result<Self, DwarfError> {
        let mut units = Self::default();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            work.spend(1)?;
            if let Some(offset) = header.debug_info_offset() {
                units.add(offset.0)?;
            }
        }
        Ok(units)
    }

    fn add(&mut self, offset: usize) -> Result<(), DwarfError> {
        if self.0.len() == MAX_UNITS {
            return Err(DwarfError::TooLarge);
        }
        self.0.push(offset);
        Ok(())
    }

    /// Offset of a unit.
    pub(super) fn offset(&self, unit: usize) -> Option<usize> {
        self.0.get(unit).copied()
    }

    /// The unit that contains an offset in `.debug_info`.
    pub(super) fn containing(&self, offset: usize) -> Option<usize> {
        self.0.partition_point(|it| *it <= offset).checked_sub(1)
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<usize>()
    }
}

/// Address ranges of units.
#[derive(Debug, Default)]
pub(super) struct UnitIndex {
    pub(super) units: UnitOffsets,
    /// By address.
    ranges: Vec<Range>,
}

/// An address range of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    begin: u64,
    bytes: u32,
    unit: u32,
}

impl UnitIndex {
    /// Indexes the ranges of all units that are in `code`. `open` opens the sections; it is called
    /// again to free the pages read so far.
    pub(super) fn read(
        mut open: impl FnMut() -> Result<OpenSections, DwarfError>,
        code: &std::ops::Range<u64>,
        work: &mut WorkBudget,
    ) -> Result<Self, DwarfError> {
        let mut index = Self::default();
        let mut opened = open()?;
        let listed = listed(&opened.dwarf, code, work)?;
        let bytes = opened.dwarf.debug_info.reader().len();
        let mut next = 0;
        while next < bytes {
            work.spend(1)?;
            if opened.grown() > REOPEN_AFTER {
                opened = open()?;
            }
            let dwarf = &opened.dwarf;
            let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(next))?;
            let unit = u32::try_from(index.units.0.len()).map_err(|_| DwarfError::TooLarge)?;
            index.units.add(next)?;
            let ranges = listed.get(&next);
            next += header.length_including_self();
            if let Some(ranges) = ranges {
                for (begin, end) in ranges {
                    index.add(unit, *begin, *end)?;
                }
                continue;
            }
            if !matches!(
                header.type_(),
                UnitType::Compilation | UnitType::Skeleton(_)
            ) {
                continue;
            }
            // A malformed unit does not hide the others.
            let result = DwarfUnit::read(dwarf, header).and_then(|read| {
                let mut result = Ok(());
                let add = |range: gimli::Range| {
                    if code.contains(&range.begin) && result.is_ok() {
                        result = index.add(unit, range.begin, range.end);
                    }
                };
                read.addresses.ranges(dwarf, &read.inner, work, add)?;
                result
            });
            if let Err(DwarfError::TooLarge) = result {
                return Err(DwarfError::TooLarge);
            }
        }
        index.ranges.sort_unstable();
        index.ranges.shrink_to_fit();
        index.units.0.shrink_to_fit();
        Ok(index)
    }

    fn add(&mut self, unit: u32, begin: u64, end: u64) -> Result<(), DwarfError> {
        if self.ranges.len() == MAX_RANGES {
            return Err(DwarfError::TooLarge);
        }
        let bytes = u32::try_from(end.saturating_sub(begin)).unwrap_or(u32::MAX);
        self.ranges.push(Range { begin, bytes, unit });
        Ok(())
    }

    /// The units that contain `address`.
    pub(super) fn find(&self, address: u64) -> Vec<usize> {
        let after = self.ranges.partition_point(|it| it.begin <= address);
        let mut found = Vec::new();
        for range in self.ranges[..after].iter().rev().take(MAX_SEARCHED) {
            let unit = range.unit as usize;
            if address - range.begin < range.bytes.into() && !found.contains(&unit) {
                found.push(unit);
            }
            if found.len() == MAX_FOUND {
                break;
            }
        }
        found
    }

    pub(super) fn bytes(&self) -> usize {
        self.units.bytes() + self.ranges.capacity() * size_of::<Range>()
    }
}

type ListedRanges = HashMap<usize, Vec<(u64, u64)>>;

/// Address ranges that `.debug_aranges` lists, by offset of the unit; it saves reading those units, but
/// may lack some.
fn listed(
    dwarf: &Dwarf<SectionReader>,
    code: &std::ops::Range<u64>,
    work: &mut WorkBudget,
) -> Result<ListedRanges, DwarfError> {
    let mut listed = ListedRanges::new();
    let mut headers = dwarf.debug_aranges.headers();
    // Units that it lacks are read themselves.
    while let Ok(Some(header)) = headers.next() {
        let mut entries = header.entries();
        let mut ranges = Vec::new();
        while let Ok(Some(entry)) = entries.next() {
            work.spend(1)?;
            let (begin, bytes) = (entry.address(), entry.length());
            if code.contains(&begin) && bytes != 0 {
                ranges.push((begin, begin.saturating_add(bytes)));
            }
        }
        if !ranges.is_empty() {
            let unit = listed.entry(header.debug_info_offset().0);
            unit.or_default().extend(ranges);
        }
    }
    Ok(listed)
}
