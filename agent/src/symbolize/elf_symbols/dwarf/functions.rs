//! The functions of a unit, and the functions inlined into one of them.

use std::{cmp::Reverse, slice};

use gimli::{Abbreviation, AttributeValue, DwAt, Dwarf, Range, UnitOffset, constants as dw};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{
    budget::WorkBudget,
    error::DwarfError,
    section_reader::SectionReader,
    unit::{AddressAttributes, DwarfUnit},
};

/// Most levels of inlining.
const MAX_DEPTH: usize = 128;

/// Most functions before an address that are searched for one that contains it.
const MAX_ENCLOSING: usize = 32;

/// The functions of a unit.
#[derive(Debug)]
pub(super) struct UnitFunctions {
    /// Which functions they are.
    pub(super) scope: Scope,
    /// By address.
    pub(super) functions: Vec<Function>,
}

/// An address range of a function.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Function {
    begin: u64,
    bytes: u32,
    /// Offset of its entry in the unit.
    entry: u32,
}

/// Which functions of a unit are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All but those that had to be searched in other functions and in types, because the entry behind
    /// these is known without reading them (`DW_AT_sibling`, which GCC writes). Most entries are in
    /// them, and hardly ever a function that is not inlined.
    Outer,
    /// All.
    All,
}

impl UnitFunctions {
    /// Reads the functions of a unit that are in `code`.
    pub(super) fn read(
        dwarf: &Dwarf<SectionReader>,
        unit: &DwarfUnit,
        code: &std::ops::Range<u64>,
        scope: Scope,
        work: &mut WorkBudget,
    ) -> Result<Self, DwarfError> {
        let mut functions = Vec::new();
        // Whether none had to be searched.
        let mut is_all = true;
        let mut entries = unit.inner.entries_raw(None)?;
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else {
                work.spend(1)?;
                continue;
            };
            work.spend(1 + abbreviation.attributes().len())?;
            let is_function = abbreviation.tag() == dw::DW_TAG_subprogram;
            let is_skipped = scope == Scope::Outer && encloses_no_function(abbreviation);
            if !is_function && !is_skipped {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut addresses = AddressAttributes::default();
            let mut sibling = None;
            for specification in abbreviation.attributes() {
                if !is_used(specification.name()) {
                    entries.skip_attributes(slice::from_ref(specification))?;
                    continue;
                }
                let attribute = entries.read_attribute(*specification)?;
                match (attribute.name(), attribute.value()) {
                    (dw::DW_AT_sibling, AttributeValue::UnitRef(next)) => sibling = Some(next),
                    _ => {
                        addresses.take(&attribute);
                    }
                }
            }
            if is_function && let Ok(entry) = u32::try_from(offset.0) {
                addresses.ranges(dwarf, &unit.inner, work, |Range { begin, end }| {
                    // Linkers addresses discarded functions at address 0.
                    if code.contains(&begin) {
                        let bytes = u32::try_from(end.saturating_sub(begin)).unwrap_or(u32::MAX);
                        functions.push(Function {
                            begin,
                            bytes,
                            entry,
                        });
                    }
                })?;
            }
            if is_skipped
                && let Some(sibling) = sibling.filter(|next| *next > entries.next_offset())
                && let Ok(behind) = unit.inner.entries_raw(Some(sibling))
            {
                entries = behind;
                is_all = false;
            }
        }
        // Of several at an address the largest first.
        functions.sort_unstable_by_key(|it| (it.begin, Reverse(it.bytes), it.entry));
        functions.shrink_to_fit();
        let scope = if is_all { Scope::All } else { scope };
        Ok(Self { scope, functions })
    }

    /// The innermost function that contains `address`.
    pub(super) fn find(&self, address: u64) -> Option<UnitOffset> {
        let after = self.functions.partition_point(|it| it.begin <= address);
        let mut before = self.functions[..after].iter().rev().take(MAX_ENCLOSING);
        before
            .find(|it| address - it.begin < it.bytes.into())
            .map(|it| UnitOffset(it.entry as usize))
    }

    pub(super) fn bytes(&self) -> usize {
        self.functions.capacity() * size_of::<Function>()
    }
}

/// Whether an attribute is read; skipping costs less.
fn is_used(name: DwAt) -> bool {
    matches!(
        name,
        dw::DW_AT_low_pc
            | dw::DW_AT_high_pc
            | dw::DW_AT_ranges
            | dw::DW_AT_sibling
            | dw::DW_AT_call_file
            | dw::DW_AT_call_line
    )
}

/// Whether the entries below an entry are skipped if possible: not those of scopes, in which the
/// functions of a unit are.
fn encloses_no_function(abbreviation: &Abbreviation) -> bool {
    let is_scope = matches!(
        abbreviation.tag(),
        dw::DW_TAG_compile_unit
            | dw::DW_TAG_partial_unit
            | dw::DW_TAG_namespace
            | dw::DW_TAG_module
    );
    let attributes = abbreviation.attributes();
    abbreviation.has_children()
        && !is_scope
        && attributes.iter().any(|it| it.name() == dw::DW_AT_sibling)
}

/// The functions inlined into a function.
#[derive(Debug)]
pub(super) struct Inlines(Vec<Inline>);

/// An address range of an inlined function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inline {
    begin: u64,
    bytes: u32,
    /// Level of inlining, 0 for one inlined into the function itself.
    depth: u8,
    /// Offset of its entry in the unit.
    entry: u32,
    /// Call site: index of a file, and line.
    file: u32,
    line: u32,
}

impl Inlines {
    /// Reads the functions inlined into the function at `entry`.
    pub(super) fn read(
        dwarf: &Dwarf<SectionReader>,
        unit: &DwarfUnit,
        entry: UnitOffset,
        work: &mut WorkBudget,
    ) -> Result<Self, DwarfError> {
        let mut inlines = Vec::new();
        let mut entries = unit.inner.entries_raw(Some(entry))?;
        // Depths in the tree of the inlined functions around the current entry.
        let mut enclosing = Vec::new();
        // Depth of a nested function, whose own inlined functions do not count.
        let mut nested = None;
        loop {
            let entry = entries.next_offset();
            let level = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else {
                work.spend(1)?;
                if entries.next_depth() <= 0 {
                    break;
                }
                continue;
            };
            work.spend(1 + abbreviation.attributes().len())?;
            if nested.is_some_and(|nested| level <= nested) {
                nested = None;
            }
            while enclosing.last().is_some_and(|last| level <= *last) {
                enclosing.pop();
            }
            let is_inline = abbreviation.tag() == dw::DW_TAG_inlined_subroutine;
            if is_inline && nested.is_none() && enclosing.len() < MAX_DEPTH {
                let mut addresses = AddressAttributes::default();
                let mut call = (0, 0);
                let depth = u8::try_from(enclosing.len()).unwrap_or(u8::MAX);
                let entry = u32::try_from(entry.0).map_err(|_| DwarfError::TooLarge)?;
                for specification in abbreviation.attributes() {
                    if !is_used(specification.name()) {
                        entries.skip_attributes(slice::from_ref(specification))?;
                        continue;
                    }
                    let attribute = entries.read_attribute(*specification)?;
                    match (attribute.name(), attribute.value()) {
                        (dw::DW_AT_call_file, AttributeValue::FileIndex(file)) => {
                            call.0 = u32::try_from(file).unwrap_or(u32::MAX);
                        }
                        (dw::DW_AT_call_line, value) => {
                            let line = value.udata_value().unwrap_or(0);
                            call.1 = u32::try_from(line).unwrap_or(0);
                        }
                        _ => {
                            addresses.take(&attribute);
                        }
                    }
                }
                addresses.ranges(dwarf, &unit.inner, work, |Range { begin, end }| {
                    inlines.push(Inline {
                        begin,
                        bytes: u32::try_from(end.saturating_sub(begin)).unwrap_or(u32::MAX),
                        depth,
                        entry,
                        file: call.0,
                        line: call.1,
                    });
                })?;
                if abbreviation.has_children() {
                    enclosing.push(level);
                }
            } else {
                entries.skip_attributes(abbreviation.attributes())?;
                if abbreviation.tag() == dw::DW_TAG_subprogram && level > 0 && nested.is_none() {
                    nested = Some(level);
                }
            }
            if entries.next_depth() <= 0 || entries.is_empty() {
                break;
            }
        }
        inlines.shrink_to_fit();
        Ok(Self(inlines))
    }

    /// The inlined functions at `address`, the outermost first.
    pub(super) fn find(&self, address: u64) -> Vec<Inline> {
        let mut found: Vec<Inline> = Vec::new();
        // An entry precedes the entries nested in it.
        for inline in &self.0 {
            let is_around = address.wrapping_sub(inline.begin) < inline.bytes.into();
            if is_around && usize::from(inline.depth) == found.len() {
                found.push(*inline);
            }
        }
        found
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Inline>()
    }
}

impl Inline {
    /// Its entry in the unit.
    pub(super) fn entry(&self) -> UnitOffset {
        UnitOffset(self.entry as usize)
    }

    /// Its call site: index of a file, and line.
    pub(super) fn call(&self) -> (u32, u32) {
        (self.file, self.line)
    }
}
