//! The current sample, through which its steps communicate.

use agent_common::{
    hash::Hash,
    layout::RunningTaskLayout,
    limits::MAX_KERNEL_FRAMES,
    maps::CodeIdentity,
    native::{MappingSearch, NativeWalk, Registers},
    python::{CodeSymbol, PythonWalk, ThreadStateSearch, WalkPosition},
    record::{
        ExceptionName, MemoryType, NativeUnwindStatus, ProfileKind, PythonUnwindStatus, TaskName,
    },
    sample_clock::SampleClock,
    scratch::Scratch,
    unwind,
    volatile::Volatile,
};

use super::{last_fault::LastFault, thread_cache::CachedThread};

/// The Python part of the sample.
#[repr(C)]
pub(crate) struct Sampler {
    /// When, in nanoseconds of the monotonic clock.
    pub(crate) time_ns: Volatile<u64>,
    /// The thread's `pthread_self()`.
    pub(crate) thread_id: Volatile<u64>,
    /// Address of the pointer to the process's newest interpreter.
    pub(crate) interpreters_head: Volatile<u64>,
    /// See `TrackedProcess::gil_holder`.
    pub(crate) gil_holder: Volatile<u64>,
    /// See `TrackedProcess::tasks`.
    pub(crate) tasks: Volatile<RunningTaskLayout>,
    /// See `ProcessState::new_code_ns`.
    pub(crate) new_code_ns: Volatile<u64>,
    /// See `ProcessState::reused_ns`.
    pub(crate) reused_ns: Volatile<u64>,
    /// See `Control::resend_before_ns`.
    pub(crate) resend_before_ns: Volatile<u64>,
    /// See `TrackedProcess::mappings_epoch`.
    pub(crate) mappings_epoch: Volatile<u64>,
    /// See `TrackedProcess::first_mapping`.
    pub(crate) first_mapping: Volatile<u32>,
    /// See `TrackedProcess::mapping_count`.
    pub(crate) mapping_count: Volatile<u32>,
    /// The symbol of the code object that was resolved last.
    pub(crate) resolved: Volatile<CodeSymbol>,
    /// Hash of the frames up to the last one that was hashed.
    pub(crate) hash: Volatile<Hash>,
    /// The process, in the initial PID namespace.
    pub(crate) tgid: Volatile<u32>,
    /// The thread, in the initial PID namespace.
    pub(crate) tid: Volatile<u32>,
    /// Bytes of the code objects that were read for the sample.
    pub(crate) described_bytes: Volatile<u32>,
    /// 0 where searching the thread states of the process takes too long.
    pub(crate) may_search: Volatile<u32>,
    /// When this processor began its last sample that a pass had asked for, in nanoseconds of the monotonic clock.
    pub(crate) at_pass_ns: Volatile<u64>,
    /// When a search for the state of the thread began, in nanoseconds of the monotonic clock; 0 where there was none.
    pub(crate) search_began_ns: Volatile<u64>,
    /// Index of the process's layout.
    pub(crate) layout: Volatile<u32>,
    /// See `Sample::count`.
    pub(crate) count: Volatile<u32>,
    /// See `Sample::value`.
    pub(crate) value: Volatile<u64>,
    /// The number of `Sample::kind`.
    pub(crate) kind: Volatile<u32>,
    /// The number of `Sample::memory`.
    pub(crate) memory: Volatile<u32>,
    /// See `NewPage::address`, if its kind is about that.
    pub(crate) new_page: Volatile<u64>,
    /// The wait that it ends, if its kind is about that.
    pub(crate) wait_end: Volatile<WaitEnd>,
    /// The class of the exception that is raised, if its kind is about that.
    pub(crate) exception: ExceptionName,
    /// The name of the task that the thread runs.
    pub(crate) task: TaskName,
    /// Which of the chains of frames is walked.
    pub(crate) position: WalkPosition,
    /// The clock of this processor.
    pub(crate) clock: SampleClock,
    /// Hash of the record of the code object that is being read, as far as it is hashed.
    pub(crate) code_hash: Volatile<Hash>,
    /// The code object that is being read.
    pub(crate) code: u64,
    /// Its identity.
    pub(crate) code_identity: CodeIdentity,
    /// The last read that failed.
    pub(crate) last_fault: LastFault,
    /// The thread, once it is known.
    pub(crate) thread: CachedThread,
    /// The search for the thread's states.
    pub(crate) search: ThreadStateSearch,
    /// The walk of its frames.
    pub(crate) walk: PythonWalk,
    /// Copies of structures of the process.
    pub(crate) scratch: Scratch,
}

impl Sampler {
    /// Sets what the sample measures, and how much.
    #[inline(always)]
    pub(crate) fn measures(&mut self, kind: ProfileKind, count: u32, value: u64) {
        self.kind.set(kind.0.into());
        self.count.set(count);
        self.value.set(value);
        self.memory.set(MemoryType::NONE.0.into());
    }
}

/// The stacks of a sample.
pub(crate) struct SampledStacks {
    /// Hash of the Python stack, 0 for none.
    pub(crate) stack: u64,
    /// How its walk ended.
    pub(crate) status: PythonUnwindStatus,
    /// Hash of the native stack, 0 for none.
    pub(crate) native_stack: u64,
    /// How its walk ended.
    pub(crate) native_status: NativeUnwindStatus,
}

impl SampledStacks {
    /// Their hashes, and [both statuses](Self::statuses).
    #[inline(always)]
    pub(crate) fn new(stack: u64, native_stack: u64, statuses: u32) -> Self {
        Self {
            stack,
            status: PythonUnwindStatus(statuses as u16),
            native_stack,
            native_status: NativeUnwindStatus((statuses >> 16) as u16),
        }
    }

    /// Both statuses, as one number for a global function.
    #[inline(always)]
    pub(crate) fn statuses(&self) -> u32 {
        u32::from(self.status.0) | u32::from(self.native_status.0) << 16
    }
}

/// The end of a thread's wait, see [`LockRelease`](agent_common::record::LockRelease).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct WaitEnd {
    /// When the thread was made.
    pub(crate) start_time_ns: u64,
    /// Its context switches.
    pub(crate) switches: u64,
    /// The thread.
    pub(crate) waiter: u32,
    /// Zero.
    pub(crate) reserved: u32,
}

/// The native part of the sample.
#[repr(C)]
pub(crate) struct NativeSampler {
    /// Addresses of the kernel's frames.
    pub(crate) kernel: [u64; MAX_KERNEL_FRAMES + 1],
    /// The registers that the thread had in its own code.
    pub(crate) registers: Registers,
    /// The walk of the native frames.
    pub(crate) walk: NativeWalk,
}

/// The searches for a code address.
#[repr(C)]
pub(crate) struct AddressSearch {
    /// That for its mapping.
    pub(crate) mapping: MappingSearch,
    /// That for its rule.
    pub(crate) rule: unwind::RuleSearch,
}
