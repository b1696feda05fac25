//! The maps and the settings.
//!
//! Each map states who writes it, who reads it and what happens when it is full. The agent sets the
//! sizes of the larger ones before it loads them, by what it profiles.

use agent_common::{
    counter::Counter,
    layout::{KernelLayout, Layout, ResidentLayout},
    limits::{
        CACHED_LOCATIONS, HOST_LOCK_WAITS, HOST_SWITCHED_THREADS, HOST_THREAD_CACHES,
        MAX_EXECUTABLES, MAX_KNOWN_THREADS, MAX_LAYOUTS, MAX_MAPPINGS, MAX_NOTED_THREADS,
        MAX_PAGES, MAX_RULES,
    },
    maps::{
        AllocationSettings, AllocatorCode, CachedCode, CodeKey, Control, LockWait, Mapping,
        PageKey, ProcessState, RaiseGaps, RaiseWindows, SYSTEM_CALLS, SwitchedThread,
        TableLocation, TrackedProcess, TrackedThread, WaitClass,
    },
    python::CodeObjectRecord,
    record::StartedWait,
    stack_budget::StackBudget,
    unwind::{BLOCK_WORDS, Rule},
    visit::{KnownThread, Pass, WholeVisit},
};
use aya_ebpf::{
    Global, btf_maps,
    macros::{btf_map, map},
    maps::{Array, HashMap, LruHashMap, PerCpuArray, ProgramArray, RingBuf},
};

use crate::values::{
    AddressSearch, CachedLocation, CodeCache, CountedPages, DueAllocation, LastAllocation, Moves,
    NativeSampler, PendingFault, ProcessCounters, ProcessPages, SampledAllocations, Sampler, Slots,
    Switches, ThreadCache, ThreadNameRecord, VisitedProcess, Wakes,
};

/// Records for the agent. When it is full the record is dropped and counted.
#[map]
pub(crate) static RECORDS: RingBuf = RingBuf::with_byte_size(4 << 20, 0);

/// Process id (initial namespace) to what is known about it. The BPF programs add an entry when a
/// process is started, and remove it when it ends; in between only the agent writes it. Read at every
/// tick. When it is full the process is not profiled, which is reported or counted.
#[map]
pub(crate) static PROCESSES: HashMap<u32, TrackedProcess> = HashMap::with_max_entries(4096, 0);

/// Process id, as in `PROCESSES`, to what the BPF programs note about it. Written by them, read at
/// every tick and by the agent. It has the size of `PROCESSES`, and an entry only for what has one
/// there.
#[map]
pub(crate) static PROCESS_STATES: HashMap<u32, ProcessState> = HashMap::with_max_entries(4096, 0);

/// Index to layout. Written by the agent, read at every sample.
#[map]
pub(crate) static LAYOUTS: Array<Layout> = Array::with_max_entries(MAX_LAYOUTS, 0);

/// Thread id (initial namespace) to its thread states and name. Written and read by the BPF
/// programs; the least recently used thread is evicted, and its state searched again.
#[map]
pub(crate) static THREADS: LruHashMap<u32, TrackedThread> = LruHashMap::with_max_entries(16_384, 0);

/// Code object to its symbol. Written and read by the BPF programs; the least recently used one is
/// evicted, and read again.
#[map]
pub(crate) static CODE_OBJECTS: LruHashMap<CodeKey, CachedCode> =
    LruHashMap::with_max_entries(32_768, 0);

/// A table per processor in front of `CODE_OBJECTS`. Written and read by the BPF programs.
#[map]
pub(crate) static CODE_CACHE: PerCpuArray<CodeCache> = PerCpuArray::with_max_entries(1, 0);

/// Symbols and when they were sent. Written and read by the BPF programs; an evicted one is sent
/// again, which is harmless.
#[map]
pub(crate) static SENT_SYMBOLS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(65_536, 0);

/// Hashes of Python stacks and when they were sent; as `SENT_SYMBOLS`.
#[map]
pub(crate) static SENT_STACKS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(65_536, 0);

/// See [`Counter`]. Written by the BPF programs, read by the agent.
#[map]
pub(crate) static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::COUNT, 0);

/// The current sample. All triggers that take samples share it: on one processor none of them
/// interrupts another, but for what `triggers::lock_releases` says.
#[map]
pub(crate) static SAMPLER: PerCpuArray<Sampler> = PerCpuArray::with_max_entries(1, 0);

/// Which of the values of a processor are in use: there are two of each that a sample needs where there are
/// [probes](WITH_PROBES), since what a probe does may be interrupted by a trigger. Written and read by the BPF
/// programs.
#[map]
pub(crate) static SLOTS: PerCpuArray<Slots> = PerCpuArray::with_max_entries(1, 0);

/// The processors on which a thread is in a probe, which may be interrupted there. Written by the BPF programs.
#[map]
pub(crate) static IN_PROBE: HashMap<u32, u32> = HashMap::with_max_entries(1, 0);

/// When exceptions are recorded. Written by the agent, read by the probe.
#[map]
pub(crate) static RAISE_WINDOWS: Array<RaiseWindows> = Array::with_max_entries(1, 0);

/// How long it takes programs from one exception to the next, by processor. Written by the probe, read by the agent.
#[map]
pub(crate) static RAISE_GAPS: PerCpuArray<RaiseGaps> = PerCpuArray::with_max_entries(1, 0);

/// Which allocations are sampled. Written by the agent, read by the probes.
#[map]
pub(crate) static ALLOCATION_SETTINGS: Array<AllocationSettings> = Array::with_max_entries(1, 0);

/// How far the allocations of each processor are from the next sample: those of functions, and those that are
/// announced. Written and read by the probes.
#[map]
pub(crate) static SAMPLED_ALLOCATIONS: PerCpuArray<SampledAllocations> =
    PerCpuArray::with_max_entries(2, 0);

/// The allocation that is being sampled on each processor, by the thread that is in `IN_PROBE`.
#[map]
pub(crate) static DUE_ALLOCATION: PerCpuArray<DueAllocation> = PerCpuArray::with_max_entries(1, 0);

/// Thread id (initial namespace) to the size of its last large allocation, for which the C library may map memory.
/// Written and read by the probes; where there is no room such memory may count twice.
#[map]
pub(crate) static LARGE_ALLOCATIONS: LruHashMap<u32, u64> = LruHashMap::with_max_entries(1, 0);

/// Process id (initial namespace) to the code of the allocator that it has instead of the C library's. Written by the
/// agent, read by the probes; where there is no room, what the allocator maps for itself counts too.
#[map]
pub(crate) static ALLOCATORS: LruHashMap<u32, AllocatorCode> = LruHashMap::with_max_entries(1, 0);

/// How many processes announce allocations. Written by the agent.
#[map]
pub(crate) static ANNOUNCERS: Array<u32> = Array::with_max_entries(1, 0);

/// What threads of them have last asked a function with a probe for, by the lower bits of their ids. Written and read
/// by the probes.
#[map]
pub(crate) static LAST_ALLOCATIONS: Array<LastAllocation> = Array::with_max_entries(1, 0);

/// The program that takes the sample of an allocation, which the probes end with. Written by the agent.
#[map]
pub(crate) static ALLOCATION_SAMPLER: ProgramArray = ProgramArray::with_max_entries(1, 0);

/// Hashes of the names of exceptions and when they were sent; as `SENT_SYMBOLS`.
#[map]
pub(crate) static SENT_EXCEPTIONS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(4096, 0);

/// Hashes of the names of tasks and when they were sent; as `SENT_SYMBOLS`.
#[map]
pub(crate) static SENT_TASKS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(4096, 0);

/// The record of the code object that is being read; shared as `SAMPLER` is.
#[map]
pub(crate) static CODE_OBJECT_RECORD: PerCpuArray<CodeObjectRecord> =
    PerCpuArray::with_max_entries(1, 0);

/// The record of the thread name that is being read; shared as `SAMPLER` is.
#[map]
pub(crate) static THREAD_NAME: PerCpuArray<ThreadNameRecord> = PerCpuArray::with_max_entries(1, 0);

/// The mappings of all processes, those of one process side by side and sorted. Written by the
/// agent, read for code addresses that are not in `LOCATIONS`.
#[map]
pub(crate) static MAPPINGS: Array<Mapping> = Array::with_max_entries(MAX_MAPPINGS, 0);

/// Where the unwind tables of executable files are. Written by the agent, read for code addresses that
/// are not in `LOCATIONS`.
#[map]
pub(crate) static TABLES: Array<TableLocation> = Array::with_max_entries(MAX_EXECUTABLES, 0);

/// When each of `TABLES` was last requested, in nanoseconds of the monotonic clock. Written and read by
/// the BPF programs.
#[map]
pub(crate) static TABLE_REQUESTS: Array<u64> = Array::with_max_entries(MAX_EXECUTABLES, 0);

/// `BPF_F_INNER_MAP`: maps of any length may take the place of this one.
const INNER_MAP: usize = 1 << 12;

/// Maximum number of maps with unwind tables.
const MAX_TABLE_MAPS: usize = 4096;

/// The maps with unwind tables, each as large as its contents. Written by the agent.
///
/// A value is a `Block`, but declared as an array: Linux 5.15 to 6.2 treat a map whose BTF declares
/// a structure as its value and a map without BTF as different types of map.
#[btf_map]
pub(crate) static TABLE_MAPS: btf_maps::ArrayOfMaps<Rows, MAX_TABLE_MAPS> =
    btf_maps::ArrayOfMaps::new();

/// One of the maps with unwind tables.
pub(crate) type Rows = btf_maps::Array<[u32; BLOCK_WORDS], 1, INNER_MAP>;

/// The rules of all unwind tables. Written by the agent, read for code addresses that are not in
/// `LOCATIONS`.
#[map]
pub(crate) static RULES: Array<Rule> = Array::with_max_entries(MAX_RULES, 0);

/// Code addresses that a processor has looked up, by their hash. Written and read by the BPF
/// programs; an address replaces another one with the same hash.
#[map]
pub(crate) static LOCATIONS: PerCpuArray<CachedLocation> =
    PerCpuArray::with_max_entries(CACHED_LOCATIONS, 0);

/// What the samples of a thread have in common, by the low bits of its id. Written and read by the
/// BPF programs; threads with the same bits replace each other's entries.
#[map]
pub(crate) static THREAD_CACHES: Array<ThreadCache> =
    Array::with_max_entries(HOST_THREAD_CACHES, 0);

/// When each processor wakes the agent. Written and read by the BPF programs.
#[map]
pub(crate) static WAKES: PerCpuArray<Wakes> = PerCpuArray::with_max_entries(1, 0);

/// What each processor may copy of stacks. Written and read by the BPF programs.
#[map]
pub(crate) static STACK_BUDGETS: PerCpuArray<StackBudget> = PerCpuArray::with_max_entries(1, 0);

/// 1 when a processor is to wake the agent as soon as it may: the one that has sent something urgent may
/// be idle until then. Written and read by the BPF programs.
#[map]
pub(crate) static URGENT: Array<u32> = Array::with_max_entries(1, 0);

/// The searches for a code address; shared as `SAMPLER` is.
#[map]
pub(crate) static ADDRESS_SEARCH: PerCpuArray<AddressSearch> = PerCpuArray::with_max_entries(1, 0);

/// The native part of the current sample; shared as `SAMPLER` is.
#[map]
pub(crate) static NATIVE_SAMPLER: PerCpuArray<NativeSampler> = PerCpuArray::with_max_entries(1, 0);

/// Hashes of native stacks and when they were sent; as `SENT_SYMBOLS`.
#[map]
pub(crate) static SENT_NATIVE_STACKS: LruHashMap<u64, u64> =
    LruHashMap::with_max_entries(65_536, 0);

/// `BPF_F_NO_PREALLOC`: entries take memory when they are there.
const NO_PREALLOCATION: u32 = 1;

/// Threads whose stacks the agent has. Written by the agent, read for each thread of each pass; threads that
/// find no room are counted, and have no stacks.
#[map]
pub(crate) static KNOWN_THREADS: HashMap<u32, KnownThread> =
    HashMap::with_max_entries(MAX_KNOWN_THREADS, NO_PREALLOCATION);

/// The number of the chunk of threads whose stacks are being read. Written by the agent, read for each
/// thread of the second part of a pass.
#[map]
pub(crate) static CHUNK: Array<u64> = Array::with_max_entries(1, 0);

/// Threads that wait for locks, and the ends of whose waits are to be recorded. Written by the agent; an entry is
/// removed by the BPF program that records the end. Read each time that a thread is woken. When it is full nothing
/// is recorded of the wait's end.
#[map]
pub(crate) static LOCK_WAITS: HashMap<u32, LockWait> =
    HashMap::with_max_entries(HOST_LOCK_WAITS, 0);

/// Thread id (initial namespace) to its last context switch, where these are traced. Written by the BPF programs, read
/// by them and in passes; an entry is removed when its thread ends. When it is full, switches of other threads are
/// counted, and their waits are sampled by passes alone.
#[map]
pub(crate) static SWITCHED_THREADS: HashMap<u32, SwitchedThread> =
    HashMap::with_max_entries(HOST_SWITCHED_THREADS, 0);

/// The context switches of each processor. Written and read by the BPF programs.
#[map]
pub(crate) static SWITCHES: PerCpuArray<Switches> = PerCpuArray::with_max_entries(1, 0);

/// The record of the sampled wait that begins on each processor.
#[map]
pub(crate) static STARTED_WAIT: PerCpuArray<StartedWait> = PerCpuArray::with_max_entries(1, 0);

/// System call to what it waits for. Written by the agent, read at each traced context switch.
#[map]
pub(crate) static WAIT_CLASSES: Array<WaitClass> = Array::with_max_entries(SYSTEM_CALLS, 0);

/// What is recorded of the visited thread. One pass at a time uses it.
#[map]
pub(crate) static VISIT: PerCpuArray<WholeVisit> = PerCpuArray::with_max_entries(1, 0);

/// The process of the thread that the kernel's iterator has visited last. One pass at a time uses it.
#[map]
pub(crate) static LAST_VISITED: PerCpuArray<VisitedProcess> = PerCpuArray::with_max_entries(1, 0);

/// How far the present pass has come. Written by the agent before each, and by the BPF programs.
#[map]
pub(crate) static PASS: Array<Pass> = Array::with_max_entries(1, 0);

/// The processes whose threads the present pass visits. Written and read by the BPF programs; it has as many entries as
/// [`PROCESSES`].
#[map]
pub(crate) static VISITED_PROCESSES: Array<u32> = Array::with_max_entries(1, 0);

/// The threads that are to be visited again. Written by the agent, which takes them in parts, read by the BPF programs.
#[map]
pub(crate) static NOTED_THREADS: Array<u32> = Array::with_max_entries(MAX_NOTED_THREADS, 0);

/// The pages by which processes have grown and of which there is a record. Written and read by the BPF programs; of the
/// least recently used one, which is evicted, it is not known when it is gone and another one is at its address.
#[map]
pub(crate) static PAGES: LruHashMap<PageKey, u32> = LruHashMap::with_max_entries(MAX_PAGES, 0);

/// The moves of memory that each processor has recorded lately. Written and read by the BPF programs.
#[map]
pub(crate) static MOVES: PerCpuArray<Moves> = PerCpuArray::with_max_entries(1, 0);

/// The page fault that the kernel resolves on each processor, see
/// [`copy_on_write`](crate::triggers::copy_on_write). Written and read by the BPF programs.
#[map]
pub(crate) static PENDING_FAULTS: PerCpuArray<PendingFault> = PerCpuArray::with_max_entries(1, 0);

/// What each processor or thread has counted of a process's resident pages, see
/// [`resident`](crate::resident). Written and read by the BPF programs; the least recently used one is
/// evicted, and what changed since it was read is not accounted for.
#[map]
pub(crate) static COUNTED_PAGES: LruHashMap<u64, CountedPages> =
    LruHashMap::with_max_entries(16_384, 0);

/// Process id to what is counted of its resident pages for all its threads; as `COUNTED_PAGES`.
#[map]
pub(crate) static PROCESS_PAGES: LruHashMap<u32, ProcessPages> =
    LruHashMap::with_max_entries(4096, 0);

/// The counters of the process whose fault is being read, on each processor.
#[map]
pub(crate) static PROCESS_COUNTERS: PerCpuArray<ProcessCounters> =
    PerCpuArray::with_max_entries(1, 0);

/// The distance of this processor's own memory, 0 until it is known. Written and read by the BPF programs.
#[map]
pub(crate) static PROCESSOR_MEMORY: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Settings that may change at any time. Written by the agent, read at every sample.
#[map]
pub(crate) static CONTROL: Array<Control> = Array::with_max_entries(1, 0);

/// 1 when every process is sampled that the agent does not exclude.
#[unsafe(no_mangle)]
pub(crate) static WHOLE_HOST: Global<u32> = Global::new(0);

/// 1 when the agent is to be told of programs that are executed by processes that are not profiled.
#[unsafe(no_mangle)]
pub(crate) static WITH_APPEARED: Global<u32> = Global::new(0);

/// 1 to sample native and kernel frames.
#[unsafe(no_mangle)]
pub(crate) static WITH_NATIVE: Global<u32> = Global::new(1);

/// 1 to copy the stacks of threads whose native frames cannot be walked to their end yet.
#[unsafe(no_mangle)]
pub(crate) static WITH_STACK_COPIES: Global<u32> = Global::new(1);

/// 1 to record exceptions too by which iterators, generators and tasks end.
#[unsafe(no_mangle)]
pub(crate) static WITH_CONTROL_FLOW: Global<u32> = Global::new(0);

/// 1 when there are probes in the profiled programs.
#[unsafe(no_mangle)]
pub(crate) static WITH_PROBES: Global<u32> = Global::new(0);

/// 1 when it is recorded where the memory is by which processes grow.
#[unsafe(no_mangle)]
pub(crate) static WITH_PAGES: Global<u32> = Global::new(0);

/// 1 when context switches are traced.
#[unsafe(no_mangle)]
pub(crate) static WITH_SWITCHES: Global<u32> = Global::new(0);

/// Context switches that are sampled on a processor in a window, before fewer of them are.
#[unsafe(no_mangle)]
pub(crate) static MAX_PROCESSOR_WAITS: Global<u32> = Global::new(0);

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
    on_cpu: 0,
    processor: 0,
    state: 0,
    start_time: 0,
    run_time: 0,
    run_time_end: 0,
    migrations: 0,
    run_delay: 0,
    earlier_run_time: 0,
    last_arrival: 0,
    last_queued: 0,
    switch_state: 0,
    comm: 0,
    resident: ResidentLayout {
        counters: 0,
        distance: 0,
        of_thread: 0,
        of_processors: 0,
        map_values: 0,
        page_bytes: 0,
    },
});

/// An offset in the kernel's structures. Loads nothing else: all of it would be loaded each time.
#[inline(always)]
pub(crate) fn kernel_offset(of: impl FnOnce(&KernelLayout) -> &u32) -> u32 {
    let layout = (&raw const KERNEL_LAYOUT).cast::<KernelLayout>();
    // SAFETY: a `Global` is its value, which is there from the start.
    let offset = core::ptr::from_ref(of(unsafe { &*layout }));
    // SAFETY: a field of it; volatile as in `Global::load`.
    unsafe { offset.read_volatile() }
}

/// Whether something was sent that the agent still has.
#[inline(always)]
pub(crate) fn is_sent(sent: &LruHashMap<u64, u64>, hash: u64, resend_before_ns: u64) -> bool {
    // SAFETY: values of the map stay readable while the program runs.
    sent.get_ptr(hash)
        .is_some_and(|sent_ns| unsafe { *sent_ns } >= resend_before_ns)
}

/// Adds one to a counter.
#[inline(always)]
pub(crate) fn count(counter: Counter) {
    add(counter, 1);
}

/// Adds to a counter.
#[inline(always)]
pub(crate) fn add(counter: Counter, amount: u64) {
    if let Some(value) = COUNTERS.get_ptr_mut(counter.0) {
        // SAFETY: the value is this processor's own and nothing interrupts the program to
        // change it.
        unsafe { *value += amount };
    }
}
