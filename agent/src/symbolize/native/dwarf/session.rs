//! What was read of a file's debugging information, kept as long as it is of use.
//!
//! Entries refer to each other across units, and across files where several share a second one
//! (`dwz`): both files are [`Part`]s of a session.

use std::{collections::HashMap, ops::Range, sync::Arc};

use gimli::{AttributeValue, DebugInfoOffset, Dwarf, UnitOffset, constants as dw};

use super::{
    Error, Files, Level, MAX_READ, MAX_RESIDENT, Work,
    bytes::{Bytes, Meter},
    functions::{Functions, Inlines},
    index::{Index, Units},
    lines::Lines,
    scopes, sections,
    unit::Unit,
};

/// Most entries that are looked at for one name.
const MAX_REFERENCES: usize = 16;

/// Most bytes of a name.
const MAX_NAME: usize = 16 << 10;

/// Bytes that a unit takes besides what is counted, about.
const UNIT_BYTES: usize = 64 << 10;

/// What was read.
pub(super) struct Session {
    meter: Arc<Meter>,
    main: Part,
    /// What several files share, and its units.
    shared: Option<(Part, Units)>,
    functions: HashMap<usize, Functions>,
    lines: HashMap<usize, Option<Lines>>,
    inlines: HashMap<(usize, UnitOffset), Inlines>,
    /// What is known of functions by where they are.
    descriptions: HashMap<At, Description>,
    bytes: usize,
}

/// The name of a function, and its first line or 0.
type Description = (Option<Vec<u8>>, u32);

/// A file.
struct Part {
    dwarf: Dwarf<Bytes>,
    units: HashMap<usize, Unit>,
}

/// Where an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct At {
    is_shared: bool,
    unit: usize,
    entry: UnitOffset,
}

impl Session {
    pub(super) fn open(files: &Files<'_>, work: &mut Work) -> Result<Self, Error> {
        let meter = Arc::new(Meter::new(MAX_RESIDENT));
        meter.allow(MAX_READ);
        let mut main = Part::new(sections::open(files.main, &meter)?);
        let mut shared = None;
        if let Some(file) = files.shared {
            main.dwarf.set_sup(sections::open(file, &meter)?);
            // Opened twice, as what refers to a file owns it.
            let part = Part::new(sections::open(file, &meter)?);
            let units = Units::read(&part.dwarf, work)?;
            shared = Some((part, units));
        }
        Ok(Self {
            meter,
            main,
            shared,
            functions: HashMap::new(),
            lines: HashMap::new(),
            inlines: HashMap::new(),
            descriptions: HashMap::new(),
            bytes: 0,
        })
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.meter.resident() + self.bytes
    }

    /// The functions at `address`, the innermost first; none where nothing is known.
    pub(super) fn find(
        &mut self,
        index: &Index,
        code: &Range<u64>,
        address: u64,
        work: &mut Work,
    ) -> Result<Vec<Level>, Error> {
        self.meter.allow(MAX_READ);
        let mut found = Vec::new();
        for unit in index.find(address) {
            match self.find_in(index, code, unit, address, work) {
                Ok(levels) if levels.iter().any(|level| level.name.is_some()) => return Ok(levels),
                Ok(levels) if found.is_empty() => found = levels,
                Err(Error::TooLarge) => return Err(Error::TooLarge),
                Err(_) if self.meter.is_exhausted() => return Err(Error::TooLarge),
                // A unit that makes no sense does not hide the others.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(found)
    }

    fn find_in(
        &mut self,
        index: &Index,
        code: &Range<u64>,
        unit: usize,
        address: u64,
        work: &mut Work,
    ) -> Result<Vec<Level>, Error> {
        self.read_unit(index, code, unit, work)?;
        let lines = self.lines.get(&unit).and_then(Option::as_ref);
        let mut call = lines.and_then(|lines| lines.find(address));
        let functions = self.functions.get(&unit);
        let Some(function) = functions.and_then(|functions| functions.find(address)) else {
            let level = call.map(|call| self.level(unit, (None, 0), Some(call)));
            return Ok(level.into_iter().collect());
        };
        let inlines = self.inlines(unit, function, address, work)?;
        let mut levels = Vec::with_capacity(inlines.len() + 1);
        let mut at = At {
            is_shared: false,
            unit,
            entry: function,
        };
        for inline in inlines.iter().rev() {
            at.entry = inline.entry;
            let described = self.describe(&index.units, at, work)?;
            levels.push(self.level(unit, described, call));
            call = Some(inline.call);
        }
        at.entry = function;
        let described = self.describe(&index.units, at, work)?;
        levels.push(self.level(unit, described, call));
        Ok(levels)
    }

    fn level(
        &self,
        unit: usize,
        (name, first_line): Description,
        call: Option<(u64, u32)>,
    ) -> Level {
        let lines = self.lines.get(&unit).and_then(Option::as_ref);
        let file = lines
            .zip(self.main.units.get(&unit))
            .zip(call)
            .and_then(|((lines, unit), (file, _))| lines.path(&self.main.dwarf, unit, file));
        Level {
            name,
            file,
            line: call.map_or(0, |(_, line)| line),
            first_line,
        }
    }

    /// Reads the functions and lines of a unit, if that was not done yet.
    fn read_unit(
        &mut self,
        index: &Index,
        code: &Range<u64>,
        unit: usize,
        work: &mut Work,
    ) -> Result<(), Error> {
        if self.functions.contains_key(&unit) {
            return Ok(());
        }
        self.bytes += self.main.read(&index.units, unit)?;
        let Some(read) = self.main.units.get(&unit) else {
            return Err(Error::Malformed);
        };
        let functions = Functions::read(&self.main.dwarf, read, code, work)?;
        let lines = read
            .lines
            .map(|offset| Lines::read(&self.main.dwarf, read, offset, code, work));
        let lines = match lines {
            Some(Err(Error::TooLarge)) => return Err(Error::TooLarge),
            // Functions without lines are better than nothing.
            Some(Err(_)) | None => None,
            Some(Ok(lines)) => Some(lines),
        };
        self.bytes += functions.bytes() + lines.as_ref().map_or(0, Lines::bytes);
        self.functions.insert(unit, functions);
        self.lines.insert(unit, lines);
        Ok(())
    }

    /// What was inlined into a function at `address`, the outermost first.
    fn inlines(
        &mut self,
        unit: usize,
        function: UnitOffset,
        address: u64,
        work: &mut Work,
    ) -> Result<Vec<super::functions::Inline>, Error> {
        let key = (unit, function);
        if !self.inlines.contains_key(&key)
            && let Some(read) = self.main.units.get(&unit)
        {
            let inlines = Inlines::read(&self.main.dwarf, read, function, work)?;
            self.bytes += inlines.bytes();
            self.inlines.insert(key, inlines);
        }
        let inlines = self.inlines.get(&key);
        Ok(inlines.map_or_else(Vec::new, |inlines| inlines.find(address)))
    }

    /// The name of a function and its first line, which may be those of what the entry refers to.
    fn describe(&mut self, units: &Units, at: At, work: &mut Work) -> Result<Description, Error> {
        let mut at = at;
        let mut visited = Vec::new();
        let description = loop {
            if let Some(known) = self.descriptions.get(&at) {
                break known.clone();
            }
            visited.push(at);
            match self.only_refers(units, at, work)? {
                Some(origin) if visited.len() < MAX_REFERENCES => at = origin,
                _ => break self.read_description(units, at, work)?,
            }
        };
        for at in visited {
            let name_bytes = description.0.as_ref().map_or(0, Vec::len);
            self.bytes += size_of::<(At, Description)>() + name_bytes;
            self.descriptions.insert(at, description.clone());
        }
        Ok(description)
    }

    /// Where the entry leads of which a copy was inlined.
    fn only_refers(&mut self, units: &Units, at: At, work: &mut Work) -> Result<Option<At>, Error> {
        let (_, unit) = self.unit(units, at)?;
        let mut entries = unit.inner.entries_raw(Some(at.entry))?;
        let Some(shape) = entries.read_abbreviation()? else {
            return Ok(None);
        };
        if shape.tag() != dw::DW_TAG_inlined_subroutine {
            return Ok(None);
        }
        work.spend(1 + shape.attributes().len())?;
        let mut origin = None;
        for specification in shape.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            if attribute.name() == dw::DW_AT_abstract_origin {
                origin = Some(attribute.value());
            }
        }
        origin
            .map(|origin| self.refer(units, at, &origin))
            .transpose()
    }

    fn read_description(
        &mut self,
        units: &Units,
        at: At,
        work: &mut Work,
    ) -> Result<Description, Error> {
        let mut at = at;
        // The name in the source, and where it is.
        let mut plain: Option<(Vec<u8>, At)> = None;
        let mut line = 0;
        for _ in 0..MAX_REFERENCES {
            let (dwarf, unit) = self.unit(units, at)?;
            let mut entries = unit.inner.entries_raw(Some(at.entry))?;
            let Some(shape) = entries.read_abbreviation()? else {
                break;
            };
            work.spend(1 + shape.attributes().len())?;
            let mut linkage = None;
            let mut origin = None;
            for specification in shape.attributes() {
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
                Some(origin) => at = self.refer(units, at, &origin)?,
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

    /// Where a reference in the unit of `at` leads.
    fn refer(&mut self, units: &Units, at: At, value: &AttributeValue<Bytes>) -> Result<At, Error> {
        let (is_shared, offset) = match *value {
            AttributeValue::UnitRef(entry) => return Ok(At { entry, ..at }),
            AttributeValue::DebugInfoRef(offset) => (at.is_shared, offset),
            AttributeValue::DebugInfoRefSup(offset) => (true, offset),
            _ => return Err(Error::Malformed),
        };
        let of = match &self.shared {
            Some((_, shared)) if is_shared => shared,
            None if is_shared => return Err(Error::Malformed),
            _ => units,
        };
        let mut at = At {
            is_shared,
            unit: of.containing(offset.0).ok_or(Error::Malformed)?,
            entry: UnitOffset(0),
        };
        let (_, unit) = self.unit(units, at)?;
        at.entry = offset
            .to_unit_offset(&unit.inner.header)
            .ok_or(Error::Malformed)?;
        Ok(at)
    }

    /// The unit of `at`.
    fn unit(&mut self, units: &Units, at: At) -> Result<(&Dwarf<Bytes>, &Unit), Error> {
        let (part, units) = match &mut self.shared {
            Some((part, units)) if at.is_shared => (part, &*units),
            None if at.is_shared => return Err(Error::Malformed),
            _ => (&mut self.main, units),
        };
        self.bytes += part.read(units, at.unit)?;
        let unit = part.units.get(&at.unit).ok_or(Error::Malformed)?;
        Ok((&part.dwarf, unit))
    }
}

impl Part {
    fn new(dwarf: Dwarf<Bytes>) -> Self {
        Self {
            dwarf,
            units: HashMap::new(),
        }
    }

    /// Reads a unit, if that was not done yet; gives the bytes that it takes.
    fn read(&mut self, units: &Units, unit: usize) -> Result<usize, Error> {
        if self.units.contains_key(&unit) {
            return Ok(0);
        }
        let offset = DebugInfoOffset(units.offset(unit).ok_or(Error::Malformed)?);
        let header = self.dwarf.debug_info.header_from_offset(offset)?;
        self.units.insert(unit, Unit::read(&self.dwarf, header)?);
        Ok(UNIT_BYTES)
    }
}
