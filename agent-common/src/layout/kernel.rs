//! Where fields of the running kernel's own structures are, from its BTF.

use super::ResidentLayout;

/// Offsets in bytes from the start of the named structure.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelLayout {
    /// The thread pointer in `task_struct`: `thread.fsbase` on x86-64, `thread.uw.tp_value` on
    /// aarch64.
    pub thread_pointer: u32,
    /// `task_struct.pid`, which the kernel calls a thread's id.
    pub pid: u32,
    /// `task_struct.tgid`.
    pub tgid: u32,
    /// `task_struct.flags`, 32 bits.
    pub flags: u32,
    /// `task_struct.nvcsw`, which `nivcsw` follows: how often the thread gave up a processor
    /// and how often it was taken from it.
    pub switches: u32,
    /// `task_struct.mm`.
    pub memory: u32,
    /// `mm_struct.exec_vm`, pages that are mapped executable.
    pub executable_pages: u32,
    /// `task_struct.signal`.
    pub signal: u32,
    /// `signal_struct.live`, threads of the process that have not ended, 32 bits.
    pub live_threads: u32,
    /// `task_struct.stack`, the thread's stack in the kernel.
    pub stack: u32,
    /// Bytes of that stack up to the registers that the thread had when it entered the kernel.
    /// 0 where the kernel has a helper for them (5.15 and later).
    pub registers: u32,
    /// `task_struct.on_cpu`, 0 or 1 in 8 or 32 bits; 0 where the kernel has one processor and no such field.
    pub on_cpu: u32,
    /// `task_struct.thread_info.cpu`, which was `task_struct.cpu` before 5.16: the processor that it is on, or was
    /// last; 0 where the kernel has one and no such field.
    pub processor: u32,
    /// `task_struct.__state`, which was `state` before 5.14.
    pub state: u32,
    /// `task_struct.start_time`, in nanoseconds.
    pub start_time: u32,
    /// `task_struct.se.sum_exec_runtime`, in nanoseconds.
    pub run_time: u32,
    /// `task_struct.se.exec_start`: up to when [`Self::run_time`] has it while it runs, in nanoseconds of the scheduler's
    /// clock; 0 where the kernel has none.
    pub run_time_end: u32,
    /// `task_struct.se.nr_migrations`, how often it was given another processor; 0 where the kernel does not count that.
    pub migrations: u32,
    /// `task_struct.sched_info.run_delay`, in nanoseconds; 0 where the kernel does not keep it.
    pub run_delay: u32,
    /// `task_struct.se.prev_sum_exec_runtime`: [`Self::run_time`] when it was last given a processor.
    pub earlier_run_time: u32,
    /// `task_struct.sched_info.last_arrival`, when that was, in nanoseconds of the scheduler's clock; 0 where the kernel
    /// does not keep it.
    pub last_arrival: u32,
    /// `task_struct.sched_info.last_queued`, since when it waits for a processor, by the same clock; 0 where the kernel
    /// does not keep it.
    pub last_queued: u32,
    /// Which argument of the tracepoint `sched_switch` is the state of the thread that leaves the processor, from 0; 0
    /// where none is, before 5.18.
    pub switch_state: u32,
    /// `task_struct.comm`, the name of the thread.
    pub comm: u32,
    /// The counters of resident pages.
    pub resident: ResidentLayout,
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for KernelLayout {}

const _: () = assert!(size_of::<KernelLayout>() == 120);
