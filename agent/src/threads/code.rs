//! The mapped code of a process, for native walks in the agent: the look-ups of the BPF programs in
//! their maps.
//!
//! Invariant: what is cached is void when the mappings of the process change.

use std::{cell::RefCell, collections::HashMap};

use agent_common::{
    maps::{Mapping, TableState, TrackedProcess},
    native::{CodeLocation, CodeLookup, MappingSearch, Mappings},
    record::NativeKind,
    unwind::{BLOCK_WORDS, Block, RuleSearch, TableWords},
};

use super::sources::Lookups;
use crate::bpf::Rows;

/// Most addresses that are cached for a process.
const MAX_LOCATIONS: usize = 16 << 10;

/// Times that a look-up is repeated when the table has changed meanwhile.
const ATTEMPTS: usize = 3;

/// The mapped code of a process.
#[derive(Debug, Default)]
pub(super) struct ProcessCode {
    epoch: u64,
    mappings: Vec<Mapping>,
    locations: HashMap<u64, CodeLocation>,
}

impl ProcessCode {
    /// Of which state of the mappings it is, see [`TrackedProcess::mappings_epoch`].
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Reads the mappings again if they have changed.
    pub(super) fn update(&mut self, maps: &Lookups, process: &TrackedProcess) {
        if self.epoch != process.mappings_epoch {
            self.epoch = process.mappings_epoch;
            self.mappings = maps.mappings(process);
            self.locations.clear();
        }
    }
}

/// Looks up code of one process.
pub(super) struct Code<'a> {
    maps: &'a Lookups,
    process: &'a mut ProcessCode,
    tgid: u32,
    /// Executables whose tables are missing.
    wanted: &'a mut Vec<u32>,
    /// The last look-up that is not cached.
    place: CodeLocation,
}

impl<'a> Code<'a> {
    /// Executables whose tables are missing are added to `wanted`.
    pub(super) fn new(
        maps: &'a Lookups,
        process: &'a mut ProcessCode,
        tgid: u32,
        wanted: &'a mut Vec<u32>,
    ) -> Self {
        Self {
            maps,
            process,
            tgid,
            wanted,
            place: CodeLocation::NOWHERE,
        }
    }
}

impl CodeLookup for Code<'_> {
    fn find(&mut self, address: u64, _stack_pointer: u64) -> Option<&CodeLocation> {
        if !self.process.locations.contains_key(&address) {
            let (place, is_final) = self.look_up(address);
            if !is_final {
                self.place = place;
                return Some(&self.place);
            }
            if self.process.locations.len() >= MAX_LOCATIONS {
                self.process.locations.clear();
            }
            self.process.locations.insert(address, place);
        }
        self.process.locations.get(&address)
    }
}

impl Code<'_> {
    /// The location of an address, and whether it stays while the mappings do.
    fn look_up(&mut self, address: u64) -> (CodeLocation, bool) {
        let (mut place, mapping) = locate(&self.process.mappings, address, self.tgid);
        let Some(mapping) = mapping else {
            return (place, true);
        };
        for _ in 0..ATTEMPTS {
            let Some(table) = self.maps.table(mapping.table) else {
                break;
            };
            place.table = table.state;
            if table.state == TableState::NONE {
                return (place, true);
            }
            if table.state != TableState::LOADED {
                self.wanted.push(mapping.executable);
                break;
            }
            let Some(rows) = self.maps.rows(&table) else {
                place.table = TableState::ABSENT;
                continue;
            };
            let words = Words {
                rows: &rows,
                first_block: table.first_block,
                block: RefCell::new(None),
            };
            let distance = place.address.wrapping_sub(table.base);
            let rule = RuleSearch::new().find(&words, table.pages, distance);
            let rule = self.maps.rule(rule);
            // Unloaded meanwhile, the rows may be those of another one.
            if let Some(rule) = rule
                && self.maps.table(mapping.table) == Some(table)
            {
                place.rule = rule;
                return (place, true);
            }
        }
        (place, false)
    }
}

/// The location of an address, without its rule, and the mapping if that is of a file.
pub(super) fn locate(
    mappings: &[Mapping],
    address: u64,
    tgid: u32,
) -> (CodeLocation, Option<&Mapping>) {
    let mut place = CodeLocation::NOWHERE;
    let count = u32::try_from(mappings.len()).unwrap_or(0);
    let index = MappingSearch::new().find(&Starts(mappings), 0, count, address);
    let mapping = mappings.get(index as usize);
    let is_inside = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&address);
    let Some(mapping) = mapping.filter(is_inside) else {
        return (place, None);
    };
    if mapping.executable == Mapping::ANONYMOUS {
        place.kind = NativeKind::ANONYMOUS;
        place.address = address;
        place.file_or_pid = tgid;
        return (place, None);
    }
    place.kind = NativeKind::FILE;
    place.address = address.wrapping_sub(mapping.bias);
    place.file_or_pid = mapping.executable;
    (place, Some(mapping))
}

struct Starts<'a>(&'a [Mapping]);

impl Mappings for Starts<'_> {
    fn start(&self, index: u32) -> u64 {
        let mapping = self.0.get(index as usize);
        mapping.map_or(u64::MAX, |mapping| mapping.start)
    }
}

/// The words of a table, of which one block is cached.
struct Words<'a> {
    rows: &'a Rows,
    first_block: u32,
    block: RefCell<Option<(u32, Block)>>,
}

impl TableWords for Words<'_> {
    fn word(&self, index: u32) -> u32 {
        let words = u32::try_from(BLOCK_WORDS).unwrap_or(1);
        let number = self.first_block.wrapping_add(index / words);
        let mut cached = self.block.borrow_mut();
        if cached.is_none_or(|(of, _)| of != number) {
            *cached = self.rows.block(number).map(|block| (number, block));
        }
        let word = cached
            .as_ref()
            .and_then(|(_, block)| block.0.get((index % words) as usize));
        word.copied().unwrap_or(0)
    }
}
