//! Threads and their thread states.

use crate::{cache_age::CacheAge, limits::MAX_STATES, memory::UserAddr, volatile::masked};

/// A thread state, and the interpreter it belongs to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// Its address.
    pub address: UserAddr,
    /// Address of its interpreter.
    pub interpreter: UserAddr,
}

impl ThreadState {
    /// No state.
    pub const NONE: Self = Self {
        address: UserAddr(0),
        interpreter: UserAddr(0),
    };
}

/// The states of a thread, that of the newest interpreter first.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadStates {
    all: [ThreadState; MAX_STATES],
    count: u32,
    /// 1 when the process has more than one interpreter.
    has_several_interpreters: u32,
}

impl ThreadStates {
    /// No states.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            all: [ThreadState::NONE; MAX_STATES],
            count: 0,
            has_several_interpreters: 0,
        }
    }

    /// Removes all of them.
    #[inline(always)]
    pub const fn clear(&mut self) {
        self.all[0] = ThreadState::NONE;
        self.count = 0;
        self.has_several_interpreters = 0;
    }

    /// How many there are.
    #[inline(always)]
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Notes that the process has more than one interpreter.
    #[inline(always)]
    pub fn set_has_several_interpreters(&mut self) {
        self.has_several_interpreters = 1;
    }

    /// Whether the thread may enter another interpreter that exists already.
    #[inline(always)]
    #[must_use]
    pub const fn has_several_interpreters(&self) -> bool {
        self.has_several_interpreters == 1
    }

    /// The state in the newest interpreter of those that the thread has entered; its address is
    /// null where there is none.
    #[inline(always)]
    #[must_use]
    pub const fn first(&self) -> ThreadState {
        self.all[0]
    }

    /// The `nth` state; its address is null where there is none.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, nth: u32) -> ThreadState {
        // No `Option`: its undefined halves on the stack are more than older verifiers take.
        if nth < self.count {
            self.all[masked(nth, MAX_STATES as u32 - 1) as usize]
        } else {
            ThreadState::NONE
        }
    }

    /// Adds a state; of more than [`MAX_STATES`] the newest are kept and the oldest, that of the
    /// main interpreter as a rule.
    #[inline(always)]
    pub fn add(&mut self, state: ThreadState) {
        let count = self.count;
        let last = MAX_STATES as u32 - 1;
        let index = if count < last { count } else { last };
        self.all[masked(index, last) as usize] = state;
        self.count = index + 1;
    }

    /// Whether the state at `address` is one of them.
    #[inline(always)]
    #[must_use]
    pub fn contain(&self, address: UserAddr) -> bool {
        let mut nth = 0;
        while nth < MAX_STATES as u32 {
            if !address.is_null() && self.get(nth).address.0 == address.0 {
                return true;
            }
            nth += 1;
        }
        false
    }
}

impl Default for ThreadStates {
    fn default() -> Self {
        Self::new()
    }
}

/// The thread states that existed when those of a thread were searched.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchedStates {
    /// Address of the newest interpreter.
    pub newest_interpreter: u64,
    /// What changes when a state is created: the id of the newest one where states have ids and
    /// there is one interpreter; 0 when that is not known.
    pub newest_state: u64,
}

impl SearchedStates {
    /// There was no search.
    pub const NONE: Self = Self {
        newest_interpreter: 0,
        newest_state: 0,
    };
}

/// A thread that was sampled: the value of the map `THREADS`, whose key is the
/// thread's id in the initial PID namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackedThread {
    /// Its thread states.
    pub states: ThreadStates,
    /// All states when they were searched.
    pub searched_states: SearchedStates,
    /// Its `pthread_self()`.
    pub thread_id: u64,
    /// Since when it has had the states that it has, and when they were last searched.
    pub searched: CacheAge,
    /// Since when it has had the name that was sent, and when that was last checked.
    pub named: CacheAge,
    /// Hash of the name that was sent, 0 for none.
    pub name: u64,
    /// Its process.
    pub tgid: u32,
    /// Zero.
    pub reserved: u32,
}

impl TrackedThread {
    /// Whether this is the thread of process `tgid` with this `pthread_self()`.
    #[inline(always)]
    #[must_use]
    pub const fn is_of(&self, tgid: u32, thread_id: u64) -> bool {
        self.tgid == tgid && self.thread_id == thread_id
    }
}

const _: () = assert!(size_of::<TrackedThread>() == 144);
