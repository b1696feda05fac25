//! Which lock of Python's a thread waits for, and what it is called.
//!
//! A thread that waits for a lock is in the system call `futex` with a word of memory. Whose word that is:
//!
//! | object | word |
//! |---|---|
//! | `Lock`, `RLock` up to 3.13, `SemLock`, `SimpleQueue` up to 3.12 | a semaphore on the heap, to which the object points |
//! | `Lock` from 3.13.1 on, `RLock` from 3.14 on, `SimpleQueue` from 3.13 on | on the waiting thread's stack; eight bytes before it is the address of the lock's own word |
//! | a mutex of the C library | in the mutex |
//!
//! `Condition`, `Semaphore`, `Event`, `Barrier`, `Queue`, `Future` and `Thread.join` wait for a lock that is
//! made for each wait. There the frames of Python's own modules nearest the leaf tell: the first variable of the
//! outermost of them is the object.
//!
//! Its name is that of a variable that refers to it: an attribute of the first variable of the calling functions
//! (mostly `self`), or a variable of their modules. Both were read, so that a name is proved; there may be others.
//!
//! Invariants: every read is bounded; what cannot be read has no name. In 2.7 attributes and variables of modules are not looked into.

use agent_common::{
    layout::{ABSENT, InstanceStyle, Layout, RunStyle},
    memory::{Fault, UserAddr, UserMemory},
    python::{Attributes, locate_text},
    scratch::Scratch,
};

use crate::python::text;

/// Most frames that are looked at, from the leaf.
const MAX_FRAMES: usize = 12;

/// Most frames of the program itself in which a name is looked for.
const MAX_CALLERS: usize = 4;

/// Most attributes of an object that are looked at.
const MAX_OBJECT_ATTRIBUTES: u32 = 512;

/// Most variables of a module that are looked at.
const MAX_GLOBALS: u32 = 2048;

/// Most bytes of the name of a class.
const CLASS_BYTES: u64 = 64;

/// Most bytes of an object in which its word is looked for.
const MAX_OBJECT_BYTES: u64 = 4096;

/// Bytes above the stack pointer in which a word of the waiting function itself can be.
const OWN_STACK_BYTES: u64 = 4096;

/// `FRAME_OWNED_BY_CSTACK`: frames from here on are the interpreter's own.
const FIRST_INTERNAL_OWNER: u64 = 3;

/// `tp_basicsize` to `tp_flags`: sixteen pointers and sizes.
const BASIC_SIZE_TO_FLAGS: u16 = 136;

/// Ends of the names of files whose functions wait for an object.
const MODULES: [&str; 7] = [
    "/threading.py",
    "/queue.py",
    "/Queue.py",
    "/multiprocessing/synchronize.py",
    "/multiprocessing/queues.py",
    "/multiprocessing/pool.py",
    "/concurrent/futures/_base.py",
];

/// Functions of these that do, or that wait for the lock which is a part of the object, without their classes.
const WAITS: [&str; 28] = [
    "__enter__",
    "_acquire_restore",
    "_enter",
    "_wait",
    "_wait_for_tstate_lock",
    "acquire",
    "add_done_callback",
    "cancel",
    "clear",
    "done",
    "empty",
    "exception",
    "full",
    "get",
    "join",
    "notify",
    "notify_all",
    "put",
    "qsize",
    "release",
    "result",
    "running",
    "set",
    "set_exception",
    "set_result",
    "task_done",
    "wait",
    "wait_for",
];

/// Classes of variables that are no locks.
const COLLECTIONS: [&str; 4] = ["frozenset", "list", "set", "tuple"];

/// Whether the functions of a file wait for an object, as those of `threading.py` do.
#[must_use]
pub fn is_lock_module(file: &str) -> bool {
    MODULES.iter().any(|module| file.ends_with(module))
}

/// A lock for which a thread waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The address of the object, or of its word where the object is not known.
    pub address: u64,
    /// The class of the object, if it is known.
    pub class: Option<String>,
    /// Whether [`address`](Self::address) is that of the object.
    is_object: bool,
    /// The frames of its callers, the newest first.
    callers: Vec<Caller>,
}

/// Where a variable can refer to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Caller {
    /// The first variable.
    first: UserAddr,
    /// The dictionary of its module, null where that is not known.
    globals: UserAddr,
}

/// A frame.
struct Frame {
    address: UserAddr,
    code: UserAddr,
    previous: UserAddr,
    is_internal: bool,
}

/// The word of the lock itself, by that for which a thread waits and its stack pointer.
///
/// A thread that is parked waits for a word of its own stack, before which the address of the lock's word stands.
#[must_use]
pub fn word_of_lock<M: UserMemory>(memory: &M, word: u64, stack_pointer: u64) -> u64 {
    if word.wrapping_sub(stack_pointer) >= OWN_STACK_BYTES {
        return word;
    }
    match memory.word(UserAddr(word.wrapping_sub(8))) {
        Ok(lock) if UserAddr(lock).could_be_structure() => lock,
        _ => word,
    }
}

impl Lock {
    /// One of which only the word is known.
    #[must_use]
    pub fn at(word: u64) -> Self {
        Self {
            address: word,
            class: None,
            is_object: false,
            callers: Vec::new(),
        }
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
    /// Most entries of dictionaries and objects that are looked at for a name.
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
    pub fn find(&mut self, state: UserAddr, word: u64) -> Lock {
        let mut lock = Lock::at(word);
        let Ok(mut address) = self.newest_frame(state) else {
            return lock;
        };
        let mut is_in_module = true;
        for _ in 0..MAX_FRAMES {
            if !address.could_be_structure() || lock.callers.len() == MAX_CALLERS {
                break;
            }
            let Ok(frame) = self.frame(address) else {
                break;
            };
            address = frame.previous;
            if frame.is_internal || frame.code.is_null() {
                continue;
            }
            let first = self.first_variable(&frame);
            is_in_module = is_in_module && self.waits_in_module(&frame);
            if is_in_module {
                let object = first.and_then(|it| Some((it, self.class_name(it)?)));
                // That of the function `wait` of futures are the futures.
                if let Some((first, class)) = object
                    && !COLLECTIONS.contains(&&*class)
                {
                    lock.address = first.0;
                    lock.class = Some(class);
                    lock.is_object = true;
                }
            } else {
                lock.callers.push(Caller {
                    first: first.unwrap_or(UserAddr(0)),
                    globals: self.globals(&frame).unwrap_or(UserAddr(0)),
                });
            }
        }
        lock
    }

    /// The name of a variable that refers to a lock, and how many entries of dictionaries and objects were looked
    /// at: at most [`Self::MAX_ENTRIES`]. Finds out which object the lock is where that is not known yet.
    pub fn name(&mut self, lock: &mut Lock) -> (Option<String>, u32) {
        self.entries_left = Self::MAX_ENTRIES;
        let name = self.variable(lock);
        (name, Self::MAX_ENTRIES - self.entries_left)
    }

    fn variable(&mut self, lock: &mut Lock) -> Option<String> {
        let callers = std::mem::take(&mut lock.callers);
        // It may be an argument.
        for caller in &callers {
            self.is(lock, caller.first);
        }
        callers.iter().find_map(|caller| {
            self.attribute(lock, caller.first)
                .or_else(|| self.global(lock, caller.globals))
        })
    }

    /// The attribute of an object that is the lock, with the class of the object.
    fn attribute(&mut self, lock: &mut Lock, object: UserAddr) -> Option<String> {
        if !self.has_attributes(object)? {
            return None;
        }
        let mut attributes = Attributes::new();
        let (memory, layout) = (self.memory, self.layout);
        attributes
            .begin_most(memory, self.scratch, layout, object, MAX_OBJECT_ATTRIBUTES)
            .ok()?;
        let name = self.key_of(lock, &mut attributes)?;
        let class = self.full_class_name(object)?;
        let class = class.rsplit('.').next().unwrap_or_default();
        Some(format!("{class}.{name}"))
    }

    /// Whether a class gives its instances attributes in the way that the layout says.
    fn has_attributes(&self, object: UserAddr) -> Option<bool> {
        /// `Py_TPFLAGS_MANAGED_DICT` and, from 3.13 on, `Py_TPFLAGS_INLINE_VALUES`.
        const MANAGED: u64 = 1 << 4;
        const INLINE: u64 = 1 << 2;

        let fields = &self.layout.object;
        let wanted = match fields.instance {
            InstanceStyle::OPAQUE => return Some(false),
            InstanceStyle::DICT_OFFSET => return Some(true),
            InstanceStyle::INLINE_VALUES => MANAGED | INLINE,
            _ => MANAGED,
        };
        if !object.could_be_structure() {
            return Some(false);
        }
        let class = UserAddr(self.memory.word(object.field(fields.class)).ok()?);
        let flags = class.field(fields.class_basic_size + BASIC_SIZE_TO_FLAGS);
        Some(self.memory.word(flags).ok()? & wanted == wanted)
    }

    /// The variable of a module that is the lock.
    fn global(&mut self, lock: &mut Lock, globals: UserAddr) -> Option<String> {
        let mut variables = Attributes::new();
        let (memory, layout) = (self.memory, self.layout);
        variables
            .begin_dictionary(memory, self.scratch, layout, globals, MAX_GLOBALS)
            .ok()?;
        self.key_of(lock, &mut variables)
    }

    /// The key of the first entry whose value is the lock.
    fn key_of(&mut self, lock: &mut Lock, entries: &mut Attributes) -> Option<String> {
        while self.entries_left > 0
            && let Ok((key, value)) = entries.next_entry(self.memory)
        {
            self.entries_left -= 1;
            let Ok(value) = self.memory.word(value) else {
                continue;
            };
            if !key.is_null() && self.is(lock, UserAddr(value)) {
                return self.text(key);
            }
        }
        None
    }

    /// Whether a lock that was found by this address still is what it was then: an object of the same class, and
    /// the one with the word if it was found by that.
    pub fn is_still(&self, lock: &Lock, found_by: u64) -> bool {
        let mut same = Lock {
            is_object: lock.address == found_by,
            ..Lock::at(found_by)
        };
        lock.is_object
            && self.is(&mut same, UserAddr(lock.address))
            && self.class_name(UserAddr(lock.address)) == lock.class
    }

    /// Whether an object is the lock; if so the lock is this object from now on.
    fn is(&self, lock: &mut Lock, object: UserAddr) -> bool {
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
        lock.class = self.class_name(object);
        lock.address = object.0;
        lock.is_object = true;
        true
    }

    fn newest_frame(&self, state: UserAddr) -> Result<UserAddr, Fault> {
        let fields = &self.layout.thread;
        let start = UserAddr(self.memory.word(state.field(fields.frame))?);
        if fields.cframe_current_frame == ABSENT || start.is_null() {
            return Ok(start);
        }
        let frame = self.memory.word(start.field(fields.cframe_current_frame))?;
        Ok(UserAddr(frame))
    }

    fn frame(&self, address: UserAddr) -> Result<Frame, Fault> {
        let fields = &self.layout.frame;
        let owner = if fields.owner == ABSENT {
            0
        } else {
            self.memory.word(address.field(fields.owner))? & 0xff
        };
        Ok(Frame {
            address,
            // The low bits are a tag from 3.14 on.
            code: UserAddr(self.memory.word(address.field(fields.code))? & !7),
            previous: UserAddr(self.memory.word(address.field(fields.previous))?),
            is_internal: owner >= FIRST_INTERNAL_OWNER,
        })
    }

    /// Whether the function of a frame is one of Python's own that waits for its first variable.
    fn waits_in_module(&mut self, frame: &Frame) -> bool {
        let fields = &self.layout.code;
        let mut text = |offset| {
            let text = UserAddr(self.memory.word(frame.code.field(offset)).ok()?);
            self.text(text)
        };
        let function = text(fields.name).unwrap_or_default();
        let function = function.rsplit('.').next().unwrap_or_default();
        WAITS.contains(&function) && text(fields.file).is_some_and(|file| is_lock_module(&file))
    }

    /// The first variable of a frame, if it has a value; which it may not be in a function without any.
    fn first_variable(&self, frame: &Frame) -> Option<UserAddr> {
        let locals = frame.address.field(self.layout.frame.locals);
        // The low bits are a tag from 3.14 on.
        let first = UserAddr(self.memory.word(locals).ok()? & !7);
        first.could_be_structure().then_some(first)
    }

    /// `f_globals`.
    fn globals(&self, frame: &Frame) -> Option<UserAddr> {
        let fields = &self.layout.frame;
        let offset = match fields.run_style {
            // `f_back`, `f_code`, `f_builtins`, `f_globals`
            RunStyle::EACH => fields.previous + 24,
            // `f_func`, `f_globals`, `f_builtins`, `f_locals`, `f_code`
            RunStyle::MARKED => fields.code.checked_sub(24)?,
            // `previous`, `f_funcobj`, `f_globals`
            _ => fields.previous + 16,
        };
        Some(UserAddr(
            self.memory.word(frame.address.field(offset)).ok()?,
        ))
    }

    /// `pthread_self()` of the thread that holds a lock, where the lock says who does: an `RLock`.
    #[must_use]
    pub fn owner(&self, lock: &Lock) -> Option<u64> {
        let object = UserAddr(lock.address);
        // One that is written in Python has attributes.
        if !lock.is_object || self.full_class_name(object)? != "_thread.RLock" {
            return None;
        }
        // After the lock itself, which takes a word of eight bytes in all versions; 0 when nobody holds it.
        let owner = object.field(self.layout.object.class + 16);
        let owner = self.memory.word(owner).ok()?;
        (owner != 0).then_some(owner)
    }

    /// The name of the class of an object, without its module.
    fn class_name(&self, object: UserAddr) -> Option<String> {
        let name = self.full_class_name(object)?;
        let name = name.rsplit('.').next().unwrap_or_default();
        // `_Condition` and others in 2.7, `lock` and those of `multiprocessing`.
        let name = match name.trim_start_matches('_') {
            "lock" => "Lock",
            name => name,
        };
        // That of an old class in 2.7 is `instance`.
        let is_name = !name.is_empty()
            && (self.layout.object.instance != InstanceStyle::OPAQUE || name != "instance");
        is_name.then(|| name.to_owned())
    }

    /// `tp_name` of the class of an object.
    fn full_class_name(&self, object: UserAddr) -> Option<String> {
        let fields = &self.layout.object;
        let class = UserAddr(self.memory.word(object.field(fields.class)).ok()?);
        if !class.could_be_structure() {
            return None;
        }
        // `tp_name`, after `ob_type` and `ob_size`.
        let name = self.memory.word(class.field(fields.class + 16)).ok()?;
        let mut bytes = Vec::new();
        for nth in 0..CLASS_BYTES / 8 {
            let word = self.memory.word(UserAddr(name.wrapping_add(8 * nth)));
            let Ok(word) = word else {
                break;
            };
            let word = word.to_ne_bytes();
            let end = word.iter().position(|byte| *byte == 0);
            bytes.extend(&word[..end.unwrap_or(8)]);
            if end.is_some() {
                break;
            }
        }
        Some(text::decode_bytes(&bytes))
    }

    fn text(&mut self, object: UserAddr) -> Option<String> {
        let found = locate_text(self.memory, self.scratch, &self.layout.text, object).ok();
        let (data, found) = found?;
        let mut characters = vec![0; found.bytes.into()];
        // SAFETY: `characters` has this length.
        let copied = unsafe {
            self.memory
                .copy(data, characters.as_mut_ptr(), found.bytes.into())
        };
        copied.ok()?;
        Some(text::decode(found, &characters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::versions;

    /// Memory whose words are made from their addresses.
    struct Made<F>(F);

    impl<F: Fn(u64) -> u64> UserMemory for Made<F> {
        unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
            if address.0 >= agent_common::limits::USER_ADDRESS_END {
                return Err(Fault);
            }
            for nth in 0..bytes {
                let at = address.0 + u64::from(nth);
                let word = self.0(at & !7).to_le_bytes();
                // SAFETY: the caller's.
                unsafe { into.add(nth as usize).write(word[(at & 7) as usize]) };
            }
            Ok(())
        }
    }

    #[test]
    fn a_parked_thread_says_for_which_lock() {
        let memory = Made(|address| {
            if address == 0x7000_0038 {
                0x5000_0010
            } else {
                1
            }
        });
        assert_eq!(word_of_lock(&memory, 0x7000_0040, 0x7000_0000), 0x5000_0010);
        // Not on its stack, and nothing there that could be an address.
        assert_eq!(word_of_lock(&memory, 0x6000_0040, 0x7000_0000), 0x6000_0040);
        let none = Made(|_| 0);
        assert_eq!(word_of_lock(&none, 0x7000_0040, 0x7000_0000), 0x7000_0040);
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
                let mut lock = reader.find(UserAddr(0x1000), 0x5000);
                assert!(lock.callers.len() <= MAX_CALLERS);
                let (_, entries) = reader.name(&mut lock);
                assert!(entries <= LockReader::<Made<&dyn Fn(u64) -> u64>>::MAX_ENTRIES);
            };
            read(&|_| 0);
            read(&|address| address);
            read(&|address| address + 8);
            read(&|_| u64::MAX);
            read(&|address| address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 9 & !7);
        }
    }
}
