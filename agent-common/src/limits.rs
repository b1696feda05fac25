//! Every bound that the BPF programs and the agent rely on.

use crate::stack_budget::StackRate;

/// Python frames of a stack that are kept. Of a deeper one the leaf-most and the root-most
/// half are.
pub const MAX_FRAMES: usize = 512;

/// Frames kept at the leaf end of a stack deeper than [`MAX_FRAMES`].
pub const LEAF_FRAMES: usize = MAX_FRAMES / 2;

/// Frames kept at the root end of a stack deeper than [`MAX_FRAMES`]; a power of two, since
/// they are written round and round until the root is reached.
pub const ROOT_FRAMES: usize = MAX_FRAMES - LEAF_FRAMES;

/// Frames that one sample visits: the root of a stack of up to that depth is reached.
pub const MAX_VISITED: u32 = 16_384;

/// Thread states that the search for those of one thread visits.
pub const MAX_THREADS: u32 = 16_384;

/// The period of a clock that samples what runs at a pass, in nanoseconds: no other clock has it. The kernel makes it
/// 10 µs.
pub const AT_PASS_PERIOD_NS: u64 = 1;

/// Time within which only the first tick of such a clock is one, in nanoseconds.
pub const AT_PASS_NS: u64 = 200_000;

/// Thread states of one thread that are cached, one per interpreter.
pub const MAX_STATES: usize = 4;

const _: () = assert!(MAX_STATES.is_power_of_two());
const _: () = assert!(ROOT_FRAMES.is_power_of_two());
const _: () = assert!(MAX_FRAMES.is_power_of_two());

/// Bytes of a thread state that are read at once.
pub const THREAD_BYTES: usize = 512;

/// Bytes of a frame that are read at once.
pub const FRAME_BYTES: usize = 128;

/// Bytes of a code object's head that are read at once.
pub const CODE_BYTES: usize = 256;

/// Bytes of a thread's data stack that are copied at once.
pub const WINDOW_BYTES: usize = 8192;

/// Bytes of a thread's stack that one record has, and the alignment of their address.
pub const STACK_PAGE_BYTES: usize = 4096;

/// Most such records of a sample whose native frames cannot be walked yet.
pub const MAX_STACK_PAGES: u32 = 16;

/// How much a processor copies of the stacks of one program and its children.
pub const PROGRAM_STACKS: StackRate = StackRate {
    burst: 8192,
    per_second: 128,
};

/// How much a processor copies of the stacks of a host's processes.
pub const HOST_STACKS: StackRate = StackRate {
    burst: 1024,
    per_second: 64,
};

/// Bytes of the ring buffer that are unread from which on no stack is copied: the rest is for samples.
pub const MAX_UNREAD_FOR_STACKS: u64 = 1 << 20;

/// Time after a process has executed a program or mapped code in which the agent may not know the code yet, in
/// nanoseconds: what is not known after that never will be.
pub const NEW_MAPPINGS_NS: u64 = 10_000_000_000;

/// Windows of data stacks that one sample copies; the frames outside of them are copied one by one.
pub const MAX_WINDOWS: u32 = 256;

/// Bytes of code objects that one sample reads before it reads no other one; their frames are
/// resolved by later samples.
pub const MAX_DESCRIBED_BYTES: u32 = 64 << 10;

/// The same for all samples of a process within [`DESCRIPTION_PERIOD_NS`].
pub const MAX_PROCESS_DESCRIBED_BYTES: u32 = 2 << 20;

/// The time for [`MAX_PROCESS_DESCRIBED_BYTES`], in nanoseconds.
pub const DESCRIPTION_PERIOD_NS: u64 = 1_000_000_000;

/// Time that the search for the state of a thread may take before it counts for its process, in nanoseconds: that of
/// some thousand states.
pub const LONG_SEARCH_NS: u64 = 50_000;

/// Code addresses that a processor has looked up and remembers, for each sample that it may take at a time; a power
/// of two.
pub const CACHED_LOCATIONS: u32 = 512;

/// Most time that counts for one run of a program that reads a stack, in nanoseconds: the rest was taken from it by others.
pub const MAX_COUNTED_PROBE_NS: u64 = 20_000;

/// Bytes that are allocated for each sample, on average, where these are not too many.
pub const ALLOCATION_PERIOD_BYTES: u64 = 512 << 10;

/// The largest allocation that is recorded: nobody gets more, and sums of what is only asked for have to stay numbers.
pub const MAX_ALLOCATION_BYTES: u64 = 1 << 40;

/// Distances between samples of allocations of which one is drawn at a time; a power of two.
pub const ALLOCATION_DISTANCES: usize = 1024;

/// In the count of the sample of an allocation: it is one that the program has announced with its weight, not one that
/// was taken with the probability of its size.
pub const ANNOUNCED_ALLOCATION: u32 = 1 << 31;

/// Files of a process that announce allocations at most.
pub const MAX_ANNOUNCING_FILES: usize = 4;

/// Threads of which it is known at a time what they have asked an allocator for, to know it again when it is announced;
/// a power of two.
pub const ANNOUNCING_THREADS: u32 = 1 << 12;

/// Samples of allocations on a processor in [`ALLOCATION_WINDOW_NS`] from which on the period is doubled.
pub const MAX_ALLOCATION_SAMPLES: u64 = 1_000;

/// The time in which they are counted, in nanoseconds; when it has passed with few, the period is halved.
pub const ALLOCATION_WINDOW_NS: u64 = 100_000_000;

/// How often the period is doubled at most.
pub const MAX_ALLOCATION_DOUBLINGS: u32 = 20;

/// Most time that counts for one search, in nanoseconds: the rest was taken from the processor.
pub const MAX_COUNTED_SEARCH_NS: u64 = 2_000_000;

/// Time of all such searches of a process within [`SEARCH_PERIOD_NS`] after which there is none, in nanoseconds.
pub const MAX_PROCESS_SEARCH_NS: u64 = 10_000_000;

/// The time for [`MAX_PROCESS_SEARCH_NS`], in nanoseconds.
pub const SEARCH_PERIOD_NS: u64 = 1_000_000_000;

/// Bytes of a function's or a file's name that are kept.
pub const TEXT_BYTES: usize = 1024;

/// Bytes of a line table that travel with its code object; the rest follows in pieces of the
/// same size.
pub const LINE_TABLE_PIECE_BYTES: usize = 8192;

/// Pieces of a line table that follow its code object; a longer table is cut and marked.
pub const LINE_TABLE_PIECES: u32 = 32;

/// First address that user space cannot have (x86-64 with five-level paging: 2^56).
pub const USER_ADDRESS_END: u64 = 1 << 56;

/// Layouts in use at the same time.
pub const MAX_LAYOUTS: u32 = 64;

/// Threads of a host whose last samples are remembered at the same time; a power of two.
pub const HOST_THREAD_CACHES: u32 = 512;

/// The same where only one program and its children are profiled.
pub const PROGRAM_THREAD_CACHES: u32 = 128;

const _: () = assert!(HOST_THREAD_CACHES.is_power_of_two());
const _: () = assert!(PROGRAM_THREAD_CACHES.is_power_of_two());

/// Threads that wait for locks and the ends of whose waits are recorded: of a host, and of a program.
pub const HOST_LOCK_WAITS: u32 = 1 << 16;
/// See [`HOST_LOCK_WAITS`].
pub const PROGRAM_LOCK_WAITS: u32 = 1 << 13;

/// The first part of each wait that the tracing of context switches samples, in nanoseconds; passes sample the rest.
pub const SHORT_WAIT_NS: u64 = 10_000_000;

/// Threads whose context switches are traced: of a host, and of a program.
pub const HOST_SWITCHED_THREADS: u32 = 1 << 15;
/// See [`HOST_SWITCHED_THREADS`].
pub const PROGRAM_SWITCHED_THREADS: u32 = 1 << 14;

/// Context switches of a thread that are sampled in a [window](crate::thinning::WINDOW_NS), before fewer of them are.
pub const MAX_THREAD_WAITS: u32 = 256;

/// The same of all threads on all processors together: of a host, and of a program.
pub const HOST_WAITS: u32 = 256;
/// See [`HOST_WAITS`].
pub const PROGRAM_WAITS: u32 = 512;

/// Context switches of a processor that are counted at once: the last of them is timed, to know what tracing costs.
pub const SWITCHES_PER_COUNT: u32 = 64;

/// Most time that counts for tracing one of which no stack is read, in nanoseconds: the rest was taken from the processor,
/// and would count for all of them.
pub const MAX_COUNTED_SWITCH_NS: u64 = 2_000;

/// Threads whose stacks are kept from pass to pass.
pub const MAX_KNOWN_THREADS: u32 = 1 << 16;

/// Most threads whose stacks are read, and proved by one more visit of each, at a time.
pub const MAX_NOTED_THREADS: u32 = 256;

/// Native frames of a stack that are kept: of a deeper one the leaf-most. Runs of Python frames
/// between them do not count.
pub const MAX_NATIVE_FRAMES: usize = 256;

/// Kernel frames of a stack that are kept: of a deeper one the leaf-most.
pub const MAX_KERNEL_FRAMES: usize = 127;

/// Runs of Python frames, each in an evaluation loop of its own, that are distinguished; those
/// nearer the root are one.
pub const MAX_PYTHON_RUNS: usize = 256;

/// Native frames that one sample visits, with those of evaluation loops.
pub const MAX_NATIVE_VISITED: u32 = 384;

/// Bytes by which memory grows for each sample of its growth: a walk for 64 faults of small pages.
pub const GROWTH_PERIOD_BYTES: u64 = 256 << 10;

/// Pages by which processes have grown that are looked at again.
pub const MAX_PAGES: u32 = 1 << 16;

/// Moves of memory that a processor records in a second.
pub const MAX_MOVES_PER_SECOND: u64 = 20_000;

/// Bytes that are copied because they are written to, for each sample: a walk for 16 faults.
pub const COPY_PERIOD_BYTES: u64 = 64 << 10;

/// Rules that the unwind tables of all files can have between them.
pub const MAX_RULES: u32 = 1 << 16;

/// Executable files that are registered at the same time.
pub const MAX_EXECUTABLES: u32 = 8192;

/// Executable mappings of all processes together.
pub const MAX_MAPPINGS: u32 = 1 << 16;
