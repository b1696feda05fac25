//! Offsets of members of C structures, from debugging information.
//!
//! Invariants: the bytes are untrusted: no panic, bounded recursion, at most [`MAX_ENTRIES`]
//! entries; only the required sections are read.
//!
//! Not supported: supplementary files of `dwz` (`.gnu_debugaltlink`) and split DWARF, which neither
//! Debian's nor pyenv's interpreters have.

use std::{cell::Cell, collections::HashMap};

use gimli::{
    AttributeValue, DW_AT_bit_offset, DW_AT_bit_size, DW_AT_byte_size, DW_AT_data_bit_offset,
    DW_AT_data_member_location, DW_AT_name, DW_AT_type, DebuggingInformationEntry, Dwarf,
    DwarfSections, EndianSlice, LittleEndian, Reader as _, SectionId, Unit, UnitOffset,
};

use super::error::Error;
use crate::binaries::elf::{self, Elf, Source};

/// Most bytes of all sections together, decompressed; CPython has 40 MB.
const MAX_BYTES: u64 = 256 << 20;

/// Most entries that are read; CPython has 500,000 top-level ones.
const MAX_ENTRIES: u64 = 20_000_000;

/// Deepest nesting of anonymous structures and of type aliases.
const MAX_DEPTH: usize = 8;

/// The sections that are required to read types.
const SECTIONS: [SectionId; 7] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The sections of a file.
pub(super) struct Sections(DwarfSections<Vec<u8>>);

impl Sections {
    /// Reads the required sections.
    pub(super) fn read<S: Source>(elf: &Elf<S>) -> Result<Self, Error> {
        let mut left = MAX_BYTES;
        let sections = DwarfSections::load(|id| {
            if !SECTIONS.contains(&id) {
                return Ok(Vec::new());
            }
            let contents = elf.contents(id.name(), left).map_err(|error| match error {
                elf::Error::TooLarge { bytes, .. } => Error::TooLarge { bytes },
                elf::Error::Compressed { .. } => Error::Compressed,
                _ => Error::Damaged,
            })?;
            left -= contents.len() as u64;
            Ok::<_, Error>(contents)
        })?;
        Ok(Self(sections))
    }

    /// The parsed sections.
    pub(super) fn dwarf(&self) -> Dwarf<Bytes<'_>> {
        self.0
            .borrow(|section| EndianSlice::new(section, LittleEndian))
    }
}

/// A member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Offset in bytes.
    pub(super) offset: u64,
    /// First bit of a bit field, from the start of its innermost structure.
    pub(super) bit: Option<u64>,
}

/// The structures that were found.
pub(super) struct Structures<'a> {
    dwarf: &'a Dwarf<Bytes<'a>>,
    units: Vec<Unit<Bytes<'a>>>,
    /// Size in bytes, index of the unit and offset in the unit, by name.
    found: HashMap<&'static str, (u64, usize, UnitOffset)>,
    left: Cell<u64>,
}

impl<'a> Structures<'a> {
    /// Finds structures by the names of their types; stops when all are found.
    pub(super) fn find(
        dwarf: &'a Dwarf<Bytes<'a>>,
        wanted: &[&'static str],
    ) -> Result<Self, Error> {
        let mut structures = Self {
            dwarf,
            units: Vec::new(),
            found: HashMap::new(),
            left: Cell::new(MAX_ENTRIES),
        };
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            // A malformed unit is skipped.
            if let Ok(unit) = dwarf.unit(header) {
                structures.search(unit, wanted)?;
            }
            if structures.found.len() == wanted.len() {
                break;
            }
        }
        Ok(structures)
    }

    /// Searches the top-level entries of a unit.
    fn search(&mut self, unit: Unit<Bytes<'a>>, wanted: &[&'static str]) -> Result<(), Error> {
        let index = self.units.len();
        let mut is_used = false;
        let mut entries = unit.entries();
        // The first entry is the unit itself, the next one its first child.
        let mut next = match entries.next_dfs() {
            Ok(Some(_)) => entries.next_dfs().ok().flatten().cloned(),
            _ => None,
        };
        while let Some(entry) = next {
            self.count()?;
            if matches!(
                entry.tag(),
                gimli::DW_TAG_typedef | gimli::DW_TAG_structure_type
            ) && let Some(name) = self.name(&unit, &entry)
                && let Some(name) = wanted.iter().find(|it| it.as_bytes() == name)
                && !self.found.contains_key(name)
                && let Some((bytes, offset)) = self.structure(&unit, entry.offset())?
            {
                self.found.insert(name, (bytes, index, offset));
                is_used = true;
            }
            next = entries.next_sibling().ok().flatten().cloned();
        }
        if is_used {
            self.units.push(unit);
        }
        Ok(())
    }

    /// The size of a structure in bytes.
    pub(super) fn bytes(&self, structure: &str) -> Option<u64> {
        self.found.get(structure).map(|(bytes, _, _)| *bytes)
    }

    /// A member of a structure; `path` may name members of nested structures, as `outer.inner`.
    pub(super) fn member(&self, structure: &str, path: &str) -> Result<Option<Member>, Error> {
        let Some(&(_, index, offset)) = self.found.get(structure) else {
            return Ok(None);
        };
        match self.units.get(index) {
            Some(unit) => self.member_of(unit, offset, path, 0),
            None => Ok(None),
        }
    }

    fn member_of(
        &self,
        unit: &Unit<Bytes<'a>>,
        structure: UnitOffset,
        path: &str,
        depth: usize,
    ) -> Result<Option<Member>, Error> {
        if depth == MAX_DEPTH {
            return Ok(None);
        }
        let (first, rest) = match path.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (path, None),
        };
        let mut tree = unit.entries_tree(Some(structure))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            self.count()?;
            let entry = child.entry();
            if entry.tag() != gimli::DW_TAG_member {
                continue;
            }
            let name = self.name(unit, entry);
            // Members of an anonymous member belong to the structure.
            let path = match (name, rest) {
                (None, _) => path,
                (Some(name), _) if name != first.as_bytes() => continue,
                (Some(_), None) => return Ok(read_member(entry)),
                (Some(_), Some(rest)) => rest,
            };
            let Some((_, inner)) = (match type_of(entry) {
                Some(kind) => self.structure(unit, kind)?,
                None => None,
            }) else {
                continue;
            };
            if let Some(member) = self.member_of(unit, inner, path, depth + 1)? {
                return Ok(offset_of(entry).map(|outer| Member {
                    offset: outer.saturating_add(member.offset),
                    ..member
                }));
            }
        }
        Ok(None)
    }

    /// The size and the offset of the structure that the type at `offset` resolves to, if it is a
    /// structure and not only declared.
    fn structure(
        &self,
        unit: &Unit<Bytes<'a>>,
        mut offset: UnitOffset,
    ) -> Result<Option<(u64, UnitOffset)>, Error> {
        for _ in 0..MAX_DEPTH {
            self.count()?;
            let Ok(entry) = unit.entry(offset) else {
                return Ok(None);
            };
            match entry.tag() {
                gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
                    let bytes = number(&entry, DW_AT_byte_size);
                    return Ok(bytes.map(|bytes| (bytes, offset)));
                }
                gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type => {
                    let Some(kind) = type_of(&entry) else {
                        return Ok(None);
                    };
                    offset = kind;
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    fn name(
        &self,
        unit: &Unit<Bytes<'a>>,
        entry: &DebuggingInformationEntry<Bytes<'a>>,
    ) -> Option<&'a [u8]> {
        let value = entry.attr_value(DW_AT_name)?;
        let name = self.dwarf.attr_string(unit, value).ok()?;
        Some(name.slice())
    }

    /// Counts an entry against the limit.
    fn count(&self) -> Result<(), Error> {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        if left == 0 {
            return Err(Error::TooMany);
        }
        Ok(())
    }
}

fn read_member(entry: &DebuggingInformationEntry<Bytes>) -> Option<Member> {
    let offset = offset_of(entry)?;
    let bit = number(entry, DW_AT_bit_size).and_then(|bits| {
        number(entry, DW_AT_data_bit_offset).or_else(|| {
            // Up to DWARF 3 the offset counts from the most significant bit of the storage unit.
            let bytes = number(entry, DW_AT_byte_size)?;
            let from_highest = number(entry, DW_AT_bit_offset)?;
            bytes
                .checked_mul(8)?
                .checked_sub(from_highest)?
                .checked_sub(bits)
        })
    });
    Some(Member { offset, bit })
}

/// The offset of a member in bytes; [`None`] when it is an expression other than a constant.
fn offset_of(entry: &DebuggingInformationEntry<Bytes>) -> Option<u64> {
    match entry.attr_value(DW_AT_data_member_location) {
        // Absent for members of unions, and for bit fields since DWARF 4.
        None => Some(0),
        // DWARF 2 has an expression that adds a constant.
        Some(AttributeValue::Exprloc(expression)) => {
            let mut expression = expression.0;
            let operation = expression.read_u8().ok()?;
            let offset = expression.read_uleb128().ok()?;
            (operation == gimli::DW_OP_plus_uconst.0 && expression.is_empty()).then_some(offset)
        }
        Some(value) => value.udata_value(),
    }
}

fn number(entry: &DebuggingInformationEntry<Bytes>, name: gimli::DwAt) -> Option<u64> {
    entry.attr_value(name)?.udata_value()
}

fn type_of(entry: &DebuggingInformationEntry<Bytes>) -> Option<UnitOffset> {
    match entry.attr_value(DW_AT_type)? {
        AttributeValue::UnitRef(offset) => Some(offset),
        _ => None,
    }
}
