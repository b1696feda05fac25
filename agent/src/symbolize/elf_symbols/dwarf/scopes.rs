//! The namespaces and classes that enclose a function.
//!
//! Entries do not refer to their parent, so the unit is read from its start. GCC writes
//! `DW_AT_sibling`, by which most entries are skipped; Clang writes linkage names, which need none of
//! this.

use gimli::{AttributeValue, Dwarf, UnitOffset, constants as dw};

use super::{
    budget::WorkBudget, error::DwarfError, section_reader::SectionReader, unit::DwarfUnit,
};

/// Most bytes of the name of a scope.
const MAX_NAME: usize = 4 << 10;

/// Most nested scopes.
const MAX_DEPTH: usize = 64;

/// The name of an entry, qualified with its scopes.
pub(super) fn qualify(
    dwarf: &Dwarf<SectionReader>,
    unit: &DwarfUnit,
    entry: UnitOffset,
    name: &[u8],
    work: &mut WorkBudget,
) -> Result<Vec<u8>, DwarfError> {
    let mut qualified = Vec::new();
    for (_, scope) in enclosing_scopes(dwarf, unit, entry, work)? {
        qualified.extend(scope);
        qualified.extend(b"::");
    }
    qualified.extend(name);
    Ok(qualified)
}

/// The scopes that enclose `entry`, with their depths.
fn enclosing_scopes(
    dwarf: &Dwarf<SectionReader>,
    unit: &DwarfUnit,
    entry: UnitOffset,
    work: &mut WorkBudget,
) -> Result<Vec<(isize, Vec<u8>)>, DwarfError> {
    let mut scopes: Vec<(isize, Vec<u8>)> = Vec::new();
    let mut entries = unit.inner.entries_raw(None)?;
    // Depth at which the reader of entries started.
    let mut start = 0;
    while !entries.is_empty() && entries.next_offset() < entry {
        let depth = start + entries.next_depth();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            work.spend(1)?;
            continue;
        };
        work.spend(1 + abbreviation.attributes().len())?;
        let is_scope = is_scope(abbreviation.tag()) && abbreviation.has_children();
        let mut name = None;
        let mut sibling = None;
        for specification in abbreviation.attributes() {
            match specification.name() {
                dw::DW_AT_name if is_scope => {
                    name = Some(entries.read_attribute(*specification)?.value());
                }
                dw::DW_AT_sibling => {
                    if let AttributeValue::UnitRef(offset) =
                        entries.read_attribute(*specification)?.value()
                    {
                        sibling = Some(offset);
                    }
                }
                _ => entries.skip_attributes(&[*specification])?,
            }
        }
        while scopes.last().is_some_and(|(last, _)| depth <= *last) {
            scopes.pop();
        }
        if let Some(sibling) = sibling
            && (entries.next_offset()..=entry).contains(&sibling)
        {
            entries = unit.inner.entries_raw(Some(sibling))?;
            start = depth;
            continue;
        }
        let text = |value| dwarf.attr_string(&unit.inner, value)?.take(MAX_NAME);
        let name = match name {
            Some(name) => text(name).ok(),
            None if abbreviation.tag() == dw::DW_TAG_namespace => {
                Some(b"(anonymous namespace)".to_vec())
            }
            None => None,
        };
        if let Some(name) = name
            && is_scope
            && scopes.len() < MAX_DEPTH
        {
            scopes.push((depth, name));
        }
    }
    let depth = start + entries.next_depth();
    scopes.retain(|(scope, _)| *scope < depth);
    Ok(scopes)
}

fn is_scope(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_namespace
            | dw::DW_TAG_class_type
            | dw::DW_TAG_structure_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_subprogram
    )
}
