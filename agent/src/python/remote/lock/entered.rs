//! The locks that a thread has by `with` statements, for those that do not say who holds them.
//!
//! ```text
//! with jobs:                 value stack of the frame
//!     with results: ◄─ waits │ jobs.__exit__ │ results.__exit__ │ stale …
//!                            └── live below the block ──────────┘
//! ```
//!
//! A `with` statement keeps the method `__exit__` of what it has entered on the value stack of its frame, up to 3.13
//! bound to the object, later beside it. Of that stack nothing says how high it is while a function is called, but
//! the statement's own handler does how high it was at its begin: the block that the frame has on its stack of
//! blocks up to 3.10, the entry of the exception table later. A statement that still waits for its lock has none yet.
//!
//! Invariants: every read is bounded; what is read is live, and so true while the thread does not run: that is for the
//! caller to prove. The lock of a condition for which the thread waits is not among them, and there are none where that cannot
//! be read; one that it has released by itself inside the statement looks as if it had it.

use agent_common::{
    layout::{ABSENT, TextStyle},
    memory::{Fault, UserAddr, UserMemory},
};

use super::{
    super::{
        instruction::instruction_offset,
        structure::{Structure, behind, read_bytes},
    },
    LockReader,
    frame::Frame,
};

/// Most frames that are looked at, from the leaf, most values of each, and most locks.
const MAX_FRAMES: usize = 64;
const MAX_VALUES: u64 = 64;
pub(super) const MAX_ENTERED: usize = 16;

/// The class of conditions, from Python 3 on and in 2.7, and the attribute with its lock.
const CONDITIONS: [&str; 2] = ["Condition", "_Condition"];
const LOCK_OF_CONDITION: [&str; 2] = ["_lock", "_Condition__lock"];

/// Most attributes that are looked at for it.
const MAX_ATTRIBUTES: u32 = 256;

/// Bytes of an instruction, in which exception tables count.
const INSTRUCTION_BYTES: u64 = 2;

/// Most bytes of an exception table.
const MAX_TABLE_BYTES: u64 = 16 << 10;

/// Most blocks of a frame (`CO_MAXBLOCKS`).
const MAX_BLOCKS: u32 = 20;

/// Bytes of a `PyTryBlock`: three integers, of which the last is the level.
const BLOCK_BYTES: u64 = 12;

/// Bytes from `f_iblock` to `f_localsplus`, and from `f_blockstack`: in 2.7 some are between the blocks and the variables.
const BEFORE_LOCALS: u64 = 248;
const BLOCKS_BEFORE_LOCALS: u64 = 240;
const BLOCKS_BEFORE_LOCALS_2_7: u64 = 244;

/// Bytes from the end of the head to `co_exceptiontable`: after `ob_size`, `co_consts` and `co_names`.
const EXCEPTION_TABLE: u16 = 24;

/// The method that a statement keeps.
const EXIT: &[u8; 9] = b"__exit__\0";

/// The classes of locks that do not say who holds them.
const LOCKS: [&str; 2] = ["_thread.lock", "thread.lock"];

/// A lock that a statement has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnteredLock {
    /// The object, what follows its head, and what that refers to: one of them is the word for which threads wait.
    addresses: [u64; 3],
}

impl EnteredLock {
    /// Whether it is the lock, by its address or by that of its word.
    #[must_use]
    pub fn is(&self, address: u64) -> bool {
        address != 0 && self.addresses.contains(&address)
    }

    /// The addresses by which it may be known.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<> {
        self.addresses.into_iter().filter(|address| *address != 0)
    }

    /// One at this address.
    #[cfg(test)]
    #[must_use]
    pub fn at(object: u64) -> Self {
        Self {
            addresses: [object, 0, 0],
        }
    }
}

impl<M: UserMemory> LockReader<'_, M> {
    /// The locks that a thread with this newest state has entered, and has not left.
    #[must_use]
    pub fn entered(&mut self, state: UserAddr) -> Vec<EnteredLock> {
        let mut entered = Vec::new();
        let Ok(mut frames) = self.frames(state, MAX_FRAMES) else {
            return entered;
        };
        let mut given_back = Vec::new();
        while let Some(frame) = self.next_frame(&mut frames) {
            if self.is_wait(&frame) {
                match self.lock_of_condition(&frame) {
                    Ok(lock) => given_back.extend(lock),
                    Err(Fault) => return Vec::new(),
                }
            }
            for object in self.contexts(&frame).unwrap_or_default() {
                if entered.len() < MAX_ENTERED
                    && let Some(lock) = self.entered_lock(object)
                {
                    entered.push(lock);
                }
            }
        }
        entered.retain(|lock| !given_back.iter().any(|it| lock.is(it.0)));
        entered
    }

    /// The lock that who waits in a frame of the method `wait` of a condition has given back meanwhile; [`None`] of that of
    /// another class, as of an event.
    fn lock_of_condition(&mut self, frame: &Frame) -> Result<Option<UserAddr>, Fault> {
        let object = self.first_variable(frame).ok_or(Fault)?;
        let class = self.class_name(object).ok_or(Fault)?;
        self.entries_left = MAX_ATTRIBUTES;
        for entry in self.attributes(object) {
            let name = self.key_text(entry.key);
            if name.is_some_and(|name| LOCK_OF_CONDITION.contains(&&*name)) {
                return Ok(Some(entry.value));
            }
        }
        if CONDITIONS.contains(&&*class) || self.entries_left == 0 {
            return Err(Fault);
        }
        Ok(None)
    }

    /// The objects whose `__exit__` a frame has to call.
    fn contexts(&mut self, frame: &Frame) -> Result<Vec<UserAddr>, Fault> {
        let values = self.live_values(frame)?;
        let mut found = Vec::new();
        let mut before = UserAddr(0);
        for value in values {
            if let Some(object) = self.bound_to_exit(value) {
                found.push(object);
            } else if self.is_exit_method(before) {
                found.push(value);
            }
            before = value;
        }
        Ok(found)
    }

    /// The values that are on the stack of a frame where its innermost block begins, the lowest first.
    fn live_values(&self, frame: &Frame) -> Result<Vec<UserAddr>, Fault> {
        let (start, count) = if self.layout.code.bytecode == ABSENT {
            self.values_below_block(frame)?
        } else {
            self.values_below_handler(frame)?
        };
        if count == 0 {
            return Ok(Vec::new());
        }
        let values = Structure::read(self.memory, start, 8 * count.min(MAX_VALUES))?;
        // The low bits are a tag from 3.14 on.
        let value = |nth| UserAddr(values.word(8 * nth) & !7);
        Ok((0..count.min(MAX_VALUES)).map(value).collect())
    }

    /// Up to 3.10: where the stack begins, and the level of the innermost block.
    fn values_below_block(&self, frame: &Frame) -> Result<(UserAddr, u64), Fault> {
        let layout = self.layout;
        let locals = frame.address.field(layout.frame.locals);
        let before = |bytes: u64| UserAddr(locals.0.wrapping_sub(bytes));
        let nested = self.int(before(BEFORE_LOCALS))?;
        if nested == 0 || nested > MAX_BLOCKS {
            return Ok((locals, 0));
        }
        let blocks = before(if layout.text.style == TextStyle::BYTES {
            BLOCKS_BEFORE_LOCALS_2_7
        } else {
            BLOCKS_BEFORE_LOCALS
        });
        let innermost = behind(blocks, u64::from(nested - 1) * BLOCK_BYTES);
        let level = self.int(behind(innermost, 8))?;
        Ok((self.value_stack(frame)?, level.into()))
    }

    /// From 3.11 on: where the stack begins, and how many values the handler of the current instruction keeps.
    fn values_below_handler(&self, frame: &Frame) -> Result<(UserAddr, u64), Fault> {
        let (memory, layout) = (self.memory, self.layout);
        let table = frame.code.field(layout.object.class + 8 + EXCEPTION_TABLE);
        let table = UserAddr(memory.word(table)?);
        let bytes = memory.word(table.field(layout.text.bytes_size))?;
        if bytes == 0 || bytes > MAX_TABLE_BYTES {
            return Ok((table, 0));
        }
        let bytes = usize::try_from(bytes).map_err(|_| Fault)?;
        let table = read_bytes(memory, table.field(layout.text.bytes_data), bytes)?;
        let read = Structure::read(memory, frame.address, layout.frame.bytes.into())?;
        let offset = instruction_offset(memory, layout, &read, frame.code)?;
        // There is none before the first one.
        let instruction = u64::try_from(offset).ok().map(|it| it / INSTRUCTION_BYTES);
        let depth = instruction.and_then(|it| handler_depth(&table, it));
        Ok((self.value_stack(frame)?, depth.unwrap_or(0)))
    }

    /// What a method `__exit__` is bound to, whose definition begins with its name.
    fn bound_to_exit(&self, method: UserAddr) -> Option<UserAddr> {
        if !method.could_be_structure() {
            return None;
        }
        let definition = UserAddr(self.memory.word(self.body(method)).ok()?);
        if !definition.could_be_structure() {
            return None;
        }
        let name = UserAddr(self.memory.word(definition).ok()?);
        let is_exit = read_bytes(self.memory, name, EXIT.len()).ok()? == EXIT;
        is_exit.then(|| self.bound_to(method))?
    }

    /// Whether it is a method `__exit__` of a class (`PyMethodDescrObject`: `d_type`, `d_name`).
    fn is_exit_method(&mut self, method: UserAddr) -> bool {
        let name = method.field(self.layout.object.class + 16);
        method.could_be_structure()
            && self
                .memory
                .word(name)
                .is_ok_and(|name| self.text(UserAddr(name)).is_some_and(|it| it == "__exit__"))
    }

    /// An object that was entered, if it is a lock that does not say who holds it.
    fn entered_lock(&self, object: UserAddr) -> Option<EnteredLock> {
        let class = self.full_class_name(object)?;
        let body = object.field(self.layout.object.class + 8);
        let word = self.memory.word(body).ok()?;
        LOCKS.contains(&&*class).then_some(EnteredLock {
            addresses: [object.0, body.0, word],
        })
    }
}

/// How many values the handler of an instruction keeps, by an exception table: entries of four numbers, the first
/// instruction, how many follow, the handler, and what it keeps with a flag.
fn handler_depth(table: &[u8], instruction: u64) -> Option<u64> {
    let mut bytes = table.iter().copied();
    loop {
        let start = number(&mut bytes)?;
        let count = number(&mut bytes)?;
        number(&mut bytes)?;
        let depth = number(&mut bytes)? >> 1;
        if instruction < start {
            // They are sorted.
            return None;
        }
        if instruction - start < count {
            return Some(depth);
        }
    }
}

/// A number of six bits in each byte, the highest first, of which all but the last have a flag.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    const MORE: u8 = 0x40;
    let mut number = 0_u64;
    loop {
        let byte = bytes.next()?;
        number = number.checked_mul(64)? | u64::from(byte & 0x3f);
        if byte & MORE == 0 {
            return Some(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of CPython 3.12: `def f(a, b):` with `with a:`, in it `with b: pass`, and behind them `return 1`.
    #[test]
    fn the_innermost_handler_says_how_many_values_are_live() {
        // (start, count, handler, depth and flag), the first byte of each with its own flag.
        let entries: [[u8; 4]; 3] = [[4, 6, 30, 3], [10, 8, 20, 7], [18, 2, 30, 3]];
        let table: Vec<u8> = entries
            .iter()
            .flat_map(|[start, count, handler, depth]| [start | 0x80, *count, *handler, *depth])
            .collect();
        let depths = [0, 4, 9, 10, 17, 18, 20].map(|at| handler_depth(&table, at));
        let expected = [None, Some(1), Some(1), Some(3), Some(3), Some(1), None];
        assert_eq!(depths, expected);
        assert_eq!(handler_depth(&table[..3], 4), None);
    }

    #[test]
    fn a_number_has_several_bytes_and_an_end() {
        let read = |bytes: &[u8]| number(&mut bytes.iter().copied());
        assert_eq!(read(&[0x80 | 0x40 | 1, 0x40, 5]), Some(64 * 64 + 5));
        assert_eq!(read(&[0x40, 0x40]), None);
        assert_eq!(read(&[0x7f; 32]), None);
        assert_eq!(read(&[]), None);
    }
}
