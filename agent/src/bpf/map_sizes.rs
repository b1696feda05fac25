//! How many entries the maps have: those of a host's agent hold what all of its processes need,
//! those of a capture what one program and its children do.
//!
//! Invariants: the maps of a capture take less than 8 MB, those of a host's agent less than 24 MB
//! without unwind tables; the maps that are named here evict or count what finds them full.

use agent_common::limits::{
    ANNOUNCING_THREADS, CACHED_LOCATIONS, HOST_LOCK_WAITS, HOST_SWITCHED_THREADS,
    HOST_THREAD_CACHES, MAX_KNOWN_THREADS, MAX_MAPPINGS, MAX_NOTED_THREADS, MAX_PAGES,
    PROGRAM_LOCK_WAITS, PROGRAM_SWITCHED_THREADS, PROGRAM_THREAD_CACHES,
};
use aya::EbpfLoader;

use super::{
    allocators::ALLOCATORS,
    lock_waits::LOCK_WAITS,
    process_map::{self, PROCESS_STATES, PROCESSES},
    switches::SWITCHED_THREADS,
    thread_visits::{KNOWN_THREADS, NOTED_THREADS, VISITED_PROCESSES},
};

/// Entries of a map in a capture, and on a host.
struct Size {
    map: &'static str,
    of_program: u32,
    of_host: u32,
}

/// The maps whose size depends on what is profiled, apart from [`PROCESSES`], [`PROCESS_STATES`],
/// [`VISITED_PROCESSES`], [`KNOWN_THREADS`], [`NOTED_THREADS`], [`LOCK_WAITS`], [`SWITCHED_THREADS`] and those of
/// [`GROWTH_SIZES`].
const SIZES: [Size; 9] = [
    Size::new("CODE_OBJECTS", 6 << 10, 12 << 10),
    Size::new("MAPPINGS", MAX_MAPPINGS / 4, MAX_MAPPINGS),
    // In bytes.
    Size::new("RECORDS", 2 << 20, 4 << 20),
    Size::new("SENT_NATIVE_STACKS", 4 << 10, 12 << 10),
    Size::new("SENT_STACKS", 4 << 10, 12 << 10),
    Size::new("SENT_SYMBOLS", 4 << 10, 12 << 10),
    Size::new("SENT_TASKS", 512, 4 << 10),
    Size::new("THREADS", 2 << 10, 8 << 10),
    Size::new("THREAD_CACHES", PROGRAM_THREAD_CACHES, HOST_THREAD_CACHES),
];

/// The maps of the growth of memory, with their sizes where that is profiled.
const GROWTH_SIZES: [Size; 2] = [
    Size::new("COUNTED_PAGES", 2 << 10, 16 << 10),
    Size::new("PROCESS_PAGES", 512, 4 << 10),
];

impl Size {
    const fn new(map: &'static str, of_program: u32, of_host: u32) -> Self {
        Self {
            map,
            of_program,
            of_host,
        }
    }

    fn entries(&self, whole_host: bool) -> u32 {
        if whole_host {
            self.of_host
        } else {
            self.of_program
        }
    }
}

/// Sets the sizes of the maps.
pub(super) fn set(
    loader: &mut EbpfLoader<'_>,
    whole_host: bool,
    has_visits: bool,
    lock_releases: bool,
) {
    let known_threads = if has_visits { MAX_KNOWN_THREADS } else { 1 };
    loader.map_max_entries(KNOWN_THREADS, known_threads);
    let processes = process_map::max_processes(whole_host);
    loader.map_max_entries(VISITED_PROCESSES, if has_visits { processes } else { 1 });
    let noted_threads = if has_visits { MAX_NOTED_THREADS } else { 1 };
    loader.map_max_entries(NOTED_THREADS, noted_threads);
    let lock_waits = match (lock_releases, whole_host) {
        (false, _) => 1,
        (true, false) => PROGRAM_LOCK_WAITS,
        (true, true) => HOST_LOCK_WAITS,
    };
    loader.map_max_entries(LOCK_WAITS, lock_waits);
    for map in [PROCESSES, PROCESS_STATES] {
        loader.map_max_entries(map, processes);
    }
    for size in &SIZES {
        loader.map_max_entries(size.map, size.entries(whole_host));
    }
}

/// Sets the size of the map of threads whose context switches are traced.
pub(super) fn set_switches(loader: &mut EbpfLoader<'_>, whole_host: bool, switches: bool) {
    let threads = match (switches, whole_host) {
        (false, _) => 1,
        (true, false) => PROGRAM_SWITCHED_THREADS,
        (true, true) => HOST_SWITCHED_THREADS,
    };
    loader.map_max_entries(SWITCHED_THREADS, threads);
}

/// The maps with the values of a sample, of which there are two where there are probes: entries of one.
const VALUES_OF_SAMPLE: [(&str, u32); 7] = [
    ("SAMPLER", 1),
    ("NATIVE_SAMPLER", 1),
    ("ADDRESS_SEARCH", 1),
    ("CODE_CACHE", 1),
    ("CODE_OBJECT_RECORD", 1),
    ("THREAD_NAME", 1),
    ("LOCATIONS", CACHED_LOCATIONS),
];

/// Sets the sizes of the maps that probes need.
pub(super) fn set_probes(loader: &mut EbpfLoader<'_>, exceptions: bool, allocations: bool) {
    let has_probes = exceptions || allocations;
    let samples = if has_probes { 2 } else { 1 };
    for (map, entries) in VALUES_OF_SAMPLE {
        loader.map_max_entries(map, samples * entries);
    }
    let names = if exceptions { 1 << 10 } else { 1 };
    loader.map_max_entries("SENT_EXCEPTIONS", names);
    let processors = if has_probes { 1 << 12 } else { 1 };
    loader.map_max_entries("IN_PROBE", processors);
    let threads = if allocations { 1 << 12 } else { 1 };
    loader.map_max_entries("LARGE_ALLOCATIONS", threads);
    let processes = if allocations { 1 << 12 } else { 1 };
    loader.map_max_entries(ALLOCATORS, processes);
    let threads = if allocations { ANNOUNCING_THREADS } else { 1 };
    loader.map_max_entries("LAST_ALLOCATIONS", threads);
}

/// Sets the sizes of the maps with which growth of memory is found, and where it is looked at again.
pub(super) fn set_growth(loader: &mut EbpfLoader<'_>, whole_host: bool, growth: bool, pages: bool) {
    loader.map_max_entries("PAGES", if pages { MAX_PAGES } else { 1 });
    for size in &GROWTH_SIZES {
        let entries = if growth { size.entries(whole_host) } else { 1 };
        loader.map_max_entries(size.map, entries);
    }
}
