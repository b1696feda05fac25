//! Fields of the kernel's `task_struct`.

use core::mem::MaybeUninit;

use agent_common::layout::KernelLayout;
use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_probe_read_kernel};

use crate::maps::KERNEL_LAYOUT;

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
        read(self.field(|layout| layout.thread_pointer))
    }

    /// The process it belongs to, in the initial PID namespace.
    #[inline(always)]
    pub(crate) fn tgid(self) -> u32 {
        read(self.field(|layout| layout.tgid))
    }

    /// Its voluntary and involuntary context switches.
    #[inline(always)]
    pub(crate) fn switches(self) -> u64 {
        let [voluntary, involuntary]: [u64; 2] = read(self.field(|layout| layout.switches));
        voluntary.wrapping_add(involuntary)
    }

    /// Pages that its process has mapped executable.
    #[inline(always)]
    pub(crate) fn executable_pages(self) -> u64 {
        let memory: u64 = read(self.field(|layout| layout.memory));
        read(memory.wrapping_add(KERNEL_LAYOUT.load().executable_pages.into()))
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
        read::<u32>(self.field(|layout| layout.flags)) & KERNEL_THREAD != 0
    }

    /// Whether it ends.
    #[inline(always)]
    pub(crate) fn is_exiting(self) -> bool {
        /// `PF_EXITING`.
        const EXITING: u32 = 0x4;
        read::<u32>(self.field(|layout| layout.flags)) & EXITING != 0
    }

    /// Whether it has memory of its own: the kernel's threads have none, and those that end no
    /// longer.
    #[inline(always)]
    pub(crate) fn has_memory(self) -> bool {
        read::<u64>(self.field(|layout| layout.memory)) != 0
    }

    /// Threads of its process that have not ended.
    #[inline(always)]
    pub(crate) fn live_threads(self) -> u32 {
        let signal: u64 = read(self.field(|layout| layout.signal));
        read(signal.wrapping_add(KERNEL_LAYOUT.load().live_threads.into()))
    }

    /// Its id, in the initial PID namespace.
    #[inline(always)]
    pub(crate) fn tid(self) -> u32 {
        read(self.field(|layout| layout.pid))
    }

    /// Whether it is on a processor, as a number.
    #[inline(always)]
    pub(crate) fn on_cpu(self) -> u32 {
        if KERNEL_LAYOUT.load().on_cpu == 0 {
            return 0;
        }
        // The lowest byte of 32 bits before Linux 7.
        u32::from(read::<u8>(self.field(|layout| layout.on_cpu)))
    }

    /// Its state: 0 when it runs or could.
    #[inline(always)]
    pub(crate) fn state(self) -> u32 {
        read(self.field(|layout| layout.state))
    }

    /// When it was made, in nanoseconds.
    #[inline(always)]
    pub(crate) fn start_time(self) -> u64 {
        read(self.field(|layout| layout.start_time))
    }

    /// Nanoseconds that it ran.
    #[inline(always)]
    pub(crate) fn run_time(self) -> u64 {
        read(self.field(|layout| layout.run_time))
    }

    /// Nanoseconds that it waited for a processor; 0 where the kernel does not keep them.
    #[inline(always)]
    pub(crate) fn run_delay(self) -> u64 {
        if KERNEL_LAYOUT.load().run_delay == 0 {
            return 0;
        }
        read(self.field(|layout| layout.run_delay))
    }

    /// Its name, ended by a zero byte.
    #[inline(always)]
    pub(crate) fn name(self) -> [u8; 16] {
        read(self.field(|layout| layout.comm))
    }

    /// Its stack in the kernel.
    #[inline(always)]
    pub(crate) fn stack(self) -> u64 {
        read(self.field(|layout| layout.stack))
    }

    #[inline(always)]
    fn field(self, offset: impl FnOnce(&KernelLayout) -> u32) -> u64 {
        self.0.wrapping_add(offset(&KERNEL_LAYOUT.load()).into())
    }
}

/// What any bytes are a value of.
trait Number: Copy {}

impl Number for u8 {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for [u64; 2] {}
impl Number for [u8; 16] {}

/// Reads the kernel's memory; zeros where there is none.
#[inline(always)]
fn read<T: Number>(address: u64) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: `value` has room for what is read; the helper checks the address.
    unsafe {
        bpf_probe_read_kernel(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            address as *const _,
        )
    };
    // SAFETY: the helper writes all of it, zeros where it cannot read, and any bytes are a number.
    unsafe { value.assume_init() }
}
