//! The words of memory on which a thread waits for the GIL.
//!
//! A thread that waits for the GIL is in the system call `futex` with a word of the GIL's condition
//! variable or, when the GIL is handed over, of its mutexes or of the condition variable on which its last
//! holder waits until somebody else has it. Those are:
//!
//! | version | where |
//! |---|---|
//! | 2.7 | the semaphore on the heap that the variable `interpreter_lock` points to |
//! | 3.6 | the variables `gil_cond`, `gil_mutex`, `switch_cond`, `switch_mutex` |
//! | 3.7 to 3.11 | the same, one after the other, in `_PyRuntime` |
//! | 3.12 and later | the same in a structure that the interpreter's state points to, its own or the main one's |
//!
//! Which word of a condition variable it is depends on the version of glibc, so that all of its bytes
//! count. With musl a thread waits for a condition variable on a word of its own stack, so that only the mutexes
//! are recognized. Free-threaded builds wait there when the GIL is enabled at run time.
//!
//! Who holds it is a pointer to a thread state: a variable up to 3.11, and a field of that structure from 3.12
//! on.
//!
//! Invariants: at most [`MAX_GILS`] ranges; what cannot be read is left out.

use agent_common::{
    layout::{ABSENT, InterpreterLayout, Layout},
    memory::{UserAddr, UserMemory},
    python::gil_holder,
};

/// Most interpreters of a process whose GILs are read.
pub const MAX_GILS: usize = 64;

/// Bytes of a `sem_t`.
const SEMAPHORE_BYTES: u64 = 32;

/// Bytes from the first condition variable to the end of the structure: two condition variables of 48
/// bytes and two mutexes of 40 bytes, of 48 with glibc on aarch64.
const CONDITIONS_BYTES: u64 = if cfg!(target_arch = "aarch64") {
    192
} else {
    176
};

/// `_gil_runtime_state.last_holder` to `.cond`, and `.locked` to `.cond`.
const HOLDER_TO_CONDITIONS: u64 = 24;
const LOCKED_TO_CONDITIONS: u64 = 16;

/// `_gil_runtime_state.cond`; free-threaded builds have one more field at the start, `enabled`.
const CONDITIONS: u16 = 32;
const FREE_THREADED_CONDITIONS: u16 = 40;

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WordRange {
    /// The first address.
    pub start: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

impl WordRange {
    fn contains(self, word: u64) -> bool {
        word.wrapping_sub(self.start) < self.bytes
    }
}

/// Where the words of the GIL are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GilLocation {
    /// It is not known: the symbols of a version that needs them are stripped.
    #[default]
    Unknown,
    /// In variables; those that do not exist are empty.
    Variables([WordRange; 4]),
    /// In the lock to which the variable at this address points.
    Lock(u64),
    /// In a structure for each interpreter or for several of them.
    Interpreters {
        /// Address of the pointer to the newest interpreter.
        head: u64,
        /// `PyInterpreterState.next`.
        next: u16,
        /// `PyInterpreterState.ceval.gil`.
        gil: u16,
        /// `_gil_runtime_state.cond`.
        conditions: u16,
    },
}

impl GilLocation {
    /// The GIL of 3.7 to 3.11, by the address of its field `last_holder`.
    #[must_use]
    pub fn in_runtime(last_holder: u64) -> Self {
        let all = WordRange {
            start: last_holder.wrapping_add(HOLDER_TO_CONDITIONS),
            bytes: CONDITIONS_BYTES,
        };
        let none = WordRange::default();
        Self::Variables([all, none, none, none])
    }

    /// The GILs of 3.12 and later, by the address of the pointer to the newest interpreter.
    #[must_use]
    pub fn of_interpreters(head: u64, layout: &InterpreterLayout, is_free_threaded: bool) -> Self {
        if layout.gil == ABSENT {
            return Self::Unknown;
        }
        Self::Interpreters {
            head,
            next: layout.next,
            gil: layout.gil,
            conditions: if is_free_threaded {
                FREE_THREADED_CONDITIONS
            } else {
                CONDITIONS
            },
        }
    }

    /// The same with a load bias added.
    #[must_use]
    pub fn loaded_at(self, bias: u64) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Variables(ranges) => Self::Variables(ranges.map(|range| WordRange {
                start: range.start.wrapping_add(bias),
                ..range
            })),
            Self::Lock(pointer) => Self::Lock(pointer.wrapping_add(bias)),
            Self::Interpreters {
                head,
                next,
                gil,
                conditions,
            } => Self::Interpreters {
                head: head.wrapping_add(bias),
                next,
                gil,
                conditions,
            },
        }
    }

    /// The words of the GILs that exist now: interpreters come and go from 3.12 on, and the lock of 2.7
    /// is there from the first thread on.
    ///
    /// Reads at most three words for each interpreter from 3.12 on, one in 2.7, none in other versions.
    #[must_use]
    pub fn words<M: UserMemory>(&self, memory: &M) -> GilWords {
        let mut ranges = Vec::new();
        match *self {
            Self::Unknown => {}
            Self::Variables(variables) => ranges.extend(variables),
            Self::Lock(pointer) => {
                if let Some(start) = structure(memory, UserAddr(pointer)) {
                    ranges.push(WordRange {
                        start: start.0,
                        bytes: SEMAPHORE_BYTES,
                    });
                }
            }
            Self::Interpreters {
                head,
                next,
                gil,
                conditions,
            } => {
                let mut link = UserAddr(head);
                for _ in 0..MAX_GILS {
                    let Some(interpreter) = structure(memory, link) else {
                        break;
                    };
                    let gil = structure(memory, interpreter.field(gil));
                    if let Some(gil) = gil.filter(|gil| is_enabled(memory, *gil, conditions)) {
                        let range = WordRange {
                            start: gil.field(conditions).0,
                            bytes: CONDITIONS_BYTES,
                        };
                        if !ranges.contains(&range) {
                            ranges.push(range);
                        }
                    }
                    link = interpreter.field(next);
                }
            }
        }
        ranges.retain(|range| range.bytes != 0);
        GilWords {
            ranges,
            has_holders: matches!(self, Self::Interpreters { .. }),
        }
    }
}

/// Whether there is a GIL at this address: in a free-threaded build it is there and not used, unless it is enabled.
fn is_enabled<M: UserMemory>(memory: &M, gil: UserAddr, conditions: u16) -> bool {
    if conditions != FREE_THREADED_CONDITIONS {
        return true;
    }
    // `_gil_runtime_state.enabled`, of 32 bits.
    let [low, ..] = memory.word_or_zero(gil).to_le_bytes();
    low != 0
}

/// The structure to which the pointer at `link` points, if one could be there.
fn structure<M: UserMemory>(memory: &M, link: UserAddr) -> Option<UserAddr> {
    let address = UserAddr(memory.word(link).ok()?);
    address.could_be_structure().then_some(address)
}

/// The words on which threads of a process wait for its GIL or GILs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GilWords {
    ranges: Vec<WordRange>,
    /// Whether the holder of each is before its words.
    has_holders: bool,
}

/// A GIL of a process, of which a process may have several from 3.12 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gil {
    /// The only one, whose holder is a variable.
    Only,
    /// One of an interpreter, by the address of its condition variables.
    At(u64),
}

impl Gil {
    /// The state of the thread that holds it: null where nobody does, or that cannot be read. `variable`
    /// is the one that says so for [`Self::Only`], null if there is none.
    #[must_use]
    pub fn holder<M: UserMemory>(
        self,
        memory: &M,
        layout: &Layout,
        variable: UserAddr,
    ) -> UserAddr {
        match self {
            Self::Only => gil_holder(memory, layout, variable),
            Self::At(conditions) => {
                let word = |distance| {
                    let address = UserAddr(conditions.wrapping_sub(distance));
                    memory.word_or_zero(address)
                };
                let [locked, ..] = word(LOCKED_TO_CONDITIONS).to_le_bytes();
                let holder = if locked == 1 {
                    word(HOLDER_TO_CONDITIONS)
                } else {
                    0
                };
                UserAddr(holder)
            }
        }
    }
}

impl GilWords {
    /// Whether a thread that waits on the word at this address waits for the GIL.
    #[must_use]
    pub fn contains(&self, word: u64) -> bool {
        self.find(word).is_some()
    }

    /// The GIL for which a thread waits that waits on the word at this address.
    #[must_use]
    pub fn find(&self, word: u64) -> Option<Gil> {
        let range = self.ranges.iter().find(|range| range.contains(word))?;
        Some(self.of(*range))
    }

    /// All GILs.
    pub fn all(&self) -> impl Iterator<Item = Gil> {
        let only = (!self.has_holders && !self.ranges.is_empty()).then_some(Gil::Only);
        let ranges = self.ranges.iter().filter(|_| self.has_holders);
        only.into_iter().chain(ranges.map(|range| self.of(*range)))
    }

    fn of(&self, range: WordRange) -> Gil {
        if self.has_holders {
            Gil::At(range.start)
        } else {
            Gil::Only
        }
    }

    /// Whether no word is known.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests;
