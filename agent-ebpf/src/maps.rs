//! The maps and the settings.
//!
//! Every map says who writes, who reads and what happens when it is full. Sizes are those of a
//! one-off capture; the user half may change them before loading.

use agent_common::{
    code::{CodeKey, Description, Known},
    counter::Counter,
    kernel::KernelLayout,
    layout::Layout,
    limits::MAX_LAYOUTS,
    maps::{Process, Thread},
};
use aya_ebpf::{
    Global,
    macros::map,
    maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf},
};

use crate::{code_objects::Memo, sampler::Sampler, steps::Naming};

/// Records for the user half. When it is full the record is dropped and counted.
#[map]
pub(crate) static RECORDS: RingBuf = RingBuf::with_byte_size(4 << 20, 0);

/// Process id (initial namespace) to what is known of the process. Written by the user half, and
/// by the kernel half when such a process starts another; read at every tick. When it is full
/// the process is not profiled, which is reported or counted.
#[map]
pub(crate) static PROCESSES: HashMap<u32, Process> = HashMap::with_max_entries(4096, 0);

/// Index to layout. Written by the user half, read at every sample.
#[map]
pub(crate) static LAYOUTS: Array<Layout> = Array::with_max_entries(MAX_LAYOUTS, 0);

/// Thread id (initial namespace) to its thread state. Written and read by the kernel half; the
/// least recently used thread gives way and is searched anew.
#[map]
pub(crate) static THREADS: LruHashMap<u32, Thread> = LruHashMap::with_max_entries(16_384, 0);

/// Code object to its symbol. Written and read by the kernel half; the least recently used
/// gives way and is read anew.
#[map]
pub(crate) static CODE_OBJECTS: LruHashMap<CodeKey, Known> =
    LruHashMap::with_max_entries(32_768, 0);

/// What a processor has looked up in `CODE_OBJECTS` lately. Written and read by the kernel half.
#[map]
pub(crate) static MEMO: PerCpuArray<Memo> = PerCpuArray::with_max_entries(1, 0);

/// Symbols that were sent. Written and read by the kernel half; one that gave way is sent
/// again, which does no harm.
#[map]
pub(crate) static SENT_SYMBOLS: LruHashMap<u64, u8> = LruHashMap::with_max_entries(65_536, 0);

/// Stacks that were sent; likewise.
#[map]
pub(crate) static SENT_STACKS: LruHashMap<u64, u8> = LruHashMap::with_max_entries(65_536, 0);

/// What is counted, see [`Counter`]. Written by the kernel half, read by the user half.
#[map]
pub(crate) static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::COUNT, 0);

/// The sample in the making. Only one at a time is made on a processor: the clock's interrupt
/// does not interrupt itself.
#[map]
pub(crate) static SAMPLER: PerCpuArray<Sampler> = PerCpuArray::with_max_entries(1, 0);

/// The record of a code object in the making.
#[map]
pub(crate) static DESCRIPTION: PerCpuArray<Description> = PerCpuArray::with_max_entries(1, 0);

/// The record of a thread's name in the making.
#[map]
pub(crate) static NAMING: PerCpuArray<Naming> = PerCpuArray::with_max_entries(1, 0);

/// Seed of all hashes, drawn anew for every run.
#[unsafe(no_mangle)]
pub(crate) static HASH_SEED: Global<u64> = Global::new(0);

/// Time between two samples, in nanoseconds.
#[unsafe(no_mangle)]
pub(crate) static PERIOD_NS: Global<u64> = Global::new(1);

/// Where the fields of the kernel's own structures are.
#[unsafe(no_mangle)]
pub(crate) static KERNEL_LAYOUT: Global<KernelLayout> = Global::new(KernelLayout {
    thread_pointer: 0,
    tgid: 0,
    switches: 0,
    memory: 0,
    executable_pages: 0,
    signal: 0,
    live_threads: 0,
});

/// Adds one to a counter.
#[inline(always)]
pub(crate) fn count(counter: Counter) {
    if let Some(value) = COUNTERS.get_ptr_mut(counter.0) {
        // SAFETY: the value is this processor's own and nothing interrupts the program to
        // change it.
        unsafe { *value += 1 };
    }
}
