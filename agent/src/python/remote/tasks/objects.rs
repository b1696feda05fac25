//! Tasks, futures, names and sets as objects.
//!
//! Invariant: an object is taken for what it should be only if its class fits.

use agent_common::{
    memory::{UserAddr, UserMemory},
    python::locate_text,
    scratch::Scratch,
};

use super::{
    super::structure::{Structure, behind},
    layout::TaskLayout,
    types::{Type, Types, class_pointer},
};
use crate::python::text;

/// Most characters of a name.
const NAME_CHARACTERS: usize = 100;

/// Bits of a digit of a number.
const DIGIT_BITS: u32 = 30;

/// An entry of a set: the key and its hash.
const ENTRY_BYTES: u64 = 16;

/// Largest table of a set, in entries.
const MAX_ENTRIES: u64 = 1 << 17;

/// Entries that are read at once.
const ENTRIES_AT_ONCE: u64 = 2048;

/// The hash of an entry that was removed.
const REMOVED: u64 = u64::MAX;

/// Reads objects of a process.
pub(super) struct Objects<'a, M> {
    pub(super) memory: &'a M,
    pub(super) layout: TaskLayout,
    pub(super) types: Types,
    pub(super) scratch: Box<Scratch>,
}

impl<M: UserMemory> Objects<'_, M> {
    /// The class of the object at this address.
    pub(super) fn class_of(&mut self, object: UserAddr) -> Option<Type> {
        if !object.could_be_structure() {
            return None;
        }
        let class = self.memory.word(class_pointer(&self.layout, object)).ok()?;
        Some(self.types.at(self.memory, &self.layout, class))
    }

    /// The task at this address, if one is there.
    pub(super) fn task(&mut self, address: UserAddr) -> Option<Structure> {
        let asyncio = self.layout.asyncio;
        let task = Structure::read(self.memory, address, asyncio.task_bytes).ok()?;
        let class = task.word(self.layout.python.object.class.into());
        let class = self.types.at(self.memory, &self.layout, class);
        let is_task = task.byte(asyncio.is_task) == 1
            && task.byte(asyncio.awaited_by_is_set) <= 1
            && class.object_bytes >= asyncio.task_bytes;
        is_task.then_some(task)
    }

    /// The future at this address, which may be a task.
    pub(super) fn future(&mut self, address: UserAddr) -> Option<Structure> {
        let asyncio = self.layout.asyncio;
        let last = [asyncio.is_task, asyncio.awaited_by_is_set];
        let bytes = (asyncio.awaited_by + 8).max(last[0] + 1).max(last[1] + 1);
        let future = Structure::read(self.memory, address, bytes).ok()?;
        let class = future.word(self.layout.python.object.class.into());
        let class = self.types.at(self.memory, &self.layout, class);
        let is_future = last.iter().all(|at| future.byte(*at) <= 1) && class.object_bytes >= bytes;
        is_future.then_some(future)
    }

    /// The name of a task.
    pub(super) fn name(&mut self, task: &Structure) -> Option<String> {
        let address = UserAddr(task.word(self.layout.asyncio.name));
        let class = self.class_of(address)?;
        if class.is_number {
            return Some(format!("Task-{}", self.number(address)?));
        }
        if !class.is_text {
            return None;
        }
        let fields = &self.layout.python.text;
        let (data, text) = locate_text(self.memory, &mut self.scratch, fields, address).ok()?;
        let mut characters = vec![0; text.bytes.into()];
        // SAFETY: `characters` has this length.
        let copied = unsafe {
            self.memory
                .copy(data, characters.as_mut_ptr(), text.bytes.into())
        };
        copied.ok()?;
        let name = text::decode(text, &characters);
        Some(match name.char_indices().nth(NAME_CHARACTERS) {
            Some((end, _)) => format!("{}…", &name[..end]),
            None => name,
        })
    }

    /// A number of up to two digits that is not negative.
    fn number(&self, address: UserAddr) -> Option<u64> {
        let layout = &self.layout;
        let tag = self.memory.word(behind(address, layout.number_tag)).ok()?;
        let (digits, sign) = (tag >> 3, tag & 3);
        // 1 is zero, 2 is negative.
        if sign > 1 || digits > 2 {
            return None;
        }
        let both = behind(address, layout.number_digits);
        let both = self.memory.word(both).ok()?;
        let digit = |nth: u32| (both >> (32 * nth)) & ((1 << DIGIT_BITS) - 1);
        Some(match (sign, digits) {
            (1, _) | (_, 0) => 0,
            (_, 1) => digit(0),
            _ => digit(0) | digit(1) << DIGIT_BITS,
        })
    }

    /// The objects that await a future, at most `most`.
    pub(super) fn awaiters(&self, future: &Structure, most: usize) -> Vec<UserAddr> {
        let asyncio = &self.layout.asyncio;
        let awaiter = UserAddr(future.word(asyncio.awaited_by));
        if !awaiter.could_be_structure() {
            return Vec::new();
        }
        if future.byte(asyncio.awaited_by_is_set) == 0 {
            return vec![awaiter];
        }
        self.members(awaiter, most)
    }

    /// The members of a set, at most `most`.
    fn members(&self, set: UserAddr, most: usize) -> Vec<UserAddr> {
        let word = |offset| self.memory.word_or_zero(behind(set, offset));
        let entries = word(self.layout.set_mask).saturating_add(1);
        let table = UserAddr(word(self.layout.set_table));
        let mut members = Vec::new();
        if !entries.is_power_of_two() || entries > MAX_ENTRIES {
            return members;
        }
        let mut first = 0;
        while first < entries {
            let count = (entries - first).min(ENTRIES_AT_ONCE);
            let at = behind(table, first * ENTRY_BYTES);
            let Ok(piece) = Structure::read(self.memory, at, count * ENTRY_BYTES) else {
                break;
            };
            for entry in 0..count {
                let key = UserAddr(piece.word(entry * ENTRY_BYTES));
                let hash = piece.word(entry * ENTRY_BYTES + 8);
                if key.could_be_structure() && hash != REMOVED {
                    members.push(key);
                }
                if members.len() == most {
                    return members;
                }
            }
            first += count;
        }
        members
    }
}
