//! The locations of code addresses: the file that contains them, and the unwind rule.
//!
//! An address is looked up in the mappings of its process and in the unwind table of its file.
//! Results are cached, since return addresses recur; they are valid while the mappings of the
//! process do not change.

use agent_common::{
    counter::Counter,
    limits::CACHED_LOCATIONS,
    maps::{Mapping, TableLocation, TableState},
    native::{CodeLocation, CodeLookup, Mappings},
    record::NativeKind,
    unwind::{BLOCK_WORDS, TableWords},
    volatile::masked,
};

use crate::{
    current, emit,
    maps::{MAPPINGS, RULES, Rows, TABLE_MAPS, TABLE_REQUESTS, TABLES, count},
    values::Sampler,
};

/// Time after which a table that is still absent is requested again: the agent may have had no room
/// for it, or its index may be another file's meanwhile.
const REQUEST_AGAIN_NS: u64 = 1_000_000_000;

/// The code of the process that is sampled.
pub(crate) struct CurrentCode {
    epoch: u64,
    tgid: u32,
    tid: u32,
}

impl CurrentCode {
    /// The code of the process that is sampled.
    #[inline(always)]
    pub(crate) fn of(sampler: &Sampler) -> Self {
        Self {
            epoch: sampler.mappings_epoch.get(),
            tgid: sampler.tgid.get(),
            tid: sampler.tid.get(),
        }
    }
}

impl CodeLookup for CurrentCode {
    #[inline(always)]
    fn find(&mut self, address: u64, stack_pointer: u64) -> Option<&CodeLocation> {
        let entry = current::thread_cache(self.tid)?.location(stack_pointer);
        let (cached, is_whole) = entry.get();
        if cached.is_of(address, self.epoch, self.tgid) && is_whole {
            return Some(&cached.location);
        }
        let found = current::cached_location(cache_index(address))?;
        // SAFETY: a value of this processor, which nothing else writes to meanwhile.
        let is_known = unsafe { (*found).is_of(address, self.epoch, self.tgid) };
        if !is_known {
            look_up(address);
        }
        // SAFETY: as above, and the look-up is over.
        let found = unsafe { &*found };
        current::thread_cache(self.tid)?
            .location(stack_pointer)
            .set(found);
        Some(&found.location)
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
    let sampler: *const Sampler = current::sampler()?;
    // SAFETY: the walk that needs the address refers to other parts of the sample.
    let (epoch, tgid, mappings, now_ns) = unsafe {
        (
            (*sampler).mappings_epoch.get(),
            (*sampler).tgid.get(),
            (*sampler).mapping_count.get(),
            (*sampler).time_ns.get(),
        )
    };
    let cached = current::cached_location(cache_index(address))?;
    // SAFETY: a value of this processor, which nothing else refers to meanwhile.
    let cached = unsafe { &mut *cached };
    cached.address = address;
    cached.epoch = epoch;
    cached.location = CodeLocation::NOWHERE;
    if mappings == 0 {
        return None;
    }
    let mapping = MAPPINGS.get(index)?;
    if address < mapping.start || address >= mapping.end {
        return None;
    }
    if mapping.executable == Mapping::ANONYMOUS {
        cached.location.kind = NativeKind::ANONYMOUS;
        cached.location.address = address;
        cached.location.file_or_pid = tgid;
        return Some(());
    }
    cached.location.kind = NativeKind::FILE;
    cached.location.address = address.wrapping_sub(mapping.bias);
    cached.location.file_or_pid = mapping.executable;
    let table = TABLES.get(mapping.table)?;
    cached.location.table = table.state;
    if table.state == TableState::LOADED {
        let rule = find_rule(mapping.table, cached.location.address);
        cached.location.rule = *RULES.get(rule)?;
    } else if table.state != TableState::NONE {
        // Looked up again until the table is loaded.
        cached.epoch = u64::MAX;
        request_table(mapping, tgid, now_ns);
    }
    Some(())
}

/// Requests the table of a mapping, unless that was done lately.
#[inline(always)]
fn request_table(mapping: &Mapping, tgid: u32, now_ns: u64) -> Option<()> {
    let requested_ns = TABLE_REQUESTS.get_ptr_mut(mapping.table)?;
    // SAFETY: values of the map stay readable and writable while the program runs; another
    // processor may request the table as well, which is harmless.
    unsafe {
        let is_due = now_ns.wrapping_sub(*requested_ns) >= REQUEST_AGAIN_NS;
        if is_due && emit::wanted_table(mapping.executable, tgid) {
            *requested_ns = now_ns;
        }
    }
    Some(())
}

/// The index of the mapping in which `address` may be.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_mapping(address: u64) -> u32 {
    let (Some(sampler), Some(search)) = (current::sampler(), current::address_search()) else {
        return 0;
    };
    let (first, count) = (sampler.first_mapping.get(), sampler.mapping_count.get());
    search.mapping.find(&MappingArray, first, count, address)
}

/// The index of the rule that the table with this index has for an address of its file.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_rule(table: u32, address: u64) -> u32 {
    let (Some(table), Some(search)) = (TABLES.get(table), current::address_search()) else {
        return 0;
    };
    let distance = address.wrapping_sub(table.base);
    let Some(rows) = TABLE_MAPS.get(table.map) else {
        return 0;
    };
    let words = LoadedTable { table, rows };
    u32::from(search.rule.find(&words, table.pages, distance))
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
    rows: &'a Rows,
}

impl TableWords for LoadedTable<'_> {
    #[inline(always)]
    fn word(&self, index: u32) -> u32 {
        let block = self
            .table
            .first_block
            .wrapping_add(index / BLOCK_WORDS as u32);
        match self.rows.get(block) {
            Some(block) => block[masked(index, BLOCK_WORDS as u32 - 1) as usize],
            None => 0,
        }
    }
}
