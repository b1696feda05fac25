//! Which lock of Python's a thread waits for, and what it is called.
//!
//! A thread that waits for a lock is in the system call `futex` with a word of memory. Whose word that is:
//!
//! | object | word |
//! |---|---|
//! | `Lock`, `RLock` up to 3.13, `SemLock`, `SimpleQueue` up to 3.12 | a semaphore on the heap, to which the object points |
//! | `Lock` from 3.13.1 on, `RLock` from 3.14 on, `SimpleQueue` from 3.13 on, and any object of a free-threaded build | on the waiting thread's stack: it is [parked](parked) |
//! | a mutex of the C library | in the mutex |
//! | a condition variable of the C library with musl, or one of a C function that lasts for one call | on the waiting thread's stack, and nothing says [for what](LockWord::OnOwnStack) |
//!
//! `Condition`, `Semaphore`, `Event`, `Barrier`, `Queue`, `Future` and `Thread.join` wait for a lock that is made for
//! each wait. There the frames of Python's own modules nearest the leaf tell: the first variable of the outermost of
//! them is the object. That of `Thread.join` has the name of the thread: as of the other threads, read from its
//! attribute `_name`.
//!
//! Its name is that of a variable that refers to it: [what leads](names) from the variables of the calling functions
//! and of their modules to it, by attributes and entries. All were read, so that a name is proved; there may be others.
//!
//! Invariants: every read is bounded; what cannot be read has no name.

mod entered;
mod entries;
mod frame;
mod frames;
mod modules;
mod names;
mod objects;
mod owner;
mod parked;

use agent_common::{
    layout::Layout,
    memory::{UserAddr, UserMemory},
    scratch::Scratch,
};

pub use self::{
    entered::EnteredLock,
    modules::is_lock_module,
    parked::{LockWord, word_of_lock},
};
use self::{frame::Frame, modules::Awaited};

/// Most frames that are looked at, from the leaf.
const MAX_FRAMES: usize = 12;

/// Most frames of the program itself in which a name is looked for.
const MAX_CALLERS: usize = 4;

/// Most bytes of an object in which its word is looked for.
const MAX_OBJECT_BYTES: u64 = 4096;

/// The class of methods that are written in C, and are bound to an object.
const C_METHOD: &str = "builtin_function_or_method";

/// Classes of variables that are no locks.
const COLLECTIONS: [&str; 4] = ["frozenset", "list", "set", "tuple"];

/// A lock for which a thread waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The address of the object, or of its word where the object is not known; 0 if that
    /// [is on the stack](Self::is_on_own_stack).
    pub address: u64,
    /// The class of the object, if it is known.
    pub class: Option<String>,
    /// The name of the thread for whose end the thread waits, if it is that and can be read.
    pub thread: Option<String>,
    /// Whether the thread waits for the critical section of the object, of whatever class it is.
    pub is_critical_section: bool,
    /// Whether no more is known than a word on the stack of the thread that waits, which is another one for each wait.
    pub is_on_own_stack: bool,
    /// Whether [`address`](Self::address) is that of the object.
    is_object: bool,
    /// What the function that waits has on its value stack, where that function may have the lock itself.
    operands: Vec<UserAddr>,
    /// The frames of its callers, the newest first.
    callers: Vec<Frame>,
    /// The newest one, if it is of Python's own modules, whose variables mostly have better names elsewhere.
    internal_caller: Option<Frame>,
}

impl Lock {
    /// One of which only the word is known.
    #[must_use]
    pub fn of_word(word: LockWord) -> Self {
        let is_on_own_stack = matches!(word, LockWord::OnOwnStack(_));
        Self {
            address: if is_on_own_stack { 0 } else { word.address() },
            class: None,
            thread: None,
            is_critical_section: false,
            is_on_own_stack,
            is_object: false,
            operands: Vec::new(),
            callers: Vec::new(),
            internal_caller: None,
        }
    }

    /// One with its word at this address.
    #[must_use]
    pub fn at(word: u64) -> Self {
        Self::of_word(LockWord::OfLock(word))
    }

    /// It is this object from now on.
    fn set_object(&mut self, object: UserAddr, class: Option<String>) {
        self.address = object.0;
        self.class = class;
        self.is_object = true;
        self.is_on_own_stack = false;
    }
}

/// Reads locks of a process.
pub struct LockReader<'a, M> {
    /// Its memory.
    memory: &'a M,
    /// Where to copy structures to.
    scratch: &'a mut Scratch,
    /// The layout of its interpreter.
    layout: &'a Layout,
    /// Entries that a look-up may still look at.
    entries_left: u32,
}

impl<'a, M: UserMemory> LockReader<'a, M> {
    /// Most that is looked at for a name: objects, classes, and entries of dictionaries and objects, of which eight
    /// that are read at once count as one.
    pub const MAX_ENTRIES: u32 = 4096;

    /// Reads `memory`, of an interpreter with this layout.
    pub fn new(memory: &'a M, scratch: &'a mut Scratch, layout: &'a Layout) -> Self {
        Self {
            memory,
            scratch,
            layout,
            entries_left: 0,
        }
    }

    /// The lock for whose `word` a thread waits, by its newest thread state.
    #[must_use]
    pub fn find(&mut self, state: UserAddr, word: LockWord) -> Lock {
        let of_object = self.lock_of_object(word.address());
        let mut lock = of_object.unwrap_or_else(|| Lock::of_word(word));
        let awaited = self.find_object(state, &mut lock);
        if awaited == Some(Awaited::Thread) {
            lock.thread = self.thread_name(UserAddr(lock.address));
        }
        if lock.is_on_own_stack {
            // No variable refers to it.
            lock.callers.clear();
            lock.internal_caller = None;
            lock.operands.clear();
        }
        lock
    }

    /// Finds out by the frames of a thread which object the lock is, and who may have a variable that refers to it.
    /// Returns what the thread waits for, if its frames say that.
    fn find_object(&mut self, state: UserAddr, lock: &mut Lock) -> Option<Awaited> {
        let mut frames = self.frames(state, MAX_FRAMES).ok()?;
        let mut awaited = None;
        let mut is_in_module = !lock.is_critical_section;
        while lock.callers.len() < MAX_CALLERS
            && let Some(frame) = self.next_frame(&mut frames)
        {
            let first = self.first_variable(&frame);
            let here = is_in_module.then(|| self.awaited(&frame)).flatten();
            is_in_module = here.is_some();
            if is_in_module {
                let object = first.and_then(|it| Some((it, self.class_name(it)?)));
                // That of the function `wait` of futures are the futures.
                if let Some((first, class)) = object
                    && !COLLECTIONS.contains(&&*class)
                {
                    lock.set_object(first, Some(class));
                    awaited = here;
                }
            } else {
                let is_first = lock.callers.is_empty() && lock.internal_caller.is_none();
                if is_first && !lock.is_object {
                    lock.operands = self.operands(&frame).unwrap_or_default();
                }
                if !self.is_internal(&frame) {
                    lock.callers.push(frame);
                } else if is_first {
                    lock.internal_caller = Some(frame);
                }
            }
        }
        awaited
    }

    /// The critical section whose word this is.
    fn lock_of_object(&mut self, word: u64) -> Option<Lock> {
        let object = parked::object_of_critical_section(self.layout, word)?;
        let mut lock = Lock {
            is_critical_section: true,
            ..Lock::at(word)
        };
        lock.set_object(object, Some(self.class_name(object)?));
        Some(lock)
    }

    /// Whether a lock that was found by this address still is what it was then: an object of the same class, and
    /// the one with the word if it was found by that.
    pub fn is_still(&mut self, lock: &Lock, found_by: u64) -> bool {
        let mut same = Lock {
            is_object: lock.address == found_by,
            ..Lock::at(found_by)
        };
        lock.is_object
            && self.is(&mut same, UserAddr(lock.address))
            && self.class_name(UserAddr(lock.address)) == lock.class
    }

    /// Whether an object is the lock; if so the lock is this object from now on.
    fn is(&mut self, lock: &mut Lock, object: UserAddr) -> bool {
        if lock.is_object {
            return object.0 == lock.address;
        }
        let word = lock.address;
        if !object.could_be_structure() {
            return false;
        }
        let fields = &self.layout.object;
        let body = object.field(fields.class + 8);
        let size = || {
            let class = UserAddr(self.memory.word(object.field(fields.class))?);
            self.memory.word(class.field(fields.class_basic_size))
        };
        let is_within = |size: u64| {
            let distance = word.wrapping_sub(body.0);
            size <= MAX_OBJECT_BYTES && distance < size.saturating_sub(u64::from(fields.class) + 8)
        };
        // Few objects are as near as this.
        let is_near = word.wrapping_sub(object.0) < MAX_OBJECT_BYTES;
        let has_word = is_near && size().is_ok_and(is_within) || self.memory.word(body) == Ok(word);
        if !has_word {
            return false;
        }
        lock.set_object(object, self.class_name(object));
        true
    }

    /// What a method that is written in C is bound to (`PyCFunctionObject`: `m_ml`, `m_self`).
    fn bound_to(&self, method: UserAddr) -> Option<UserAddr> {
        if self.full_class_name(method)? != C_METHOD {
            return None;
        }
        let object = self.memory.word(self.body(method).field(8)).ok()?;
        Some(UserAddr(object))
    }
}

#[cfg(test)]
mod tests {
    use agent_common::memory::Fault;

    use super::*;
    use crate::python::versions;

    /// Memory whose words are made from their addresses; where they are [`FAULT`] there is none.
    pub(super) struct Made<F>(pub(super) F);

    /// Stands for memory that cannot be read.
    pub(super) const FAULT: u64 = 0xfa17_fa17_fa17_fa17;

    impl<F: Fn(u64) -> u64> UserMemory for Made<F> {
        unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
            if address.0 >= agent_common::limits::USER_ADDRESS_END {
                return Err(Fault);
            }
            for nth in 0..bytes {
                let at = address.0 + u64::from(nth);
                let word = self.0(at & !7);
                if word == FAULT {
                    return Err(Fault);
                }
                let word = word.to_le_bytes();
                // SAFETY: the caller's.
                unsafe { into.add(nth as usize).write(word[(at & 7) as usize]) };
            }
            Ok(())
        }
    }

    #[test]
    fn modules_are_known_by_their_files() {
        assert!(is_lock_module("/usr/lib/python3.12/threading.py"));
        assert!(!is_lock_module("/srv/my_threading.py"));
    }

    /// Frames, dictionaries and classes that lead nowhere, to each other or into all of the memory.
    #[test]
    fn any_memory_is_read_to_an_end() {
        for series in versions::SUPPORTED {
            let layout = &series.layout;
            let read = |memory: &dyn Fn(u64) -> u64| {
                let mut scratch = Scratch::default();
                let memory = Made(memory);
                let mut reader = LockReader::new(&memory, &mut scratch, layout);
                let mut lock = reader.find(UserAddr(0x1000), LockWord::OfLock(0x5000));
                assert!(lock.callers.len() <= MAX_CALLERS);
                assert!(reader.entered(UserAddr(0x1000)).len() <= entered::MAX_ENTERED);
                let (_, entries) = reader.name(&mut lock);
                assert!(entries <= LockReader::<Made<&dyn Fn(u64) -> u64>>::MAX_ENTRIES);
            };
            read(&|_| 0);
            read(&|address| address);
            read(&|address| address + 8);
            read(&|_| u64::MAX);
            // As the size of a table overflows when what is before that is added.
            read(&|_| u64::MAX / 4);
            read(&|address| address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 9 & !7);
        }
    }
}
