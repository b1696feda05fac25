//! The namespaces and classes that a function is in.
//!
//! Entries do not say what they are in: that is seen on the way to them from the start of the
//! unit. GCC writes C++ so that the way is short (`DW_AT_sibling`); Clang writes names that need
//! none of this.

use gimli::{AttributeValue, Dwarf, UnitOffset, constants as dw};

use super::{budget::WorkBudget, bytes::SectionReader, error::DwarfError, unit::DwarfUnit};

/// Most bytes of the name of a scope.
const MAX_NAME: usize = 4 << 10;

/// Most scopes inside each other.
const MAX_DEPTH: usize = 64;

/// The name of what is at `entry` with those of what it is in before it.
pub(super) fn qualify(
    dwarf: &Dwarf<SectionReader>,
    unit: &DwarfUnit,
    entry: UnitOffset,
    name: &[u8],
    work: &mut WorkBudget,
) -> Result<Vec<u8>, DwarfError> {
    let mut qualified = Vec::new();
    for (_, scope) in around(dwarf, unit, entry, work)? {
        qualified.extend(scope);
        qualified.extend(b"::");
    }
    qualified.extend(name);
    Ok(qualified)
}

/// The scopes that `entry` is in, with how deep they are.
fn around(
    dwarf: &Dwarf<SectionReader>,
    unit: &DwarfUnit,
    entry: UnitOffset,
    work: &mut WorkBudget,
) -> Result<Vec<(isize, Vec<u8>)>, DwarfError> {
    let mut scopes: Vec<(isize, Vec<u8>)> = Vec::new();
    let mut entries = unit.inner.entries_raw(None)?;
    // How deep those entries start.
    let mut start = 0;
    while !entries.is_empty() && entries.next_offset() < entry {
        let depth = start + entries.next_depth();
        let Some(shape) = entries.read_abbreviation()? else {
            work.spend(1)?;
            continue;
        };
        work.spend(1 + shape.attributes().len())?;
        let is_scope = is_scope(shape.tag()) && shape.has_children();
        let mut name = None;
        let mut sibling = None;
        for specification in shape.attributes() {
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
            None if shape.tag() == dw::DW_TAG_namespace => Some(b"(anonymous namespace)".to_vec()),
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
