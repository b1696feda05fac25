//! The locations of code addresses: the file that contains them, and the unwind rule.
//!
//! An address is looked up in the mappings of its process and in the unwind table of its file.
//! Results are cached, since return addresses recur; they are valid while the mappings of the
//! process do not change.

use agent_common::{
    counter::Counter,
    maps::{Mapping, TableLocation, TableState},
    native::{CodeLocation, CodeLookup, Mappings},
    record::NativeKind,
    unwind::{BLOCK_WORDS, TableWords},
    volatile::masked,
};

use crate::{
    current, emit,
    maps::{CACHED_LOCATIONS, LOCATIONS, MAPPINGS, RULES, TABLE_MAPS, TABLES, count},
    values::Sampler,
};

/// The code of the process that is sampled.
pub(crate) struct CurrentCode {
    epoch: u64,
}

impl CurrentCode {
    /// The code of the process that is sampled.
    #[inline(always)]
    pub(crate) fn of(sampler: &Sampler) -> Self {
        Self {
            epoch: sampler.mappings_epoch.get(),
        }
    }
}

impl CodeLookup for CurrentCode {
    #[inline(always)]
    fn find(&mut self, address: u64) -> Option<&CodeLocation> {
        let cached = LOCATIONS.get_ptr(cache_index(address))?;
        // SAFETY: a value of this processor, which nothing else writes to meanwhile.
        let cached = unsafe { &*cached };
        if cached.address != address || cached.epoch != self.epoch {
            look_up(address);
        }
        Some(&cached.location)
    }
}

/// The index of an address in `LOCATIONS`.
#[inline(always)]
fn cache_index(address: u64) -> u32 {
    let mixed = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    masked(mixed as u32, CACHED_LOCATIONS - 1)
}

/// Looks an address up and caches the result.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn look_up(address: u64) -> u32 {
    u32::from(try_look_up(address).is_some())
}

#[inline(always)]
fn try_look_up(address: u64) -> Option<()> {
    count(Counter::CODE_LOOKUPS);
    let index = find_mapping(address);
    let sampler = current::sampler()?;
    let cached = LOCATIONS.get_ptr_mut(cache_index(address))?;
    // SAFETY: a value of this processor, which nothing else refers to meanwhile.
    let cached = unsafe { &mut *cached };
    cached.address = address;
    cached.epoch = sampler.mappings_epoch.get();
    cached.location = CodeLocation::NOWHERE;
    if sampler.mapping_count.get() == 0 {
        return None;
    }
    let mapping = MAPPINGS.get(index)?;
    if address < mapping.start || address >= mapping.end {
        return None;
    }
    if mapping.executable == Mapping::ANONYMOUS {
        cached.location.kind = NativeKind::ANONYMOUS;
        cached.location.address = address;
        cached.location.file_or_pid = sampler.tgid.get();
        return Some(());
    }
    cached.location.kind = NativeKind::FILE;
    cached.location.address = address.wrapping_sub(mapping.bias);
    cached.location.file_or_pid = mapping.executable;
    let table = TABLES.get_ptr_mut(mapping.table)?;
    // SAFETY: values of the map stay readable and writable while the program runs; another
    // processor may write the same state.
    let table = unsafe { &mut *table };
    cached.location.table = table.state;
    if table.state == TableState::LOADED {
        let rule = find_rule(mapping.table, cached.location.address);
        cached.location.rule = *RULES.get(rule)?;
    } else if table.state != TableState::NONE {
        // Looked up again until the table is loaded.
        cached.epoch = u64::MAX;
        if table.state == TableState::ABSENT {
            table.state = TableState::WANTED;
            emit::wanted_table(mapping.executable, sampler.tgid.get());
        }
    }
    Some(())
}

/// The index of the mapping in which `address` may be.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_mapping(address: u64) -> u32 {
    let (Some(sampler), Some(native)) = (current::sampler(), current::native()) else {
        return 0;
    };
    let first = sampler.first_mapping.get();
    let count = sampler.mapping_count.get();
    native
        .mapping_search
        .find(&MappingArray, first, count, address)
}

/// The index of the rule that the table with this index has for an address of its file.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_rule(table: u32, address: u64) -> u32 {
    let (Some(table), Some(native)) = (TABLES.get(table), current::native()) else {
        return 0;
    };
    let distance = address.wrapping_sub(table.base);
    let words = LoadedTable { table };
    u32::from(native.rule_search.find(&words, table.pages, distance))
}

/// The map of mappings.
struct MappingArray;

impl Mappings for MappingArray {
    #[inline(always)]
    fn start(&self, index: u32) -> u64 {
        match MAPPINGS.get(index) {
            Some(mapping) => mapping.start,
            None => u64::MAX,
        }
    }
}

/// A loaded unwind table.
struct LoadedTable<'a> {
    table: &'a TableLocation,
}

impl TableWords for LoadedTable<'_> {
    #[inline(always)]
    fn word(&self, index: u32) -> u32 {
        let block = self
            .table
            .first_block
            .wrapping_add(index / BLOCK_WORDS as u32);
        match TABLE_MAPS.get_value(self.table.map, &block) {
            Some(block) => block[masked(index, BLOCK_WORDS as u32 - 1) as usize],
            None => 0,
        }
    }
}
