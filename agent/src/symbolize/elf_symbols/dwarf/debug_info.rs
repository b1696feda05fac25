//! The debugging information of a file, read as addresses are looked up.

use std::ops::Range;

use super::{
    budget::{DwarfLimits, MAX_WORK, WorkBudget},
    dwarf_reader::{DwarfReader, EntryRef, NameAndLine},
    error::DwarfError,
    files::DwarfFiles,
    index::{UnitIndex, UnitOffsets},
    sections::OpenSections,
    unit_cache::{CachedUnit, UnitCache},
};

/// A function at an address, and where in it that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineLevel {
    /// The name of its symbol, else that in the source.
    pub name: Option<Vec<u8>>,
    /// Path of the source.
    pub file: Option<Vec<u8>>,
    /// 0 where there is none.
    pub line: u32,
    /// First line of the function, 0 where it is not known.
    pub first_line: u32,
}

impl InlineLevel {
    /// One in `unit`, at the index of a file and the line that `call` gives.
    fn new((name, first_line): NameAndLine, unit: &CachedUnit, call: Option<(u64, u32)>) -> Self {
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
    /// Where the code of the file is.
    code: Range<u64>,
    index: Option<UnitIndex>,
    known: UnitCache,
    session: Option<DwarfReader>,
    bounds: DwarfLimits,
    failed: Option<DwarfError>,
}

impl DwarfInfo {
    pub fn new(code: Range<u64>, bounds: DwarfLimits) -> Self {
        Self {
            code,
            index: None,
            known: UnitCache::default(),
            session: None,
            bounds,
            failed: None,
        }
    }

    /// The functions at `address`, the innermost first; none where nothing is known.
    pub fn find(&mut self, files: &DwarfFiles<'_>, address: u64) -> Vec<InlineLevel> {
        if self.failed.is_some() {
            return Vec::new();
        }
        self.look_up(files, address).unwrap_or_else(|error| {
            self.failed = Some(error);
            self.index = None;
            self.shrink();
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
                let open = || OpenSections::open(&main, self.bounds.at_once);
                empty.insert(UnitIndex::read(open, &self.code, &mut work)?)
            }
        };
        let mut found = Vec::new();
        for unit in index.find(address) {
            let session = match &mut self.session {
                Some(session) if !session.is_full() => session,
                session => {
                    // One after the other, not both at once.
                    *session = None;
                    session.insert(DwarfReader::open(files, self.bounds.at_once, &mut work)?)
                }
            };
            session.begin();
            let look = UnitLookup {
                units: &index.units,
                code: &self.code,
                known: &mut self.known,
                session,
                work: &mut work,
            };
            match look.find(unit, address) {
                Ok(levels) if levels.iter().any(|level| level.name.is_some()) => {
                    found = levels;
                    break;
                }
                Ok(levels) if found.is_empty() => found = levels,
                Err(DwarfError::TooLarge) => return Err(DwarfError::TooLarge),
                Err(_) if session.is_exhausted() => return Err(DwarfError::TooLarge),
                // A unit that makes no sense does not hide the others.
                Ok(_) | Err(_) => {}
            }
        }
        self.known.shrink_to(self.bounds.kept);
        Ok(found)
    }

    /// Why it does not tell anything any more.
    pub fn failed(&self) -> Option<DwarfError> {
        self.failed
    }

    /// Bytes of memory that it takes, about.
    pub fn bytes(&self) -> usize {
        let index = self.index.as_ref().map_or(0, UnitIndex::bytes);
        index + self.known.bytes() + self.session.as_ref().map_or(0, DwarfReader::bytes)
    }

    /// Lets go of what can be read again.
    pub fn shrink(&mut self) {
        self.session = None;
        self.known.shrink_to(0);
    }
}

/// What it takes to look into a unit.
struct UnitLookup<'a> {
    units: &'a UnitOffsets,
    code: &'a Range<u64>,
    known: &'a mut UnitCache,
    session: &'a mut DwarfReader,
    work: &'a mut WorkBudget,
}

impl UnitLookup<'_> {
    /// The functions at `address` in a unit, the innermost first.
    fn find(self, unit: usize, address: u64) -> Result<Vec<InlineLevel>, DwarfError> {
        if self.known.unit(unit).is_none() {
            let read = self
                .session
                .read_unit(self.units, unit, self.code, self.work)?;
            self.known.add(unit, read);
        }
        let known = self.known.unit(unit).ok_or(DwarfError::Malformed)?;
        let mut call = known.line(address);
        let Some(function) = known.function(address) else {
            let level = call.map(|_| InlineLevel::new((None, 0), known, call));
            return Ok(level.into_iter().collect());
        };
        let at = EntryRef::new(unit, function);
        if known.inlines(function).is_none() {
            let inlines = self.session.read_inlines(self.units, at, self.work)?;
            known.add_inlines(function, inlines);
        }
        let inlines = known.inlines(function);
        let inlines = inlines.map_or_else(Vec::new, |inlines| inlines.find(address));
        let mut levels = Vec::with_capacity(inlines.len() + 1);
        for inline in inlines.iter().rev() {
            let at = EntryRef::new(unit, inline.entry);
            let name_and_line = self.session.name_and_line(self.units, at, self.work)?;
            levels.push(InlineLevel::new(name_and_line, known, call));
            call = Some(inline.call);
        }
        let name_and_line = self.session.name_and_line(self.units, at, self.work)?;
        levels.push(InlineLevel::new(name_and_line, known, call));
        Ok(levels)
    }
}
