//! Keys and values of the maps that both halves use.

use crate::{thread::States, trust::Trust};

/// A profiled process: the value of the map `PROCESSES`, whose key is the process's id in the
/// initial PID namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Address of the pointer to the newest interpreter; 0 where no Python is known of.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL, for
    /// [`GilStyle::HOLDER`](crate::layout::GilStyle::HOLDER) and
    /// [`LAST_HOLDER`](crate::layout::GilStyle::LAST_HOLDER); 0 not to look at it.
    pub gil_holder: u64,
    /// What is to be taken from a thread's pointer to get its `pthread_self()`, in bytes.
    pub thread_pointer_distance: u64,
    /// When a code object was last described that was not known before, in nanoseconds of the
    /// monotonic clock. Written by the kernel half.
    pub new_code_ns: u64,
    /// Pages that were mapped executable when the user half was last told that there are more or
    /// fewer. Written by the kernel half.
    pub executable_pages: u64,
    /// Tells what the mappings are: another number whenever they change.
    pub mappings_epoch: u64,
    /// Index of the first of its mappings.
    pub first_mapping: u32,
    /// How many it has.
    pub mapping_count: u32,
    /// Index into the map `LAYOUTS`.
    pub layout: u32,
    /// 1 when the processes that it starts are to be profiled as well.
    pub with_children: u16,
    /// 1 when it is known and not to be sampled, until it runs another program.
    pub is_excluded: u16,
}

/// Key in the map `PROCESSES` of all threads that are the kernel's own: the process id of `kthreadd`,
/// which starts them and is itself started second.
pub const KERNEL_THREADS: u32 = 2;

/// What the user half changes while the kernel half runs: the one value of the map `CONTROL`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Time between two samples, in nanoseconds.
    pub period_ns: u64,
    /// Since when what was sent is known to the user half, in nanoseconds of the monotonic clock:
    /// what was sent before it may have forgotten, and it is sent again when it is next seen.
    pub known_since_ns: u64,
}

/// What the kernel half remembers of a thread: the value of the map `THREADS`, whose key is the
/// thread's id in the initial PID namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its thread states.
    pub states: States,
    /// Address of the newest interpreter when they were searched.
    pub newest_interpreter: u64,
    /// Its `pthread_self()`.
    pub thread_id: u64,
    /// Since when it has had the states that it has, and when they were last searched.
    pub searched: Trust,
    /// Since when it has had the name that was sent, and when that was last looked at.
    pub named: Trust,
    /// Hash of the name that was sent, 0 for none.
    pub name: u64,
    /// Its process.
    pub tgid: u32,
    /// Zero.
    pub reserved: u32,
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for Process {}

#[cfg(feature = "user")]
// SAFETY: likewise.
unsafe impl aya::Pod for Control {}

const _: () = assert!(size_of::<Process>() == 64);
const _: () = assert!(size_of::<Thread>() == 136);
