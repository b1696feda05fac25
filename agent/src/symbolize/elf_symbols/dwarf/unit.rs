//! A unit of debugging information, usually one compilation.

use std::sync::Arc;

use gimli::{
    Abbreviations, Attribute, AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugAddrBase,
    DebugLineOffset, DebugLocListsBase, DebugRngListsBase, DebugStrOffsetsBase, DwLang, Dwarf,
    DwarfFileType, Range, Reader as _, Section as _, UnitHeader, constants as dw,
};

use super::{budget::WorkBudget, error::DwarfError, section_reader::SectionReader};

/// Most bytes of a unit's abbreviations.
const MAX_ABBREVIATIONS: usize = 1 << 20;

type Value = AttributeValue<SectionReader>;

/// A parsed unit.
pub(super) struct DwarfUnit {
    /// Without its line program, which gimli would read eagerly.
    pub(super) inner: gimli::Unit<SectionReader>,
    /// Offset of its line program.
    pub(super) lines: Option<DebugLineOffset>,
    /// Addresses of its code.
    pub(super) addresses: AddressAttributes,
    /// Whether its language is C++, whose functions are in namespaces and classes.
    pub(super) is_cpp: bool,
}

impl DwarfUnit {
    /// Reads the root entry of a unit.
    pub(super) fn read(
        dwarf: &Dwarf<SectionReader>,
        header: UnitHeader<SectionReader>,
    ) -> Result<Self, DwarfError> {
        let encoding = header.encoding();
        let kind = DwarfFileType::Main;
        let mut unit = gimli::Unit {
            abbreviations: Arc::new(abbreviations(dwarf, header.debug_abbrev_offset())?),
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: DebugStrOffsetsBase::default_for_encoding_and_file(encoding, kind),
            addr_base: DebugAddrBase(0),
            loclists_base: DebugLocListsBase::default_for_encoding_and_file(encoding, kind),
            rnglists_base: DebugRngListsBase::default_for_encoding_and_file(encoding, kind),
            line_program: None,
            dwo_id: None,
            header,
        };
        let all_abbreviations = Arc::clone(&unit.abbreviations);
        let mut entries = unit.header.entries_raw(&all_abbreviations, None)?;
        let abbreviation = entries
            .read_abbreviation()?
            .ok_or(gimli::Error::MissingUnitDie)?;
        let mut addresses = AddressAttributes::default();
        let mut lines = None;
        let mut directory = None;
        let mut is_cpp = false;
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            addresses.take(&attribute);
            match attribute.value() {
                Value::DebugLineRef(offset) => lines = Some(offset),
                Value::DebugStrOffsetsBase(base) => unit.str_offsets_base = base,
                Value::DebugAddrBase(base) => unit.addr_base = base,
                Value::DebugRngListsBase(base) => unit.rnglists_base = base,
                Value::Language(language) => is_cpp = is_cpp_language(language),
                value if attribute.name() == dw::DW_AT_comp_dir => directory = Some(value),
                _ => {}
            }
        }
        // Resolved last, because it needs the bases.
        unit.comp_dir = directory.and_then(|value| dwarf.attr_string(&unit, value).ok());
        if let Some(low) = addresses.low.clone() {
            unit.low_pc = dwarf.attr_address(&unit, low)?.unwrap_or(0);
        }
        Ok(Self {
            inner: unit,
            lines,
            addresses,
            is_cpp,
        })
    }
}

fn is_cpp_language(language: DwLang) -> bool {
    matches!(
        language,
        dw::DW_LANG_C_plus_plus
            | dw::DW_LANG_C_plus_plus_03
            | dw::DW_LANG_C_plus_plus_11
            | dw::DW_LANG_C_plus_plus_14
            | dw::DW_LANG_C_plus_plus_17
            | dw::DW_LANG_C_plus_plus_20
    )
}

fn abbreviations(
    dwarf: &Dwarf<SectionReader>,
    offset: DebugAbbrevOffset,
) -> Result<Abbreviations, gimli::Error> {
    let mut bytes = dwarf.debug_abbrev.reader().clone();
    bytes.skip(offset.0)?;
    bytes.truncate(bytes.len().min(MAX_ABBREVIATIONS))?;
    DebugAbbrev::from(bytes).abbreviations(DebugAbbrevOffset(0))
}

/// The attributes of an entry that give its addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct AddressAttributes {
    low: Option<Value>,
    high: Option<Value>,
    ranges: Option<Value>,
}

impl AddressAttributes {
    /// Keeps an attribute if it is one of these.
    pub(super) fn take(&mut self, attribute: &Attribute<SectionReader>) -> bool {
        let field = match attribute.name() {
            dw::DW_AT_low_pc => &mut self.low,
            dw::DW_AT_high_pc => &mut self.high,
            dw::DW_AT_ranges => &mut self.ranges,
            _ => return false,
        };
        *field = Some(attribute.value());
        true
    }

    /// Calls `take` with each of its ranges that is not empty.
    pub(super) fn ranges(
        &self,
        dwarf: &Dwarf<SectionReader>,
        unit: &gimli::Unit<SectionReader>,
        work: &mut WorkBudget,
        mut take: impl FnMut(Range),
    ) -> Result<(), DwarfError> {
        if let Some(value) = &self.ranges
            && let Some(mut ranges) = dwarf.attr_ranges(unit, value.clone())?
        {
            while let Some(range) = ranges.next()? {
                work.spend(1)?;
                take(range);
            }
            return Ok(());
        }
        let (Some(low), Some(high)) = (&self.low, &self.high) else {
            return Ok(());
        };
        let Some(begin) = dwarf.attr_address(unit, low.clone())? else {
            return Ok(());
        };
        let end = match high.udata_value() {
            Some(bytes) => begin.checked_add(bytes),
            None => dwarf.attr_address(unit, high.clone())?,
        };
        if let Some(end) = end.filter(|end| begin < *end) {
            work.spend(1)?;
            take(Range { begin, end });
        }
        Ok(())
    }
}
