//! The maps and the settings.
//!
//! Every map says who writes, who reads and what happens when it is full. Sizes are those of a
//! one-off capture; the user half may change them before loading.

use agent_common::{
    counter::Counter,
    layout::{KernelLayout, Layout},
    limits::{MAX_EXECUTABLES, MAX_LAYOUTS, MAX_MAPPINGS, MAX_RULES},
    maps::{CachedCode, CodeKey, Control, Mapping, TableLocation, TrackedProcess, TrackedThread},
    python::CodeObjectRecord,
    unwind::{BLOCK_WORDS, Rule},
};
use aya_ebpf::{
    Global, btf_maps,
    macros::{btf_map, map},
    maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf},
};

use crate::values::{CachedLocation, CodeCache, NativeSampler, Sampler, ThreadNameRecord};

/// Code addresses that a processor remembers; a power of two.
pub(crate) const CACHED_LOCATIONS: u32 = 1024;

/// Records for the user half. When it is full the record is dropped and counted.
#[map]
pub(crate) static RECORDS: RingBuf = RingBuf::with_byte_size(4 << 20, 0);

/// Process id (initial namespace) to what is known of the process. Written by the user half, and
/// by the kernel half when such a process starts another; read at every tick. When it is full
/// the process is not profiled, which is reported or counted.
#[map]
pub(crate) static PROCESSES: HashMap<u32, TrackedProcess> = HashMap::with_max_entries(4096, 0);

/// Index to layout. Written by the user half, read at every sample.
#[map]
pub(crate) static LAYOUTS: Array<Layout> = Array::with_max_entries(MAX_LAYOUTS, 0);

/// Thread id (initial namespace) to its thread state. Written and read by the kernel half; the
/// least recently used thread gives way and is searched anew.
#[map]
pub(crate) static THREADS: LruHashMap<u32, TrackedThread> = LruHashMap::with_max_entries(16_384, 0);

/// Code object to its symbol. Written and read by the kernel half; the least recently used
/// gives way and is read anew.
#[map]
pub(crate) static CODE_OBJECTS: LruHashMap<CodeKey, CachedCode> =
    LruHashMap::with_max_entries(32_768, 0);

/// What a processor has looked up in `CODE_OBJECTS` lately. Written and read by the kernel half.
#[map]
pub(crate) static CODE_CACHE: PerCpuArray<CodeCache> = PerCpuArray::with_max_entries(1, 0);

/// Symbols and when they were sent. Written and read by the kernel half; one that gave way is
/// sent again, which does no harm.
#[map]
pub(crate) static SENT_SYMBOLS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(65_536, 0);

/// Stacks that were sent; likewise.
#[map]
pub(crate) static SENT_STACKS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(65_536, 0);

/// What is counted, see [`Counter`]. Written by the kernel half, read by the user half.
#[map]
pub(crate) static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::COUNT, 0);

/// The sample in the making. Only one at a time is made on a processor: the clock's interrupt
/// does not interrupt itself.
#[map]
pub(crate) static SAMPLER: PerCpuArray<Sampler> = PerCpuArray::with_max_entries(1, 0);

/// The record of a code object in the making.
#[map]
pub(crate) static CODE_OBJECT_RECORD: PerCpuArray<CodeObjectRecord> =
    PerCpuArray::with_max_entries(1, 0);

/// The record of a thread's name in the making.
#[map]
pub(crate) static THREAD_NAME: PerCpuArray<ThreadNameRecord> = PerCpuArray::with_max_entries(1, 0);

/// The mappings of all processes, those of one side by side and sorted. Written by the user half,
/// read for code addresses that are not remembered.
#[map]
pub(crate) static MAPPINGS: Array<Mapping> = Array::with_max_entries(MAX_MAPPINGS, 0);

/// Where the unwind tables of executable files are. Written by the user half; the kernel half notes
/// in it that it has asked for one.
#[map]
pub(crate) static TABLES: Array<TableLocation> = Array::with_max_entries(MAX_EXECUTABLES, 0);

/// `BPF_F_INNER_MAP`: maps of any length may take the place of this one.
const INNER_MAP: usize = 1 << 12;

/// Most maps that hold unwind tables at the same time.
const MAX_TABLE_MAPS: usize = 4096;

/// The maps that hold unwind tables, each as large as what it holds. Written by the user half.
///
/// A value is a block, but not by that name: Linux 5.15 to 6.2 take a map whose value is known to be
/// a structure for another kind of map than one of which that is not told.
#[btf_map]
pub(crate) static TABLE_MAPS: btf_maps::ArrayOfMaps<
    btf_maps::Array<[u32; BLOCK_WORDS], 1, INNER_MAP>,
    MAX_TABLE_MAPS,
> = btf_maps::ArrayOfMaps::new();

/// The rules of all unwind tables. Written by the user half.
#[map]
pub(crate) static RULES: Array<Rule> = Array::with_max_entries(MAX_RULES, 0);

/// What a processor has found out about code addresses lately. Written and read by the kernel
/// half.
#[map]
pub(crate) static LOCATIONS: PerCpuArray<CachedLocation> =
    PerCpuArray::with_max_entries(CACHED_LOCATIONS, 0);

/// The native stack in the making.
#[map]
pub(crate) static NATIVE_SAMPLER: PerCpuArray<NativeSampler> = PerCpuArray::with_max_entries(1, 0);

/// Native stacks that were sent; see `SENT_STACKS`.
#[map]
pub(crate) static SENT_NATIVE_STACKS: LruHashMap<u64, u64> =
    LruHashMap::with_max_entries(65_536, 0);

/// What may change at any time. Written by the user half, read at every sample.
#[map]
pub(crate) static CONTROL: Array<Control> = Array::with_max_entries(1, 0);

/// 1 when every process is sampled, of which the user half excludes some.
#[unsafe(no_mangle)]
pub(crate) static WHOLE_HOST: Global<u32> = Global::new(0);

/// 1 when native and kernel frames are wanted.
#[unsafe(no_mangle)]
pub(crate) static WITH_NATIVE: Global<u32> = Global::new(1);

/// Seed of all hashes, drawn anew for every run.
#[unsafe(no_mangle)]
pub(crate) static HASH_SEED: Global<u64> = Global::new(0);

/// Where the fields of the kernel's own structures are.
#[unsafe(no_mangle)]
pub(crate) static KERNEL_LAYOUT: Global<KernelLayout> = Global::new(KernelLayout {
    thread_pointer: 0,
    pid: 0,
    tgid: 0,
    flags: 0,
    switches: 0,
    memory: 0,
    executable_pages: 0,
    signal: 0,
    live_threads: 0,
    stack: 0,
    registers: 0,
});

/// Whether something was sent that the user half has not forgotten since.
#[inline(always)]
pub(crate) fn is_sent(sent: &LruHashMap<u64, u64>, hash: u64, resend_before_ns: u64) -> bool {
    // SAFETY: values of the map stay readable while the program runs.
    sent.get_ptr(hash)
        .is_some_and(|sent_ns| unsafe { *sent_ns } >= resend_before_ns)
}

/// Adds one to a counter.
#[inline(always)]
pub(crate) fn count(counter: Counter) {
    if let Some(value) = COUNTERS.get_ptr_mut(counter.0) {
        // SAFETY: the value is this processor's own and nothing interrupts the program to
        // change it.
        unsafe { *value += 1 };
    }
}
