//! The sample in the making, which its steps hand on to each other.

use agent_common::{
    hash::Hash,
    limits::MAX_KERNEL_FRAMES,
    maps::{CodeIdentity, TrackedThread},
    native::{MappingSearch, NativeWalk},
    python::{PythonWalk, ThreadStateSearch},
    scratch::Scratch,
    unwind,
    volatile::Volatile,
};

use super::{last_fault::LastFault, registers::Registers};

/// All that one step leaves for the next.
#[repr(C)]
pub(crate) struct Sampler {
    /// When, in nanoseconds of the monotonic clock.
    pub(crate) time_ns: Volatile<u64>,
    /// The thread's `pthread_self()`.
    pub(crate) thread_id: Volatile<u64>,
    /// Address of the pointer to the process's newest interpreter.
    pub(crate) interpreters_head: Volatile<u64>,
    /// See `Process::gil_holder`.
    pub(crate) gil_holder: Volatile<u64>,
    /// See `Process::new_code_ns`.
    pub(crate) new_code_ns: Volatile<u64>,
    /// See `Control::resend_before_ns`.
    pub(crate) resend_before_ns: Volatile<u64>,
    /// See `Process::mappings_epoch`.
    pub(crate) mappings_epoch: Volatile<u64>,
    /// See `Process::first_mapping`.
    pub(crate) first_mapping: Volatile<u32>,
    /// See `Process::mapping_count`.
    pub(crate) mapping_count: Volatile<u32>,
    /// Hash of the frames that were settled so far.
    pub(crate) hash: Volatile<Hash>,
    /// The process, in the initial PID namespace.
    pub(crate) tgid: Volatile<u32>,
    /// The thread, in the initial PID namespace.
    pub(crate) tid: Volatile<u32>,
    /// Index of the process's layout.
    pub(crate) layout: Volatile<u32>,
    /// Sampling periods that the sample stands for.
    pub(crate) weight: Volatile<u32>,
    /// Which of the thread's states is walked.
    pub(crate) nth_state: Volatile<u32>,
    /// 1 when the first walk led nowhere.
    pub(crate) is_second_walk: Volatile<u32>,
    pub(crate) reserved: u32,
    /// 1 when the thread holds the GIL, 0 when it does not or that is not looked at.
    pub(crate) holds_gil: Volatile<u32>,
    /// The sample before on this processor.
    pub(crate) before: Before,
    /// The code object that is described.
    pub(crate) code: u64,
    /// Its head.
    pub(crate) code_head: CodeIdentity,
    /// What was not in memory.
    pub(crate) last_fault: LastFault,
    /// What is to be remembered of the thread.
    pub(crate) thread: TrackedThread,
    /// The search for the thread's state.
    pub(crate) search: ThreadStateSearch,
    /// The walk of its frames.
    pub(crate) walk: PythonWalk,
    /// What was copied from the process.
    pub(crate) scratch: Scratch,
}

/// What is kept of the sample before.
#[repr(C)]
pub(crate) struct Before {
    /// When the tick of that sample was due.
    due_ns: Volatile<u64>,
    /// How often its thread had given up a processor or been taken from it.
    switches: Volatile<u64>,
    tid: Volatile<u32>,
    reserved: u32,
}

impl Before {
    /// Periods that the sample taken now stands for, and lets that be the one before.
    ///
    /// A tick may come late or not at all, when interrupts were off or the machine is a virtual
    /// one that was itself kept waiting. The scheduler takes such a time for the thread's, and so
    /// does the sample if the thread has not left the processor since the one before. Otherwise
    /// nobody knows whose it was: the first thread to run after a pause did not use it.
    ///
    /// Ticks are due at equal distances, however late they come: of one that is late and the next
    /// one that is not, each stands for one period.
    #[inline(always)]
    pub(crate) fn periods(&mut self, now_ns: u64, period_ns: u64, tid: u32, switches: u64) -> u32 {
        let due_ns = self.due_ns.get();
        // A clock's tick may be a little early.
        let passed_ns = now_ns.wrapping_sub(due_ns).wrapping_add(period_ns / 16);
        let ticks = passed_ns.checked_div(period_ns).unwrap_or(0);
        let is_same = self.tid.get() == tid && self.switches.get() == switches;
        self.due_ns.set(if ticks == 0 {
            // The one before was late itself.
            now_ns
        } else {
            due_ns.wrapping_add(ticks.wrapping_mul(period_ns))
        });
        self.tid.set(tid);
        self.switches.set(switches);
        if is_same && ticks > 1 {
            ticks as u32
        } else {
            1
        }
    }
}

/// The native part of the sample in the making.
#[repr(C)]
pub(crate) struct NativeSampler {
    /// Addresses of the kernel's frames.
    pub(crate) kernel: [u64; MAX_KERNEL_FRAMES + 1],
    /// The registers that the thread had in its own code.
    pub(crate) registers: Registers,
    /// The search for the mapping of an address.
    pub(crate) mapping_search: MappingSearch,
    /// The search for the rule of an address.
    pub(crate) rule_search: unwind::RuleSearch,
    /// The walk of the native frames.
    pub(crate) walk: NativeWalk,
}
