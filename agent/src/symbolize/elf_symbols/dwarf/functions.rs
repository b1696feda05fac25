//! The functions of a unit, and what was inlined into one of them.

use std::cmp::Reverse;

use gimli::{AttributeValue, Dwarf, Range, UnitOffset, constants as dw};

use super::{
    budget::WorkBudget,
    bytes::SectionReader,
    error::DwarfError,
    unit::{AddressAttributes, DwarfUnit},
};

/// Most functions that are inlined into each other.
const MAX_DEPTH: usize = 128;

/// Most functions before an address that are looked at for one that reaches up to it.
const MAX_ENCLOSING: usize = 32;

/// Where the functions of a unit are.
#[derive(Debug)]
pub(super) struct UnitFunctions(Vec<Function>);

#[derive(Debug)]
struct Function {
    begin: u64,
    end: u64,
    entry: UnitOffset,
}

impl UnitFunctions {
    /// Looks through a unit; only what is in `code` counts.
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
            let Some(shape) = entries.read_abbreviation()? else {
                work.spend(1)?;
                continue;
            };
            work.spend(1 + shape.attributes().len())?;
            if shape.tag() != dw::DW_TAG_subprogram {
                entries.skip_attributes(shape.attributes())?;
                continue;
            }
            let mut place = AddressAttributes::default();
            for specification in shape.attributes() {
                place.take(&entries.read_attribute(*specification)?);
            }
            place.ranges(dwarf, &unit.inner, work, |Range { begin, end }| {
                // Linkers put functions that they left out at address 0.
                if code.contains(&begin) {
                    functions.push(Function { begin, end, entry });
                }
            })?;
        }
        // Of those that begin at the same address the largest first.
        functions.sort_unstable_by_key(|it| (it.begin, Reverse(it.end), it.entry.0));
        functions.shrink_to_fit();
        Ok(Self(functions))
    }

    /// The innermost function that `address` is in.
    pub(super) fn find(&self, address: u64) -> Option<UnitOffset> {
        let after = self.0.partition_point(|it| it.begin <= address);
        let mut before = self.0[..after].iter().rev().take(MAX_ENCLOSING);
        before.find(|it| address < it.end).map(|it| it.entry)
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Function>()
    }
}

/// What was inlined into a function.
#[derive(Debug)]
pub(super) struct Inlines(Vec<Inline>);

/// A range of what was inlined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inline {
    begin: u64,
    end: u64,
    /// How many others it was inlined into.
    depth: usize,
    pub(super) entry: UnitOffset,
    /// Where the call was that it stands for: index of a file, and line.
    pub(super) call: (u64, u32),
}

impl Inlines {
    /// Looks through the function at `entry`.
    pub(super) fn read(
        dwarf: &Dwarf<SectionReader>,
        unit: &DwarfUnit,
        entry: UnitOffset,
        work: &mut WorkBudget,
    ) -> Result<Self, DwarfError> {
        let mut inlines = Vec::new();
        let mut entries = unit.inner.entries_raw(Some(entry))?;
        // How deep in the tree those are into which what comes next was inlined.
        let mut around = Vec::new();
        // How deep a function is that is written inside this one.
        let mut nested = None;
        loop {
            let entry = entries.next_offset();
            let level = entries.next_depth();
            let Some(shape) = entries.read_abbreviation()? else {
                work.spend(1)?;
                if entries.next_depth() <= 0 {
                    break;
                }
                continue;
            };
            work.spend(1 + shape.attributes().len())?;
            if nested.is_some_and(|nested| level <= nested) {
                nested = None;
            }
            while around.last().is_some_and(|last| level <= *last) {
                around.pop();
            }
            let is_inline = shape.tag() == dw::DW_TAG_inlined_subroutine;
            if is_inline && nested.is_none() && around.len() < MAX_DEPTH {
                let mut place = AddressAttributes::default();
                let mut call = (0, 0);
                for specification in shape.attributes() {
                    let attribute = entries.read_attribute(*specification)?;
                    match (attribute.name(), attribute.value()) {
                        (dw::DW_AT_call_file, AttributeValue::FileIndex(file)) => call.0 = file,
                        (dw::DW_AT_call_line, value) => {
                            let line = value.udata_value().unwrap_or(0);
                            call.1 = u32::try_from(line).unwrap_or(0);
                        }
                        _ => {
                            place.take(&attribute);
                        }
                    }
                }
                place.ranges(dwarf, &unit.inner, work, |Range { begin, end }| {
                    inlines.push(Inline {
                        begin,
                        end,
                        depth: around.len(),
                        entry,
                        call,
                    });
                })?;
                if shape.has_children() {
                    around.push(level);
                }
            } else {
                entries.skip_attributes(shape.attributes())?;
                if shape.tag() == dw::DW_TAG_subprogram && level > 0 && nested.is_none() {
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

    /// What was inlined at `address`, the outermost first.
    pub(super) fn find(&self, address: u64) -> Vec<Inline> {
        let mut found: Vec<Inline> = Vec::new();
        // An entry comes before those inside it.
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
