//! What is known of code addresses: which file they are of, and how their frames are left.
//!
//! An address is looked up in the mappings of its process and in the unwind table of its file, and
//! remembered: return addresses come again and again. What is remembered holds for as long as the
//! mappings of the process stay the same.

use agent_common::{
    counter::Counter,
    maps::{Mapping, Table, TableState},
    native::{Code, Mappings, Place},
    record::NativeKind,
    unwind::{BLOCK_WORDS, Words},
    volatile::masked,
};

use crate::{
    current, emit,
    maps::{MAPPINGS, MEMO_PLACES, PLACES, RULES, TABLE_MAPS, TABLES, count},
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

impl Code for CurrentCode {
    #[inline(always)]
    fn find(&mut self, address: u64) -> Option<&Place> {
        let remembered = PLACES.get_ptr(memo_index(address))?;
        // SAFETY: a value of this processor, which nothing else writes to meanwhile.
        let remembered = unsafe { &*remembered };
        if remembered.address != address || remembered.epoch != self.epoch {
            look_up(address);
        }
        Some(&remembered.place)
    }
}

/// Where an address is remembered.
#[inline(always)]
fn memo_index(address: u64) -> u32 {
    let mixed = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    masked(mixed as u32, MEMO_PLACES - 1)
}

/// Looks an address up and remembers what was found.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn look_up(address: u64) -> u32 {
    u32::from(try_look_up(address).is_some())
}

#[inline(always)]
fn try_look_up(address: u64) -> Option<()> {
    count(Counter::CODE_SEARCHES);
    let index = find_mapping(address);
    let sampler = current::sampler()?;
    let remembered = PLACES.get_ptr_mut(memo_index(address))?;
    // SAFETY: a value of this processor, which nothing else refers to meanwhile.
    let remembered = unsafe { &mut *remembered };
    remembered.address = address;
    remembered.epoch = sampler.mappings_epoch.get();
    remembered.place = Place::NOWHERE;
    if sampler.mapping_count.get() == 0 {
        return None;
    }
    let mapping = MAPPINGS.get(index)?;
    if address < mapping.start || address >= mapping.end {
        return None;
    }
    if mapping.executable == Mapping::ANONYMOUS {
        remembered.place.kind = NativeKind::ANONYMOUS;
        remembered.place.address = address;
        remembered.place.of = sampler.tgid.get();
        return Some(());
    }
    remembered.place.kind = NativeKind::FILE;
    remembered.place.address = address.wrapping_sub(mapping.bias);
    remembered.place.of = mapping.executable;
    let table = TABLES.get_ptr_mut(mapping.table)?;
    // SAFETY: values of the map stay readable and writable while the program runs; another
    // processor may write the same state.
    let table = unsafe { &mut *table };
    remembered.place.table = table.state;
    if table.state == TableState::LOADED {
        let rule = find_rule(mapping.table, remembered.place.address);
        remembered.place.rule = *RULES.get(rule)?;
    } else if table.state != TableState::NONE {
        // To be looked up again, until there is one.
        remembered.epoch = u64::MAX;
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
        .find(&AllMappings, first, count, address)
}

/// The index of the rule that the table with this index has for an address of its file.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_rule(table: u32, address: u64) -> u32 {
    let (Some(table), Some(native)) = (TABLES.get(table), current::native()) else {
        return 0;
    };
    let distance = address.wrapping_sub(table.base);
    let words = Loaded { table };
    u32::from(native.rule_search.find(&words, table.pages, distance))
}

/// The map of mappings.
struct AllMappings;

impl Mappings for AllMappings {
    #[inline(always)]
    fn start(&self, index: u32) -> u64 {
        match MAPPINGS.get(index) {
            Some(mapping) => mapping.start,
            None => u64::MAX,
        }
    }
}

/// A table that is loaded.
struct Loaded<'a> {
    table: &'a Table,
}

impl Words for Loaded<'_> {
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
