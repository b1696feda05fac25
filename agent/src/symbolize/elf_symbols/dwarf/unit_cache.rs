//! Cache of the functions and lines of units.
//!
//! Invariant: it is plain data that keeps no section in memory; the least recently used units are
//! evicted first.

use std::{collections::HashMap, ops::Range};

use gimli::{Dwarf, UnitOffset};

use super::{
    budget::WorkBudget,
    error::DwarfError,
    functions::{Inlines, UnitFunctions},
    lines::UnitLines,
    section_reader::SectionReader,
    unit::DwarfUnit,
};

/// Units by their number.
#[derive(Debug, Default)]
pub(super) struct UnitCache {
    units: HashMap<usize, CachedUnit>,
    /// Counts look-ups.
    clock: u64,
}

/// Functions, lines and inlined functions of a unit.
#[derive(Debug)]
pub(super) struct CachedUnit {
    functions: UnitFunctions,
    lines: Option<UnitLines>,
    inlines: HashMap<UnitOffset, Inlines>,
    last_used: u64,
}

impl UnitCache {
    /// A cached unit.
    pub(super) fn unit(&mut self, unit: usize) -> Option<&mut CachedUnit> {
        self.clock += 1;
        let known = self.units.get_mut(&unit)?;
        known.last_used = self.clock;
        Some(known)
    }

    pub(super) fn add(&mut self, unit: usize, known: CachedUnit) {
        self.units.insert(unit, known);
    }

    pub(super) fn bytes(&self) -> usize {
        self.units.values().map(CachedUnit::bytes).sum()
    }

    /// Evicts units until at most `max_bytes` bytes are left.
    pub(super) fn shrink_to(&mut self, max_bytes: usize) {
        let mut bytes = self.bytes();
        while bytes > max_bytes {
            let oldest = self.units.iter().min_by_key(|(_, unit)| unit.last_used);
            let Some(oldest) = oldest.map(|(unit, _)| *unit) else {
                break;
            };
            bytes -= self.units.remove(&oldest).map_or(0, |unit| unit.bytes());
        }
    }
}

impl CachedUnit {
    /// Reads the functions and lines of a unit that are in `code`.
    pub(super) fn read(
        dwarf: &Dwarf<SectionReader>,
        unit: &DwarfUnit,
        code: &Range<u64>,
        work: &mut WorkBudget,
    ) -> Result<Self, DwarfError> {
        let functions = UnitFunctions::read(dwarf, unit, code, work)?;
        let lines = unit
            .lines
            .map(|offset| UnitLines::read(dwarf, unit, offset, code, work));
        let lines = match lines {
            Some(Err(DwarfError::TooLarge)) => return Err(DwarfError::TooLarge),
            // Malformed lines do not hide the functions.
            Some(Err(_)) | None => None,
            Some(Ok(lines)) => Some(lines),
        };
        Ok(Self {
            functions,
            lines,
            inlines: HashMap::new(),
            last_used: 0,
        })
    }

    /// The innermost function that contains `address`.
    pub(super) fn function(&self, address: u64) -> Option<UnitOffset> {
        self.functions.find(address)
    }

    /// The index of the file and the line of `address`.
    pub(super) fn line(&self, address: u64) -> Option<(u64, u32)> {
        self.lines.as_ref()?.find(address)
    }

    /// The path of a file.
    pub(super) fn path(&self, file: u64) -> Option<Vec<u8>> {
        self.lines.as_ref()?.path(file)
    }

    /// The functions inlined into a function, if they were read.
    pub(super) fn inlines(&self, function: UnitOffset) -> Option<&Inlines> {
        self.inlines.get(&function)
    }

    pub(super) fn add_inlines(&mut self, function: UnitOffset, inlines: Inlines) {
        self.inlines.insert(function, inlines);
    }

    fn bytes(&self) -> usize {
        let inlines = self.inlines.values().map(Inlines::bytes).sum::<usize>();
        let lines = self.lines.as_ref().map_or(0, UnitLines::bytes);
        size_of::<Self>() + self.functions.bytes() + lines + inlines
    }
}
