//! The runtime's description of a program, `runtime.moduledata`: what the table of functions refers
//! to, where the table itself lacks it.
//!
//! It is found by its first field, the address of the table, and recognized by its first and last
//! address, which agree with those of the table. In a position-independent executable the file may
//! have its fields only as relocations.

use std::collections::HashMap;

use super::table::{GoTable, InlineTrees};
use crate::binaries::elf::{error::Error, file::Elf, source::Source};

/// Its section since Go 1.26.
const SECTION: &str = ".go.module";

/// Most bytes of data that are searched for it.
const MAX_SEARCHED: u64 = 256 << 20;

/// Most places that are compared with the table.
const MAX_CANDIDATES: usize = 16;

/// Offsets of `minpc`, `maxpc` and `text`.
const ADDRESSES: [u64; 3] = [160, 168, 176];

/// Bytes that are read of it.
const BYTES: u64 = 328;

/// What is read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModuleData {
    /// The base of the distances in the table.
    pub(super) text: u64,
    /// Where inline trees are.
    pub(super) inline_trees: Option<InlineTrees>,
}

impl ModuleData {
    /// Finds the module data of a table at `address`.
    pub(super) fn find<S: Source, T: Source>(
        elf: &Elf<S>,
        table: &GoTable<T>,
        address: u64,
    ) -> Result<Option<Self>, Error> {
        let section = elf.section(SECTION).map(|section| section.address);
        let as_it_is = HashMap::new();
        let mut candidates: Vec<u64> = section.into_iter().collect();
        let of = |candidates: &[u64], relocated: &HashMap<u64, u64>| {
            let mut candidates = candidates.iter();
            candidates.find_map(|module| Self::read(elf, table, *module, relocated))
        };
        if let Some(found) = of(&candidates, &as_it_is) {
            return Ok(Some(found));
        }
        let in_data = elf.find_in_data(address.to_le_bytes(), MAX_SEARCHED)?;
        if let Some(found) = of(&in_data, &as_it_is) {
            return Ok(Some(found));
        }
        elf.relative_relocations(|relocation| {
            if relocation.value == address && candidates.len() < MAX_CANDIDATES {
                candidates.push(relocation.address);
            }
        })?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let mut relocated = HashMap::new();
        elf.relative_relocations(|relocation| {
            let is_inside = |module: &u64| {
                relocation
                    .address
                    .checked_sub(*module)
                    .is_some_and(|it| it < BYTES)
            };
            if candidates.iter().any(is_inside) {
                relocated.insert(relocation.address, relocation.value);
            }
        })?;
        Ok(of(&candidates, &relocated))
    }

    /// Reads the module data at an address; [`None`] where they do not agree with the table.
    fn read<S: Source, T: Source>(
        elf: &Elf<S>,
        table: &GoTable<T>,
        module: u64,
        relocated: &HashMap<u64, u64>,
    ) -> Option<Self> {
        let field = |offset: u64| {
            let address = module.checked_add(offset)?;
            if let Some(value) = relocated.get(&address) {
                return Some(*value);
            }
            let mut bytes = [0; 8];
            let is_there = elf.initial_bytes(address, &mut bytes).unwrap_or(false);
            is_there.then(|| u64::from_le_bytes(bytes))
        };
        let [Some(start), Some(end), Some(text)] = ADDRESSES.map(field) else {
            return None;
        };
        let base = if table.format.has_distances { text } else { 0 };
        let (first, _) = table.item(0);
        let (last, _) = table.item(table.count);
        let agrees = (start, end) == (base.wrapping_add(first), base.wrapping_add(last));
        (text != 0 && agrees).then(|| Self {
            text: base,
            inline_trees: match table.format.inline_trees {
                None => table.files.map(|_| InlineTrees::Absolute),
                Some(offset) => field(offset)
                    .filter(|address| elf.segments().file_offset(*address, 1).is_some())
                    .map(InlineTrees::RelativeTo),
            },
        })
    }
}
