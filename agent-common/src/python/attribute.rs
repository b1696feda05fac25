//! An attribute of a Python object, by its name.
//!
//! Instances keep their attributes in a dictionary of their own, or as an array of values whose
//! names stand once in their class. Both are searched from the start, so this is for
//! objects with few attributes and for values that are seldom needed.

use crate::{
    layout::{InstanceStyle, KeysStyle, Layout},
    memory::{Fault, UserAddr, UserMemory},
    scratch::{SLOT, Scratch},
    volatile::Volatile,
};

/// Maximum number of attributes that are checked.
pub const MAX_ATTRIBUTES: u32 = 24;

/// Bytes of the head of a dictionary's keys.
const KEYS_BYTES: u16 = 40;

/// The name of an attribute: ASCII, at most eight characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeName {
    characters: u64,
    length: u64,
}

impl AttributeName {
    /// A name of at most eight ASCII characters.
    ///
    /// # Panics
    ///
    /// When it is longer; names are constants, so that is a compile error.
    #[must_use]
    pub const fn new(name: &str) -> Self {
        let bytes = name.as_bytes();
        assert!(bytes.len() <= 8);
        let mut characters = [0; 8];
        let mut index = 0;
        while index < bytes.len() {
            characters[index] = bytes[index];
            index += 1;
        }
        Self {
            characters: u64::from_le_bytes(characters),
            length: bytes.len() as u64,
        }
    }

    /// Whether the string object at `address` is this name; the slot is overwritten.
    #[inline(always)]
    fn is_at<M: UserMemory>(
        self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        address: UserAddr,
    ) -> Result<bool, Fault> {
        let text = &layout.text;
        // Characters of a string this short end within the eight bytes after its head.
        scratch.load_slot(memory, address, text.ascii_data + 8)?;
        let mask = u64::MAX >> (64 - 8 * self.length);
        let characters = scratch.word(SLOT + text.ascii_data as usize) & mask;
        let is_ascii = (scratch.half(SLOT + text.state as usize) >> (text.ascii_bit & 31)) & 1 == 1;
        let length = scratch.word(SLOT + text.length as usize);
        Ok(is_ascii && length == self.length && characters == self.characters)
    }
}

/// Where names and values of an object's attributes are.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Attributes {
    /// Address of the next entry of the keys.
    entry: Volatile<u64>,
    /// Address of the next value, 0 when values stand in the entries.
    value: Volatile<u64>,
    /// Entries that were not checked yet.
    left: Volatile<u32>,
    /// Bytes of an entry.
    entry_bytes: Volatile<u16>,
    reserved: u16,
}

impl Attributes {
    /// Attributes of no object.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entry: Volatile::new(0),
            value: Volatile::new(0),
            left: Volatile::new(0),
            entry_bytes: Volatile::new(0),
            reserved: 0,
        }
    }

    /// Finds the attributes of the `object`.
    ///
    /// # Errors
    ///
    /// [`Fault`] when it cannot be read or has none.
    #[inline(always)]
    pub fn begin<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        object: UserAddr,
    ) -> Result<(), Fault> {
        self.begin_most(memory, scratch, layout, object, MAX_ATTRIBUTES)
    }

    /// The same, but at most so many of them.
    ///
    /// # Errors
    ///
    /// [`Fault`] when it cannot be read or has none.
    #[inline(always)]
    pub fn begin_most<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        object: UserAddr,
        most: u32,
    ) -> Result<(), Fault> {
        let fields = &layout.object;
        if !object.could_be_structure() {
            return Err(Fault);
        }
        let class = UserAddr(memory.word(object.field(fields.class))?);
        let before = |bytes: u64| UserAddr(object.0.wrapping_sub(bytes));
        let distance = u64::from(fields.before_object);
        let (dictionary, values) = match fields.instance {
            InstanceStyle::DICT_OFFSET => {
                let offset = memory.word(class.field(fields.class_dict_offset))?;
                if offset == 0 || offset > 4096 {
                    return Err(Fault);
                }
                (memory.word(UserAddr(object.0.wrapping_add(offset)))?, 0)
            }
            InstanceStyle::VALUES_AND_DICT => (
                memory.word(before(distance))?,
                memory.word(before(distance + 8))?,
            ),
            InstanceStyle::VALUES_OR_DICT => {
                let either = memory.word(before(distance))?;
                if either & 1 == 1 {
                    (0, either.wrapping_add(1))
                } else {
                    (either, 0)
                }
            }
            InstanceStyle::INLINE_VALUES => {
                let dictionary = memory.word(before(distance))?;
                if dictionary == 0 {
                    let size = memory.word(class.field(fields.class_basic_size))?;
                    (0, object.0.wrapping_add(size))
                } else {
                    (dictionary, 0)
                }
            }
            _ => return Err(Fault),
        };
        let (keys, values) = if dictionary == 0 {
            (memory.word(class.field(fields.class_cached_keys))?, values)
        } else {
            let dictionary = UserAddr(dictionary);
            (
                memory.word(dictionary.field(fields.dict_keys))?,
                memory.word(dictionary.field(fields.dict_values))?,
            )
        };
        if dictionary == 0 && values == 0 {
            return Err(Fault);
        }
        self.value.set(if values == 0 {
            0
        } else {
            values.wrapping_add(u64::from(fields.values_head))
        });
        self.enter(memory, scratch, fields.keys, UserAddr(keys), most)
    }

    /// Finds the first `most` entries of a dictionary that is no instance's, such as that of a module.
    ///
    /// # Errors
    ///
    /// [`Fault`] when it cannot be read.
    #[cfg(feature = "user")]
    pub fn begin_dictionary<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        dictionary: UserAddr,
        most: u32,
    ) -> Result<(), Fault> {
        let fields = &layout.object;
        if fields.instance == InstanceStyle::OPAQUE || !dictionary.could_be_structure() {
            return Err(Fault);
        }
        let keys = UserAddr(memory.word(dictionary.field(fields.dict_keys))?);
        self.value.set(0);
        self.enter(memory, scratch, fields.keys, keys, most)
    }

    /// Starts at the first of at most `most` entries of the `keys`.
    #[inline(always)]
    fn enter<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        style: KeysStyle,
        keys: UserAddr,
        most: u32,
    ) -> Result<(), Fault> {
        scratch.load_slot(memory, keys, KEYS_BYTES)?;
        let (head_bytes, index_bytes, count, entry_bytes) = if style == KeysStyle::SIZE {
            let size = scratch.word(SLOT + 8);
            let width = if size <= 0xff { 1 } else { 2 };
            (40, size.wrapping_mul(width), scratch.word(SLOT + 32), 24)
        } else {
            let log2_index_bytes = scratch.byte(SLOT + 9) & 31;
            let is_general = scratch.byte(SLOT + 10) == 0;
            let entry_bytes = if is_general { 24 } else { 16 };
            (
                32,
                1 << log2_index_bytes,
                scratch.word(SLOT + 24),
                entry_bytes,
            )
        };
        self.entry
            .set(keys.0.wrapping_add(head_bytes).wrapping_add(index_bytes));
        self.entry_bytes.set(entry_bytes);
        self.left.set(if count > u64::from(most) {
            most
        } else {
            count as u32
        });
        Ok(())
    }

    /// Checks the next attribute: returns its value if its name is `name`. The slot is overwritten.
    ///
    /// # Errors
    ///
    /// [`Fault`] when there are no more or it cannot be read.
    #[inline(always)]
    pub fn step<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        name: AttributeName,
    ) -> Result<Option<UserAddr>, Fault> {
        let (key, value) = self.next_entry(memory)?;
        // A key that was deleted is a null pointer.
        if key.is_null() || !name.is_at(memory, scratch, layout, key)? {
            return Ok(None);
        }
        Ok(Some(UserAddr(memory.word(value)?)))
    }

    /// The key of the next attribute, null if it was deleted, and where its value stands.
    ///
    /// # Errors
    ///
    /// [`Fault`] when there are no more or it cannot be read.
    #[inline(always)]
    pub fn next_entry<M: UserMemory>(&mut self, memory: &M) -> Result<(UserAddr, UserAddr), Fault> {
        let left = self.left.get();
        if left == 0 {
            return Err(Fault);
        }
        self.left.set(left - 1);
        // The key and its value are the last two words of an entry.
        let bytes = self.entry_bytes.get();
        let entry = UserAddr(self.entry.get());
        let key = UserAddr(memory.word(entry.field(bytes - 16))?);
        let own_value = entry.field(bytes - 8);
        self.entry.set(entry.field(bytes).0);
        let value = self.value.get();
        let value = if value == 0 {
            own_value
        } else {
            self.value.set(value.wrapping_add(8));
            UserAddr(value)
        };
        Ok((key, value))
    }
}
