//! What a pass over the threads records of each: what the programs on the iterator over tasks write.
//!
//! A visit is a [`ThreadVisit`]; of a thread whose stack the agent does not have yet a [`ThreadDetails`]
//! and the addresses of its kernel frames follow. Of a thread that has waited ever since its stack was read, as most threads
//! of a host, it is a [`RestingVisit`], unless its context switches are traced.

use core::mem::offset_of;

use crate::{limits::MAX_KERNEL_FRAMES, native::Registers, volatile::Volatile};

/// A thread at one instant.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadVisit {
    /// Bytes of all that is recorded, with this.
    pub bytes: u32,
    /// Thread, in the initial PID namespace.
    pub tid: u32,
    /// `__state` of the kernel: 0 when it runs or could.
    pub state: u32,
    /// Process, in the initial PID namespace.
    pub tgid: u32,
    /// Whether it is on a processor, or being taken from one.
    pub on_cpu: u32,
    /// Whether it ran until the thread that makes the pass took its processor.
    pub preempted: u32,
    /// When it was made, in nanoseconds; with the id it identifies a thread.
    pub start_time_ns: u64,
    /// Context switches so far: equal ones, and not on a processor both times, mean that it did not run.
    pub switches: u64,
    /// Nanoseconds that it ran.
    pub run_ns: u64,
    /// Nanoseconds that it waited for a processor.
    pub run_delay_ns: u64,
    /// Its thread pointer; of a thread that runs the one it had when it last did not.
    pub thread_pointer: u64,
    /// Its traced waits that are over: [`SwitchedThread::short_ns`](crate::maps::SwitchedThread::short_ns). 0 where its
    /// context switches are not traced.
    pub short_ns: u64,
    /// When its traced wait began, in nanoseconds of the monotonic clock; 0 where it is in none.
    pub left_ns: u64,
    /// Whether its context switches are traced.
    pub is_traced: u32,
    /// Whether it has waited ever since its stack was read: what is not read again then is 0, the times that it ran and
    /// waited for a processor, and its thread pointer.
    pub is_unchanged: u32,
    /// The processor that it is on, or was last; 0 where that is not known.
    pub processor: u32,
    /// Always 0.
    pub padding: u32,
}

/// The beginning of a [`ThreadVisit`], where all else is as it was when the stack of the thread was read.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestingVisit {
    /// See [`ThreadVisit::bytes`].
    pub bytes: u32,
    /// See [`ThreadVisit::tid`].
    pub tid: u32,
    /// See [`ThreadVisit::state`].
    pub state: u32,
}

/// What else is recorded of a thread, followed by the addresses of its kernel frames.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadDetails {
    /// Its registers in user space, all 0 where they could not be read.
    pub registers: Registers,
    /// For how many nanoseconds it has not run, to some milliseconds; 0 where that is not known.
    pub rest_ns: u64,
    /// The kernel's name of the thread, ended by a zero byte.
    pub comm: [u8; 16],
}

/// The most that is recorded of a thread.
#[repr(C)]
pub struct WholeVisit {
    /// The visit.
    pub visit: ThreadVisit,
    /// What else.
    pub details: ThreadDetails,
    /// Addresses of kernel frames, leaf first.
    pub kernel: [u64; MAX_KERNEL_FRAMES],
}

/// A thread whose stack the agent has: the value of the map `KNOWN_THREADS`, whose key is the thread's
/// id in the initial PID namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownThread {
    /// See [`ThreadVisit::start_time_ns`].
    pub start_time_ns: u64,
    /// See [`ThreadVisit::switches`].
    pub switches: u64,
    /// The number of the chunk of threads with which the stack was read.
    pub chunk: u64,
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for KnownThread {}

/// How far a pass has come that is made by several runs of a program: the only value of the map `PASS`. The agent sets
/// it before the first run. It stays in memory: numbers in registers would be another state of a loop for the verifier
/// each time.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// The next process or thread of the list.
    pub position: Volatile<u32>,
    /// How many are listed.
    pub end: Volatile<u32>,
    /// Whether the processes are listed.
    pub is_listed: Volatile<u32>,
    /// Of the process at the position, the thread that was visited last; 0 before the first one.
    pub last_tid: Volatile<u32>,
    /// When that one was made: see [`ThreadVisit::start_time_ns`].
    pub last_start_ns: Volatile<u64>,
    /// When the latest one of its threads was made that have been visited; 0 before the first one.
    pub latest_start_ns: Volatile<u64>,
    /// Threads that were made until then have been visited; 0 where the last one is still there.
    pub after_ns: Volatile<u64>,
    /// The thread with which the run has begun in this process; 0 for the first one.
    pub from_tid: Volatile<u32>,
    /// Bytes that the run has recorded.
    pub bytes: Volatile<u32>,
    /// Threads and processes that the run has visited.
    pub visits: Volatile<u32>,
    /// The only process whose threads are visited; 0 for all that are profiled.
    pub only_process: Volatile<u32>,
    /// With so many visits a run ends, for which other programs wait.
    pub most_visits: Volatile<u32>,
    /// Always 0.
    pub padding: u32,
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for Pass {}

const _: () = assert!(size_of::<Pass>() == 64);
const _: () = assert!(size_of::<ThreadVisit>() == 96);
const _: () = assert!(
    offset_of!(ThreadVisit, tid) == offset_of!(RestingVisit, tid)
        && offset_of!(ThreadVisit, state) == offset_of!(RestingVisit, state)
        && size_of::<RestingVisit>() == 12
);
const _: () =
    assert!(size_of::<WholeVisit>() == 96 + size_of::<ThreadDetails>() + 8 * MAX_KERNEL_FRAMES);
