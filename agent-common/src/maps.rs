//! Keys and values of the maps that both halves use.

use crate::trust::Trust;

/// A profiled process: the value of the map `PROCESSES`, whose key is the process's id in the
/// initial PID namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Address of the pointer to the newest interpreter; 0 where there is no Python.
    pub interpreters_head: u64,
    /// Index into the map `LAYOUTS`.
    pub layout: u32,
    /// Zero.
    pub reserved: u32,
    /// When a code object was last described that was not known before, in nanoseconds of the
    /// monotonic clock. Written by the kernel half.
    pub new_code_ns: u64,
}

/// What the kernel half remembers of a thread: the value of the map `THREADS`, whose key is the
/// thread's id in the initial PID namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Address of its thread state, 0 where it has none.
    pub state: u64,
    /// Address of the interpreter of that thread state.
    pub interpreter: u64,
    /// Its `pthread_self()`.
    pub thread_id: u64,
    /// Since when there has been no thread state, and when that was last looked at.
    pub absent: Trust,
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

const _: () = assert!(size_of::<Process>() == 24);
const _: () = assert!(size_of::<Thread>() == 72);
