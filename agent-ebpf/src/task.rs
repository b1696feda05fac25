//! Fields of the kernel's `task_struct`.

use agent_common::layout::KernelLayout;
use aya_ebpf::{bindings::task_struct, helpers::generated::bpf_get_current_task};

use crate::{
    kernel_memory::{Number, read},
    maps::kernel_offset,
};

/// A `task_struct`.
#[derive(Clone, Copy)]
pub(crate) struct Task(u64);

impl Task {
    /// The thread that runs.
    #[inline(always)]
    pub(crate) fn current() -> Self {
        // SAFETY: the helper takes no arguments.
        Self(unsafe { bpf_get_current_task() })
    }

    /// The one at this address, which the kernel gave.
    #[inline(always)]
    pub(crate) fn at(address: u64) -> Self {
        Self(address)
    }

    /// Its thread pointer, which is at a fixed distance from `pthread_self()`.
    #[inline(always)]
    pub(crate) fn thread_pointer(self) -> u64 {
        read(self.field(|layout| &layout.thread_pointer))
    }

    /// The process it belongs to, in the initial PID namespace.
    #[inline(always)]
    pub(crate) fn tgid(self) -> u32 {
        read(self.field(|layout| &layout.tgid))
    }

    /// Its voluntary and involuntary context switches.
    #[inline(always)]
    pub(crate) fn switches(self) -> u64 {
        let [voluntary, involuntary]: [u64; 2] = read(self.field(|layout| &layout.switches));
        voluntary.wrapping_add(involuntary)
    }

    /// The address of its memory, 0 when it has none.
    #[inline(always)]
    pub(crate) fn memory(self) -> u64 {
        read(self.field(|layout| &layout.memory))
    }

    /// Pages that it has counted for itself of each type of memory, before Linux 6.2.
    #[inline(always)]
    pub(crate) fn counted_pages(self) -> [i32; 4] {
        read(self.field(|layout| &layout.resident.of_thread))
    }

    /// Pages that its process has mapped executable.
    #[inline(always)]
    pub(crate) fn executable_pages(self) -> u64 {
        read(
            self.memory()
                .wrapping_add(kernel_offset(|layout| &layout.executable_pages).into()),
        )
    }

    /// Whether it is the first thread of its process, which exists until the process has been
    /// waited for.
    #[inline(always)]
    pub(crate) fn is_leader(self) -> bool {
        self.tid() == self.tgid()
    }

    /// Whether it is a thread of the kernel's own.
    #[inline(always)]
    pub(crate) fn is_kernel_thread(self) -> bool {
        /// `PF_KTHREAD`.
        const KERNEL_THREAD: u32 = 0x20_0000;
        read::<u32>(self.field(|layout| &layout.flags)) & KERNEL_THREAD != 0
    }

    /// Whether it ends.
    #[inline(always)]
    pub(crate) fn is_exiting(self) -> bool {
        /// `PF_EXITING`.
        const EXITING: u32 = 0x4;
        read::<u32>(self.field(|layout| &layout.flags)) & EXITING != 0
    }

    /// Whether it has memory of its own: the kernel's threads have none, and those that end no
    /// longer.
    #[inline(always)]
    pub(crate) fn has_memory(self) -> bool {
        self.memory() != 0
    }

    /// Whether it is a thread of a program, and does not end.
    #[inline(always)]
    pub(crate) fn runs_a_program(self) -> bool {
        self.has_memory() && !self.is_kernel_thread() && !self.is_exiting()
    }

    /// Threads of its process that have not ended.
    #[inline(always)]
    pub(crate) fn live_threads(self) -> u32 {
        let signal: u64 = read(self.field(|layout| &layout.signal));
        read(signal.wrapping_add(kernel_offset(|layout| &layout.live_threads).into()))
    }

    /// Its id, in the initial PID namespace.
    #[inline(always)]
    pub(crate) fn tid(self) -> u32 {
        read(self.field(|layout| &layout.pid))
    }

    /// Its state: 0 when it runs or could.
    #[inline(always)]
    pub(crate) fn state(self) -> u32 {
        read(self.field(|layout| &layout.state))
    }

    /// When it was made, in nanoseconds.
    #[inline(always)]
    pub(crate) fn start_time(self) -> u64 {
        read(self.field(|layout| &layout.start_time))
    }

    /// Nanoseconds that it ran.
    #[inline(always)]
    pub(crate) fn run_time(self) -> u64 {
        read(self.field(|layout| &layout.run_time))
    }

    /// Until when [`Self::run_time`] has what it ran, if it runs, in nanoseconds of the scheduler's clock.
    #[inline(always)]
    pub(crate) fn run_time_end(self) -> u64 {
        read(self.field(|layout| &layout.run_time_end))
    }

    /// How often it was given another processor.
    #[inline(always)]
    pub(crate) fn migrations(self) -> u64 {
        read(self.field(|layout| &layout.migrations))
    }

    /// Nanoseconds that it waited for a processor; 0 where the kernel does not keep them.
    #[inline(always)]
    pub(crate) fn run_delay(self) -> u64 {
        if kernel_offset(|layout| &layout.run_delay) == 0 {
            return 0;
        }
        read(self.field(|layout| &layout.run_delay))
    }

    /// Whether the thread that runs took its processor from it: the scheduler notes both with one reading of its clock.
    #[inline(always)]
    pub(crate) fn is_preempted_by_current(self) -> bool {
        if kernel_offset(|layout| &layout.last_queued) == 0
            || kernel_offset(|layout| &layout.last_arrival) == 0
        {
            return false;
        }
        let queued: u64 = read(self.field(|layout| &layout.last_queued));
        let arrival: u64 = read(Self::current().field(|layout| &layout.last_arrival));
        queued != 0 && queued == arrival
    }

    /// For how many nanoseconds it has not run, if it does not run now; 0 where that is not known.
    ///
    /// The scheduler's clock is not that of programs, and runs at another rate: the thread that runs this one has the
    /// present time.
    #[inline(always)]
    pub(crate) fn rest_time(self) -> u64 {
        let (now, then) = (Self::current().run_until(), self.run_until());
        if then == 0 || now < then {
            return 0;
        }
        now.wrapping_sub(then)
    }

    /// Until when it ran, as far as the scheduler has accounted for it; 0 where that is not known.
    #[inline(always)]
    fn run_until(self) -> u64 {
        if kernel_offset(|layout| &layout.earlier_run_time) == 0
            || kernel_offset(|layout| &layout.last_arrival) == 0
        {
            return 0;
        }
        let arrival: u64 = read(self.field(|layout| &layout.last_arrival));
        if arrival == 0 {
            return 0;
        }
        let earlier: u64 = read(self.field(|layout| &layout.earlier_run_time));
        arrival.wrapping_add(self.run_time().wrapping_sub(earlier))
    }

    /// Its name, ended by a zero byte.
    #[inline(always)]
    pub(crate) fn name(self) -> [u8; 16] {
        read(self.field(|layout| &layout.comm))
    }

    /// Its stack in the kernel.
    #[inline(always)]
    pub(crate) fn stack(self) -> u64 {
        read(self.field(|layout| &layout.stack))
    }

    #[inline(always)]
    fn field(self, offset: impl FnOnce(&KernelLayout) -> &u32) -> u64 {
        self.0.wrapping_add(kernel_offset(offset).into())
    }
}

/// A `task_struct` of which the verifier knows that it is one: its fields are loaded, by one instruction each, where
/// those of a [`Task`] are read by a helper.
#[derive(Clone, Copy)]
pub(crate) struct TypedTask(*mut task_struct);

impl TypedTask {
    /// The one at this address.
    ///
    /// # Safety
    ///
    /// The verifier must know `address` as a pointer to a `task_struct`.
    #[inline(always)]
    pub(crate) unsafe fn at(address: *mut task_struct) -> Self {
        Self(address)
    }

    /// What the kernel's functions take.
    #[inline(always)]
    pub(crate) fn address(self) -> *mut task_struct {
        self.0
    }

    /// All of its fields.
    #[inline(always)]
    pub(crate) fn fields(self) -> Task {
        Task(self.0 as u64)
    }

    /// See [`Task::tid`].
    #[inline(always)]
    pub(crate) fn tid(self) -> u32 {
        self.load(|layout| &layout.pid)
    }

    /// See [`Task::tgid`].
    #[inline(always)]
    pub(crate) fn tgid(self) -> u32 {
        self.load(|layout| &layout.tgid)
    }

    /// See [`Task::start_time`].
    #[inline(always)]
    pub(crate) fn start_time(self) -> u64 {
        self.load(|layout| &layout.start_time)
    }

    /// See [`Task::switches`].
    #[inline(always)]
    pub(crate) fn switches(self) -> u64 {
        let voluntary: *const u64 = self.field(|layout| &layout.switches);
        // SAFETY: two fields, one after the other.
        unsafe {
            voluntary
                .read_volatile()
                .wrapping_add(voluntary.add(1).read_volatile())
        }
    }

    /// Whether it is on a processor, as a number.
    #[inline(always)]
    pub(crate) fn on_cpu(self) -> u32 {
        if kernel_offset(|layout| &layout.on_cpu) == 0 {
            return 0;
        }
        // The lowest byte of 32 bits before Linux 7.
        u32::from(self.load::<u8>(|layout| &layout.on_cpu))
    }

    /// The processor that it is on, or was last; 0 where that is not known.
    #[inline(always)]
    pub(crate) fn processor(self) -> u32 {
        if kernel_offset(|layout| &layout.processor) == 0 {
            return 0;
        }
        self.load(|layout| &layout.processor)
    }

    /// See [`Task::state`].
    #[inline(always)]
    pub(crate) fn state(self) -> u32 {
        self.load(|layout| &layout.state)
    }

    #[inline(always)]
    fn load<T: Number>(self, offset: impl FnOnce(&KernelLayout) -> &u32) -> T {
        // SAFETY: the verifier checks that there is such a field; the kernel changes it meanwhile.
        unsafe { self.field::<T>(offset).read_volatile() }
    }

    #[inline(always)]
    fn field<T>(self, offset: impl FnOnce(&KernelLayout) -> &u32) -> *const T {
        self.0
            .cast_const()
            .wrapping_byte_add(kernel_offset(offset) as usize)
            .cast()
    }
}
