//! The debugging information of a file, read on demand.

use std::ops::Range;

use super::{
    budget::{DwarfLimits, MAX_WORK, WorkBudget},
    dwarf_reader::{DwarfReader, EntryRef, NameAndLine},
    error::DwarfError,
    files::DwarfFiles,
    functions::Scope,
    index::{UnitIndex, UnitOffsets},
    inflated::InflatedSections,
    sections::OpenSections,
    unit_cache::{CachedUnit, UnitCache},
};

/// A function at an address, outermost or inlined, and the line in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineLevel {
    /// Linkage name, else the name in the source.
    pub name: Option<Vec<u8>>,
    /// Path of the source file.
    pub file: Option<Vec<u8>>,
    /// Line in that file, 0 where there is none.
    pub line: u32,
    /// First line of the function, 0 where it is not known.
    pub first_line: u32,
}

impl InlineLevel {
    /// A function of `unit`; `call` is the index of a file and the line.
    fn new((name, first_line): NameAndLine, unit: &CachedUnit, call: Option<(u32, u32)>) -> Self {
        Self {
            name,
            file: call.and_then(|(file, _)| unit.path(file)),
            line: call.map_or(0, |(_, line)| line),
            first_line,
        }
    }
}

/// The debugging information of a file.
pub struct DwarfInfo {
    /// Addresses of the file's code.
    code: Range<u64>,
    index: Option<UnitIndex>,
    unit_cache: UnitCache,
    reader: Option<DwarfReader>,
    inflated: InflatedSections,
    limits: DwarfLimits,
    failed: Option<DwarfError>,
}

impl DwarfInfo {
    pub fn new(code: Range<u64>, limits: DwarfLimits) -> Self {
        Self {
            code,
            index: None,
            unit_cache: UnitCache::default(),
            reader: None,
            inflated: InflatedSections::default(),
            limits,
            failed: None,
        }
    }

    /// The functions at `address`, the innermost first; empty where there are none.
    pub fn find(&mut self, files: &DwarfFiles<'_>, address: u64) -> Vec<InlineLevel> {
        if self.failed.is_some() {
            return Vec::new();
        }
        self.look_up(files, address).unwrap_or_else(|error| {
            *self = Self::new(self.code.clone(), self.limits);
            self.failed = Some(error);
            Vec::new()
        })
    }

    fn look_up(
        &mut self,
        files: &DwarfFiles<'_>,
        address: u64,
    ) -> Result<Vec<InlineLevel>, DwarfError> {
        let mut work = WorkBudget(MAX_WORK);
        let index = match &mut self.index {
            Some(index) => index,
            empty => {
                let main = DwarfFiles {
                    shared: None,
                    ..*files
                };
                let open = || OpenSections::open(&main, &mut self.inflated, self.limits.at_once);
                empty.insert(UnitIndex::read(open, &self.code, &mut work)?)
            }
        };
        let mut found = Vec::new();
        for unit in index.find(address) {
            let reader = match &mut self.reader {
                Some(reader) if !reader.is_full() => reader,
                reader => {
                    // Close the old one first: only one is in memory at a time.
                    *reader = None;
                    let opened = DwarfReader::open(
                        files,
                        &mut self.inflated,
                        self.limits.at_once,
                        &mut work,
                    );
                    reader.insert(opened?)
                }
            };
            reader.begin();
            let look = UnitLookup {
                units: &index.units,
                code: &self.code,
                unit_cache: &mut self.unit_cache,
                reader,
                work: &mut work,
            };
            match look.find(unit, address) {
                Ok(levels) if levels.iter().any(|level| level.name.is_some()) => {
                    found = levels;
                    break;
                }
                Ok(levels) if found.is_empty() => found = levels,
                Err(DwarfError::TooLarge) => return Err(DwarfError::TooLarge),
                Err(_) if reader.is_exhausted() => return Err(DwarfError::TooLarge),
                // A malformed unit does not hide the others.
                Ok(_) | Err(_) => {}
            }
        }
        self.unit_cache.shrink_to(self.limits.kept);
        Ok(found)
    }

    /// Whether the sections were decompressed and the units indexed.
    pub fn is_open(&self) -> bool {
        self.index.is_some()
    }

    /// The error since which it is not used.
    pub fn failed(&self) -> Option<DwarfError> {
        self.failed
    }

    /// Approximate size in bytes.
    pub fn bytes(&self) -> usize {
        let index = self.index.as_ref().map_or(0, UnitIndex::bytes);
        let reader = self.reader.as_ref().map_or(0, DwarfReader::bytes);
        index + self.unit_cache.bytes() + self.inflated.bytes() + reader
    }

    /// Closes the sections; what was read of them stays.
    pub fn close(&mut self) {
        self.reader = None;
    }

    /// Drops what can be read again: open sections and cached units.
    pub fn shrink(&mut self) {
        self.close();
        self.inflated.shrink();
        self.unit_cache.drop_memory();
    }
}

/// Look-up of an address in a unit.
struct UnitLookup<'a> {
    units: &'a UnitOffsets,
    code: &'a Range<u64>,
    unit_cache: &'a mut UnitCache,
    reader: &'a mut DwarfReader,
    work: &'a mut WorkBudget,
}

impl UnitLookup<'_> {
    /// The functions at `address` in a unit, the innermost first.
    fn find(self, unit: usize, address: u64) -> Result<Vec<InlineLevel>, DwarfError> {
        let Self {
            units,
            code,
            unit_cache,
            reader,
            work,
        } = self;
        if unit_cache.unit(unit).is_none() {
            unit_cache.add(
                unit,
                reader.read_unit(units, unit, code, Scope::Outer, work)?,
            );
        }
        let known = unit_cache.unit(unit).ok_or(DwarfError::Malformed)?;
        if known.function(address).is_none() && known.scope() == Scope::Outer {
            unit_cache.add(unit, reader.read_unit(units, unit, code, Scope::All, work)?);
        }
        let known = unit_cache.unit(unit).ok_or(DwarfError::Malformed)?;
        let mut call = known.line(address);
        let Some(function) = known.function(address) else {
            let level = call.map(|_| InlineLevel::new((None, 0), known, call));
            return Ok(level.into_iter().collect());
        };
        let at = EntryRef::new(unit, function);
        if known.inlines(function).is_none() {
            let inlines = reader.read_inlines(units, at, work)?;
            known.add_inlines(function, inlines);
        }
        let inlines = known.inlines(function);
        let inlines = inlines.map_or_else(Vec::new, |inlines| inlines.find(address));
        let mut levels = Vec::with_capacity(inlines.len() + 1);
        for inline in inlines.iter().rev() {
            let at = EntryRef::new(unit, inline.entry());
            let name_and_line = reader.name_and_line(units, at, work)?;
            levels.push(InlineLevel::new(name_and_line, known, call));
            call = Some(inline.call());
        }
        let name_and_line = reader.name_and_line(units, at, work)?;
        levels.push(InlineLevel::new(name_and_line, known, call));
        Ok(levels)
    }
}
