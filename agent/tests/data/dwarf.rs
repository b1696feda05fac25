//! Offsets of structure members, from the debugging information of a program.

use std::{collections::HashMap, fs, path::Path};

use agent::elf::Elf;
use gimli::{
    AttributeValue, DW_AT_bit_size, DW_AT_byte_size, DW_AT_data_bit_offset,
    DW_AT_data_member_location, DW_AT_name, DW_AT_type, DW_TAG_member, DW_TAG_structure_type,
    DW_TAG_typedef, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, Unit, UnitOffset,
};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// A structure.
#[derive(Clone, Default)]
pub(crate) struct Structure {
    /// Its size.
    pub(crate) bytes: u64,
    /// By name, with those of structures inside as `outer.inner`.
    pub(crate) members: HashMap<String, Member>,
}

/// A member of a structure.
#[derive(Clone, Copy)]
pub(crate) struct Member {
    /// Where it is, in bytes.
    pub(crate) offset: u64,
    /// Of a bit field the first bit, from the start of the structure that it is directly in.
    pub(crate) bit: Option<u64>,
}

/// The structures with these type names in the program at `path`; empty when it has no debugging
/// information.
pub(crate) fn structures(path: &Path, names: &[&str]) -> HashMap<String, Structure> {
    let file = fs::read(path).unwrap();
    let elf = Elf::read(file.as_slice()).unwrap();
    let section = |id: gimli::SectionId| {
        let bytes = elf
            .section(id.name())
            .and_then(|section| {
                let start = usize::try_from(section.file_offset?).ok()?;
                file.get(start..start + usize::try_from(section.bytes).ok()?)
            })
            .unwrap_or_default();
        Ok::<_, gimli::Error>(EndianSlice::new(bytes, LittleEndian))
    };
    let dwarf = Dwarf::load(section).unwrap();
    let mut found = HashMap::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next().unwrap() {
        let unit = dwarf.unit(header).unwrap();
        let reader = Reader {
            dwarf: &dwarf,
            unit: &unit,
        };
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs().unwrap() {
            if entry.tag() != DW_TAG_typedef {
                continue;
            }
            let Some(name) = reader.name(entry) else {
                continue;
            };
            if names.contains(&name.as_str()) && !found.contains_key(&name) {
                let mut structure = Structure::default();
                if let Some(bytes) = reader.read(entry.offset(), "", 0, &mut structure) {
                    structure.bytes = bytes;
                    found.insert(name, structure);
                }
            }
        }
        if found.len() == names.len() {
            break;
        }
    }
    found
}

/// Reads one unit.
struct Reader<'a> {
    dwarf: &'a Dwarf<Bytes<'a>>,
    unit: &'a Unit<Bytes<'a>>,
}

impl Reader<'_> {
    /// Adds the members of the structure that `offset` names to `into`, each with `prefix` and
    /// `base`, and gives its size; nothing when it is no structure or only declared here.
    fn read(
        &self,
        offset: UnitOffset,
        prefix: &str,
        base: u64,
        into: &mut Structure,
    ) -> Option<u64> {
        let entry = self.unit.entry(offset).unwrap();
        if entry.tag() == DW_TAG_typedef {
            return self.read(type_of(&entry)?, prefix, base, into);
        }
        let bytes = entry.attr_value(DW_AT_byte_size)?.udata_value()?;
        if entry.tag() != DW_TAG_structure_type {
            return None;
        }
        let mut tree = self.unit.entries_tree(Some(offset)).unwrap();
        let mut children = tree.root().unwrap().children();
        while let Some(child) = children.next().unwrap() {
            let member = child.entry();
            if member.tag() != DW_TAG_member {
                continue;
            }
            let Some(name) = self.name(member) else {
                continue;
            };
            let value = |attribute| member.attr_value(attribute)?.udata_value();
            let name = format!("{prefix}{name}");
            let offset = base + value(DW_AT_data_member_location).unwrap_or(0);
            let bit = value(DW_AT_bit_size).and_then(|_| value(DW_AT_data_bit_offset));
            into.members.insert(name.clone(), Member { offset, bit });
            // Two levels are enough, and keep the interpreter's state small.
            if prefix.is_empty()
                && let Some(kind) = type_of(member)
            {
                self.read(kind, &format!("{name}."), offset, into);
            }
        }
        Some(bytes)
    }

    fn name(&self, entry: &DebuggingInformationEntry<Bytes>) -> Option<String> {
        let value = entry.attr_value(DW_AT_name)?;
        let name = self.dwarf.attr_string(self.unit, value).ok()?;
        Some(name.to_string_lossy().into_owned())
    }
}

fn type_of(entry: &DebuggingInformationEntry<Bytes>) -> Option<UnitOffset> {
    match entry.attr_value(DW_AT_type)? {
        AttributeValue::UnitRef(offset) => Some(offset),
        _ => None,
    }
}
