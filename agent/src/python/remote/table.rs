//! The tables of dictionaries and sets.
//!
//! Invariant: what a table says of its size is checked against the rest of it.

use agent_common::{
    layout::{KeysStyle, Layout},
    memory::{Fault, UserAddr, UserMemory},
};

use super::structure::{Structure, behind};

/// More items than any container has.
pub(super) const MAX_SIZE: u64 = 1 << 44;

/// The entries of a dictionary or a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) start: UserAddr,
    /// How many there are, also unused ones.
    pub(super) count: u64,
    pub(super) entry_bytes: u64,
}

impl Table {
    /// The entries of the keys of a dictionary of Python 3: those in which a key and its value are the last two words.
    ///
    /// # Errors
    ///
    /// When they cannot be read, or are none.
    pub(super) fn of_keys<M: UserMemory>(
        memory: &M,
        layout: &Layout,
        keys: UserAddr,
    ) -> Result<Self, Fault> {
        let head = Structure::read(memory, keys, 40)?;
        let (index, count, entry_bytes) = if layout.object.keys == KeysStyle::SIZE {
            let size = head.word(8);
            let width = match size {
                0..=0xff => 1,
                0x100..=0xffff => 2,
                0x1_0000..=0xffff_ffff => 4,
                _ => return Err(Fault),
            };
            let count = head.word(32);
            if count > size {
                return Err(Fault);
            }
            (40 + size * width, count, 24)
        } else {
            let (size, index_bytes) = (head.byte(8), head.byte(9));
            let count = head.word(24);
            let is_size = size < 44 && (size..=size + 3).contains(&index_bytes);
            if !is_size || count > 1 << size {
                return Err(Fault);
            }
            let entry_bytes = if head.byte(10) == 0 { 24 } else { 16 };
            (32 + (1 << index_bytes), count, entry_bytes)
        };
        Ok(Self {
            start: behind(keys, index),
            count,
            entry_bytes,
        })
    }

    /// The entries of a dictionary of 2.7, or of a set, whose size stands before its table: `fill`, `used`, `mask`, `table`;
    /// with the number of those that are used.
    ///
    /// # Errors
    ///
    /// When they cannot be read, or are none.
    pub(super) fn with_mask<M: UserMemory>(
        memory: &M,
        body: UserAddr,
        entry_bytes: u64,
    ) -> Result<(Self, u64), Fault> {
        let head = Structure::read(memory, body, 32)?;
        let [used, mask, start] = [8, 16, 24].map(|offset| head.word(offset));
        let count = mask.saturating_add(1);
        if !count.is_power_of_two() || used > count || count > MAX_SIZE {
            return Err(Fault);
        }
        let table = Self {
            start: UserAddr(start),
            count,
            entry_bytes,
        };
        Ok((table, used))
    }

    /// How far its key is from the start of an entry of a dictionary: its value follows.
    pub(super) fn key_offset(&self) -> u64 {
        self.entry_bytes - 16
    }
}

/// What follows the head of an object.
///
/// # Errors
///
/// When it can be none.
pub(super) fn body(layout: &Layout, object: UserAddr) -> Result<UserAddr, Fault> {
    if object.could_be_structure() {
        Ok(object.field(layout.object.class + 8))
    } else {
        Err(Fault)
    }
}

/// The addresses at a place, of which there are `size`: the first ones, at most `most`.
///
/// # Errors
///
/// When they cannot be read.
pub(super) fn addresses<M: UserMemory>(
    memory: &M,
    start: UserAddr,
    size: u64,
    most: usize,
) -> Result<Vec<UserAddr>, Fault> {
    if size > MAX_SIZE {
        return Err(Fault);
    }
    let count = size.min(most as u64);
    if count == 0 {
        return Ok(Vec::new());
    }
    let items = Structure::read(memory, start, count * 8)?;
    Ok((0..count)
        .map(|nth| UserAddr(items.word(nth * 8)))
        .collect())
}

/// The items of a list: where they are, and how many.
///
/// # Errors
///
/// When they cannot be read, or are none.
pub(super) fn list<M: UserMemory>(memory: &M, body: UserAddr) -> Result<(UserAddr, u64), Fault> {
    let head = Structure::read(memory, body, 24)?;
    let [size, items, allocated] = [0, 8, 16].map(|offset| head.word(offset));
    // While it is sorted it is empty.
    if size > 0 && size > allocated {
        return Err(Fault);
    }
    Ok((UserAddr(items), size))
}
