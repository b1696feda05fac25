//! Cache of the functions and lines of units.
//!
//! Invariants: it is plain data that keeps no section in memory; the least recently used units are
//! moved to a temporary file first, where reading one takes a hundredth of what reading its debugging
//! information takes. Functions inlined into a function are dropped: they are read by themselves.

use std::{collections::HashMap, ops::Range};

use gimli::{Dwarf, UnitOffset};

use super::{
    budget::WorkBudget,
    error::DwarfError,
    functions::{Inlines, Scope, UnitFunctions},
    lines::UnitLines,
    section_reader::SectionReader,
    spool::LazySpool,
    stored_unit::StoredUnit,
    unit::DwarfUnit,
};

/// Units by their number.
#[derive(Debug, Default)]
pub(super) struct UnitCache {
    in_memory: HashMap<usize, CachedUnit>,
    in_file: HashMap<usize, StoredUnit>,
    spool: LazySpool,
    /// Counts look-ups.
    clock: u64,
}

/// Functions, lines and inlined functions of a unit.
#[derive(Debug)]
pub(super) struct CachedUnit {
    functions: UnitFunctions,
    lines: UnitLines,
    inlines: HashMap<UnitOffset, Inlines>,
    last_used: u64,
}

impl UnitCache {
    /// A cached unit.
    pub(super) fn unit(&mut self, unit: usize) -> Option<&mut CachedUnit> {
        if !self.in_memory.contains_key(&unit) {
            let stored = self.in_file.get(&unit)?;
            let (functions, lines) = stored.read(self.spool.get()?)?;
            self.in_memory
                .insert(unit, CachedUnit::new(functions, lines));
        }
        self.clock += 1;
        let known = self.in_memory.get_mut(&unit)?;
        known.last_used = self.clock;
        Some(known)
    }

    /// Adds a unit, or replaces it.
    pub(super) fn add(&mut self, unit: usize, known: CachedUnit) {
        self.in_file.remove(&unit);
        self.in_memory.insert(unit, known);
    }

    pub(super) fn bytes(&self) -> usize {
        let in_file = self.in_file.capacity() * size_of::<(usize, StoredUnit)>();
        let in_memory = self.in_memory.values().map(CachedUnit::bytes);
        in_file + in_memory.sum::<usize>()
    }

    /// Moves units to the file until at most `max_bytes` bytes are in memory; the unit that was used
    /// last stays. Where there is no room in the file, they are dropped.
    pub(super) fn shrink_to(&mut self, max_bytes: usize) {
        let mut bytes = self.bytes();
        while bytes > max_bytes && self.in_memory.len() > 1 {
            let oldest = self.in_memory.iter().min_by_key(|(_, unit)| unit.last_used);
            let Some((number, unit)) = oldest
                .map(|(number, _)| *number)
                .and_then(|number| self.in_memory.remove_entry(&number))
            else {
                break;
            };
            bytes = bytes.saturating_sub(unit.bytes());
            if !self.in_file.contains_key(&number)
                && let Some(spool) = self.spool.get()
                && let Some(stored) = StoredUnit::write(spool, &unit.functions, &unit.lines)
            {
                self.in_file.insert(number, stored);
            }
        }
    }

    /// Drops the units in memory.
    pub(super) fn drop_memory(&mut self) {
        self.in_memory = HashMap::new();
    }
}

impl CachedUnit {
    fn new(functions: UnitFunctions, lines: UnitLines) -> Self {
        Self {
            functions,
            lines,
            inlines: HashMap::new(),
            last_used: 0,
        }
    }

    /// Reads the functions and lines of a unit that are in `code`.
    pub(super) fn read(
        dwarf: &Dwarf<SectionReader>,
        unit: &DwarfUnit,
        code: &Range<u64>,
        scope: Scope,
        work: &mut WorkBudget,
    ) -> Result<Self, DwarfError> {
        let functions = UnitFunctions::read(dwarf, unit, code, scope, work)?;
        let lines = unit
            .lines
            .map(|offset| UnitLines::read(dwarf, unit, offset, code, work));
        let lines = match lines {
            Some(Err(DwarfError::TooLarge)) => return Err(DwarfError::TooLarge),
            // Malformed lines do not hide the functions.
            Some(Err(_)) | None => UnitLines::default(),
            Some(Ok(lines)) => lines,
        };
        Ok(Self::new(functions, lines))
    }

    /// The innermost function that contains `address`, of those that were read.
    pub(super) fn function(&self, address: u64) -> Option<UnitOffset> {
        self.functions.find(address)
    }

    /// Which functions were read.
    pub(super) fn scope(&self) -> Scope {
        self.functions.scope
    }

    /// The index of the file and the line of `address`.
    pub(super) fn line(&self, address: u64) -> Option<(u32, u32)> {
        self.lines.find(address)
    }

    /// The path of a file.
    pub(super) fn path(&self, file: u32) -> Option<Vec<u8>> {
        self.lines.path(file)
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
        size_of::<Self>() + self.functions.bytes() + self.lines.bytes() + inlines
    }
}
