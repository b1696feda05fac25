//! Reads units and entries of debugging information from open sections.
//!
//! Entries referenced to each other across units, and across files where several share a supplementary one
//! (`dwz`): a reader has a [`DwarfFile`] for each of the two.

use std::{collections::HashMap, ops::Range, sync::Arc};

use gimli::{AttributeValue, DebugInfoOffset, Dwarf, UnitOffset, constants as dw};

use super::{
    budget::{MAX_READ, WorkBudget},
    error::DwarfError,
    files::DwarfFiles,
    functions::{Inlines, Scope},
    index::UnitOffsets,
    inflated::InflatedSections,
    meter::Meter,
    scopes,
    section_reader::SectionReader,
    sections::OpenSections,
    unit::DwarfUnit,
    unit_cache::CachedUnit,
};

/// Most references that are followed for one name.
const MAX_REFERENCES: usize = 16;

/// Most bytes of a name.
const MAX_NAME: usize = 16 << 10;

/// Bytes of pages and units after which a reader is replaced by a new one.
const MAX_RESIDENT: usize = 4 << 20;

/// Approximate bytes of a unit: its abbreviations.
const UNIT_BYTES: usize = 64 << 10;

/// Open sections, and what was read of them.
pub(super) struct DwarfReader {
    meter: Arc<Meter>,
    main: DwarfFile,
    /// The supplementary file and its units.
    shared: Option<(DwarfFile, UnitOffsets)>,
    names: HashMap<EntryRef, NameAndLine>,
    /// Bytes in memory besides sections.
    bytes: usize,
    /// Bytes in memory after opening: decompressed sections.
    bytes_after_open: usize,
}

/// The name of a function, and its first line or 0.
pub(super) type NameAndLine = (Option<Vec<u8>>, u32);

/// An open file and its parsed units.
struct DwarfFile {
    dwarf: Dwarf<SectionReader>,
    units: HashMap<usize, DwarfUnit>,
}

/// Position of an entry (DIE).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct EntryRef {
    is_shared: bool,
    unit: usize,
    entry: UnitOffset,
}

impl EntryRef {
    /// An entry of the main file.
    pub(super) fn new(unit: usize, entry: UnitOffset) -> Self {
        Self {
            is_shared: false,
            unit,
            entry,
        }
    }
}

impl DwarfReader {
    pub(super) fn open(
        files: &DwarfFiles<'_>,
        inflated: &mut InflatedSections,
        max_resident: usize,
        work: &mut WorkBudget,
    ) -> Result<Self, DwarfError> {
        let opened = OpenSections::open(files, inflated, max_resident)?;
        let with_units = |dwarf: Dwarf<SectionReader>| {
            let units = UnitOffsets::read(&dwarf, work)?;
            Ok::<_, DwarfError>((DwarfFile::new(dwarf), units))
        };
        Ok(Self {
            shared: opened.shared.map(with_units).transpose()?,
            main: DwarfFile::new(opened.dwarf),
            meter: opened.meter,
            bytes_after_open: opened.bytes_after_open,
            names: HashMap::new(),
            bytes: 0,
        })
    }

    /// Starts a look-up: resets the bytes that may be read.
    pub(super) fn begin(&self) {
        self.meter.allow(MAX_READ);
    }

    /// Whether a look-up has used up the bytes that may be read.
    pub(super) fn is_exhausted(&self) -> bool {
        self.meter.is_exhausted()
    }

    /// Approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.meter.resident() + self.bytes
    }

    /// Whether so much was read that a new reader takes less memory.
    pub(super) fn is_full(&self) -> bool {
        self.bytes() - self.bytes_after_open > MAX_RESIDENT
    }

    /// Reads the functions and lines of a unit that are in `code`.
    pub(super) fn read_unit(
        &mut self,
        units: &UnitOffsets,
        unit: usize,
        code: &Range<u64>,
        scope: Scope,
        work: &mut WorkBudget,
    ) -> Result<CachedUnit, DwarfError> {
        let at = EntryRef::new(unit, UnitOffset(0));
        let (dwarf, unit) = self.unit(units, at)?;
        CachedUnit::read(dwarf, unit, code, scope, work)
    }

    /// Reads the functions that are inlined into a function.
    pub(super) fn read_inlines(
        &mut self,
        units: &UnitOffsets,
        function: EntryRef,
        work: &mut WorkBudget,
    ) -> Result<Inlines, DwarfError> {
        let (dwarf, unit) = self.unit(units, function)?;
        Inlines::read(dwarf, unit, function.entry, work)
    }

    /// The name and the first line of a function, of the entry or of the entries that it refers to.
    pub(super) fn name_and_line(
        &mut self,
        units: &UnitOffsets,
        at: EntryRef,
        work: &mut WorkBudget,
    ) -> Result<NameAndLine, DwarfError> {
        let mut at = at;
        let mut visited = Vec::new();
        let name_and_line = loop {
            if let Some(known) = self.names.get(&at) {
                break known.clone();
            }
            visited.push(at);
            match self.original(units, at, work)? {
                Some(original) if visited.len() < MAX_REFERENCES => at = original,
                _ => break self.read_name_and_line(units, at, work)?,
            }
        };
        for at in visited {
            let name_bytes = name_and_line.0.as_ref().map_or(0, Vec::len);
            self.bytes += size_of::<(EntryRef, NameAndLine)>() + name_bytes;
            self.names.insert(at, name_and_line.clone());
        }
        Ok(name_and_line)
    }

    /// The abstract origin of an inlined function; [`None`] for any other entry.
    fn original(
        &mut self,
        units: &UnitOffsets,
        at: EntryRef,
        work: &mut WorkBudget,
    ) -> Result<Option<EntryRef>, DwarfError> {
        let (_, unit) = self.unit(units, at)?;
        let mut entries = unit.inner.entries_raw(Some(at.entry))?;
        let Some(abbreviation) = entries.read_abbreviation()? else {
            return Ok(None);
        };
        if abbreviation.tag() != dw::DW_TAG_inlined_subroutine {
            return Ok(None);
        }
        work.spend(1 + abbreviation.attributes().len())?;
        let mut origin = None;
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            if attribute.name() == dw::DW_AT_abstract_origin {
                origin = Some(attribute.value());
            }
        }
        origin
            .map(|origin| self.referenced(units, at, &origin))
            .transpose()
    }

    fn read_name_and_line(
        &mut self,
        units: &UnitOffsets,
        at: EntryRef,
        work: &mut WorkBudget,
    ) -> Result<NameAndLine, DwarfError> {
        let mut at = at;
        // The name in the source, and its entry.
        let mut plain: Option<(Vec<u8>, EntryRef)> = None;
        let mut line = 0;
        for _ in 0..MAX_REFERENCES {
            let (dwarf, unit) = self.unit(units, at)?;
            let mut entries = unit.inner.entries_raw(Some(at.entry))?;
            let Some(abbreviation) = entries.read_abbreviation()? else {
                break;
            };
            work.spend(1 + abbreviation.attributes().len())?;
            let mut linkage = None;
            let mut origin = None;
            for specification in abbreviation.attributes() {
                let attribute = entries.read_attribute(*specification)?;
                let value = attribute.value();
                let text = |value| dwarf.attr_string(&unit.inner, value)?.take(MAX_NAME);
                match attribute.name() {
                    dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => {
                        linkage = text(value).ok();
                    }
                    dw::DW_AT_name if plain.is_none() => {
                        plain = text(value).ok().map(|name| (name, at));
                    }
                    dw::DW_AT_decl_line if line == 0 => {
                        let number = value.udata_value().unwrap_or(0);
                        line = u32::try_from(number).unwrap_or(0);
                    }
                    dw::DW_AT_abstract_origin | dw::DW_AT_specification => origin = Some(value),
                    _ => {}
                }
            }
            if linkage.is_some() {
                return Ok((linkage, line));
            }
            match origin {
                Some(origin) => at = self.referenced(units, at, &origin)?,
                None => break,
            }
        }
        let Some((name, at)) = plain else {
            return Ok((None, line));
        };
        let (dwarf, unit) = self.unit(units, at)?;
        let name = if unit.is_cpp {
            scopes::qualify(dwarf, unit, at.entry, &name, work)?
        } else {
            name
        };
        Ok((Some(name), line))
    }

    /// The entry that an attribute of the entry `at` refers to.
    fn referenced(
        &mut self,
        units: &UnitOffsets,
        at: EntryRef,
        value: &AttributeValue<SectionReader>,
    ) -> Result<EntryRef, DwarfError> {
        let (is_shared, offset) = match *value {
            AttributeValue::UnitRef(entry) => return Ok(EntryRef { entry, ..at }),
            AttributeValue::DebugInfoRef(offset) => (at.is_shared, offset),
            AttributeValue::DebugInfoRefSup(offset) => (true, offset),
            _ => return Err(DwarfError::Malformed),
        };
        let of = match &self.shared {
            Some((_, shared)) if is_shared => shared,
            None if is_shared => return Err(DwarfError::Malformed),
            _ => units,
        };
        let mut at = EntryRef {
            is_shared,
            unit: of.containing(offset.0).ok_or(DwarfError::Malformed)?,
            entry: UnitOffset(0),
        };
        let (_, unit) = self.unit(units, at)?;
        at.entry = offset
            .to_unit_offset(&unit.inner.header)
            .ok_or(DwarfError::Malformed)?;
        Ok(at)
    }

    /// The unit of an entry, parsed.
    fn unit(
        &mut self,
        units: &UnitOffsets,
        at: EntryRef,
    ) -> Result<(&Dwarf<SectionReader>, &DwarfUnit), DwarfError> {
        let (file, units) = match &mut self.shared {
            Some((file, units)) if at.is_shared => (file, &*units),
            None if at.is_shared => return Err(DwarfError::Malformed),
            _ => (&mut self.main, units),
        };
        self.bytes += file.read(units, at.unit)?;
        let unit = file.units.get(&at.unit).ok_or(DwarfError::Malformed)?;
        Ok((&file.dwarf, unit))
    }
}

impl DwarfFile {
    fn new(dwarf: Dwarf<SectionReader>) -> Self {
        Self {
            dwarf,
            units: HashMap::new(),
        }
    }

    /// Parses a unit if that was not done yet; returns the bytes that it takes.
    fn read(&mut self, units: &UnitOffsets, unit: usize) -> Result<usize, DwarfError> {
        if self.units.contains_key(&unit) {
            return Ok(0);
        }
        let offset = DebugInfoOffset(units.offset(unit).ok_or(DwarfError::Malformed)?);
        let header = self.dwarf.debug_info.header_from_offset(offset)?;
        self.units
            .insert(unit, DwarfUnit::read(&self.dwarf, header)?);
        Ok(UNIT_BYTES)
    }
}
