//! The functions of a unit, and the functions inlined into one of them.

use std::cmp::Reverse;

use gimli::{AttributeValue, Dwarf, Range, UnitOffset, constants as dw};

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

/// The functions of a unit, by address.
#[derive(Debug)]
pub(super) struct UnitFunctions(Vec<Function>);

#[derive(Debug)]
struct Function {
    begin: u64,
    end: u64,
    entry: UnitOffset,
}

impl UnitFunctions {
    /// Reads the functions of a unit that are in `code`.
    pub(super) fn read(
        dwarf: &Dwarf<SectionReader>,
        unit: &DwarfUnit,
        code: &std::ops::Range<u64>,
        work: &mut WorkBudget,
    ) -> Result<Self, DwarfError> {
        let mut functions = Vec::new();
        let mut entries = unit.inner.entries_raw(None)?;
        while !entries.is_empty() {
            let entry = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else {
                work.spend(1)?;
                continue;
            };
            work.spend(1 + abbreviation.attributes().len())?;
            if abbreviation.tag() != dw::DW_TAG_subprogram {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut addresses = AddressAttributes::default();
            for specification in abbreviation.attributes() {
                addresses.take(&entries.read_attribute(*specification)?);
            }
            addresses.ranges(dwarf, &unit.inner, work, |Range { begin, end }| {
                // Linkers addresses discarded functions at address 0.
                if code.contains(&begin) {
                    functions.push(Function { begin, end, entry });
                }
            })?;
        }
        // Of several at an address the largest first.
        functions.sort_unstable_by_key(|it| (it.begin, Reverse(it.end), it.entry.0));
        functions.shrink_to_fit();
        Ok(Self(functions))
    }

    /// The innermost function that contains `address`.
    pub(super) fn find(&self, address: u64) -> Option<UnitOffset> {
        let after = self.0.partition_point(|it| it.begin <= address);
        let mut before = self.0[..after].iter().rev().take(MAX_ENCLOSING);
        before.find(|it| address < it.end).map(|it| it.entry)
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Function>()
    }
}

/// The functions inlined into a function.
#[derive(Debug)]
pub(super) struct Inlines(Vec<Inline>);

/// An address range of an inlined function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inline {
    begin: u64,
    end: u64,
    /// Level of inlining, 0 for one inlined into the function itself.
    depth: usize,
    pub(super) entry: UnitOffset,
    /// Call site: index of a file, and line.
    pub(super) call: (u64, u32),
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
                for specification in abbreviation.attributes() {
                    let attribute = entries.read_attribute(*specification)?;
                    match (attribute.name(), attribute.value()) {
                        (dw::DW_AT_call_file, AttributeValue::FileIndex(file)) => call.0 = file,
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
                        end,
                        depth: enclosing.len(),
                        entry,
                        call,
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
            if (inline.begin..inline.end).contains(&address) && inline.depth == found.len() {
                found.push(*inline);
            }
        }
        found
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Inline>()
    }
}
