//! What an object refers to, by name or key: attributes, entries and items.
//!
//! | object | where |
//! |---|---|
//! | instance | a dictionary or values of its own, its slots (`tp_members` of its classes) |
//! | class | `tp_dict` of itself and those it inherits from |
//! | module | `md_dict` |
//! | dictionary, list, tuple | its table |
//!
//! Invariants: every table is read at once, and at most so many entries of it; objects, classes and entries count
//! against those that are left, of which eight that are read at once count as one.

use agent_common::{
    layout::InstanceStyle,
    memory::{UserAddr, UserMemory},
};

use super::{
    super::{
        class_flags::{
            BYTES, DICT, HEAP, INLINE_VALUES, INTEGER, LIST, MANAGED_DICT, TEXT, TUPLE, TYPE,
        },
        structure::{Structure, behind},
        table::{self, Table, addresses},
    },
    LockReader,
};

/// Most attributes of an object, most variables of a module, and most entries of a dictionary or items that are looked
/// at.
const MAX_ATTRIBUTES: u64 = 512;
pub(super) const MAX_GLOBALS: u64 = 2048;
const MAX_ITEMS: usize = 512;

/// Most slots of a class, and most classes from which one inherits.
const MAX_MEMBERS: u64 = 32;
const MAX_CLASSES: usize = 16;

/// Entries that an object counts as besides those that it has, a class, and how many of a table count as one: they are
/// read at once.
const OBJECT: u32 = 4;
const CLASS: u32 = 2;
const AT_ONCE: u64 = 8;

/// Classes whose instances refer to nothing.
const PLAIN: u64 = INTEGER | BYTES | TEXT;

/// Bytes from `tp_dictoffset` back to `tp_members` and to `tp_dict`, and on to `tp_mro`.
const MEMBERS_BEFORE: u16 = 48;
const DICT_BEFORE: u16 = 24;
const MRO_BEHIND: u16 = 56;

/// A `PyMemberDef`: its bytes, `type` and `offset`, and the types of references (`T_OBJECT`, `T_OBJECT_EX`).
const MEMBER_BYTES: u64 = 40;
const MEMBER_TYPE: u16 = 8;
const MEMBER_OFFSET: u16 = 16;
const REFERENCES: [u32; 2] = [6, 16];

/// What an entry has in place of a name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    /// An object, mostly a string.
    Object(UserAddr),
    /// Characters up to a zero byte.
    Characters(UserAddr),
    /// The place in a list or a tuple.
    Index(u64),
}

/// What an entry is of what refers to it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// A variable of a module or a function.
    Variable,
    /// An attribute of an instance of this class, or of the class.
    Attribute(UserAddr),
    /// A variable of a module that is an object itself.
    OfModule,
    /// An entry of a dictionary, or an item of a list or a tuple.
    Item,
}

/// What an object refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) value: UserAddr,
    pub(super) part: Part,
}

/// The attributes of an instance: a dictionary, or values to the names of its class.
enum Attributes {
    Dictionary(UserAddr),
    Values { keys: UserAddr, values: UserAddr },
}

impl<M: UserMemory> LockReader<'_, M> {
    /// What an object refers to; with `all` also what modules, classes and lists do, and what an instance has of its
    /// class.
    pub(super) fn entries(&mut self, object: UserAddr, all: bool) -> Vec<Entry> {
        self.take(OBJECT);
        let Some(flags) = self.flags(object) else {
            return Vec::new();
        };
        if flags & PLAIN != 0 {
            return Vec::new();
        }
        if flags & TYPE != 0 {
            return if all {
                self.of_classes(object)
            } else {
                Vec::new()
            };
        }
        if self.full_class_name(object).as_deref() == Some("module") {
            let variables = self.memory.word(self.body(object)).unwrap_or(0);
            return if all {
                self.dictionary(UserAddr(variables), MAX_GLOBALS, Part::OfModule)
            } else {
                Vec::new()
            };
        }
        let mut entries = self.attributes(object);
        if flags & DICT != 0 {
            entries.extend(self.dictionary(object, MAX_ITEMS as u64, Part::Item));
        }
        if all && flags & (LIST | TUPLE) != 0 {
            let items = if flags & LIST != 0 {
                self.list_items(object)
            } else {
                self.tuple_items(object, MAX_ITEMS)
            };
            self.count(items.len() as u64);
            entries.extend((0..).zip(items).map(|(nth, value)| Entry {
                key: Key::Index(nth),
                value,
                part: Part::Item,
            }));
        }
        if all
            && flags & HEAP != 0
            && let Some(class) = self.class(object)
        {
            entries.extend(self.of_classes(class));
        }
        entries.retain(|entry| entry.value.could_be_structure());
        entries
    }

    /// The attributes and slots of an instance.
    pub(super) fn attributes(&mut self, object: UserAddr) -> Vec<Entry> {
        let Some(class) = self.class(object) else {
            return Vec::new();
        };
        let part = Part::Attribute(class);
        let mut entries = match self.own_attributes(object) {
            Some(Attributes::Dictionary(dictionary)) => {
                self.dictionary(dictionary, MAX_ATTRIBUTES, part)
            }
            Some(Attributes::Values { keys, values }) => self
                .table(keys, values, MAX_ATTRIBUTES, part)
                .unwrap_or_default(),
            None => Vec::new(),
        };
        for class in self.heap_classes(class) {
            if !self.take(CLASS) {
                break;
            }
            entries.extend(self.slots(class, object, part));
        }
        entries
    }

    /// The variables that a dictionary has, or its entries.
    pub(super) fn dictionary(&mut self, object: UserAddr, most: u64, part: Part) -> Vec<Entry> {
        let fields = &self.layout.object;
        if !object.could_be_structure() {
            return Vec::new();
        }
        if self.is_2_7() {
            return self.old_dictionary(object, most, part).unwrap_or_default();
        }
        let word = |offset| {
            self.memory
                .word(object.field(offset))
                .map_or(UserAddr(0), UserAddr)
        };
        let (keys, values) = (word(fields.dict_keys), word(fields.dict_values));
        let values = if values.is_null() {
            values
        } else {
            values.field(fields.values_head)
        };
        self.table(keys, values, most, part).unwrap_or_default()
    }

    /// Where an instance keeps its attributes.
    fn own_attributes(&self, object: UserAddr) -> Option<Attributes> {
        let (memory, fields) = (self.memory, &self.layout.object);
        let flags = self.flags(object)?;
        let class = UserAddr(memory.word(object.field(fields.class)).ok()?);
        let is_old = fields.instance == InstanceStyle::OPAQUE
            || fields.instance == InstanceStyle::DICT_OFFSET;
        if is_old || flags & MANAGED_DICT == 0 {
            // `in_dict` of an old class in 2.7.
            let offset = if self.class(object)? == class {
                memory.word(class.field(fields.class_dict_offset)).ok()?
            } else {
                u64::from(fields.class) + 16
            };
            let is_offset = (1..=4096).contains(&offset);
            let dictionary = is_offset.then(|| memory.word(behind(object, offset)).ok())??;
            return Some(Attributes::Dictionary(UserAddr(dictionary)));
        }
        let before = u64::from(fields.before_object);
        let before = |bytes: u64| memory.word(UserAddr(object.0.wrapping_sub(before + bytes)));
        let first = before(0).ok()?;
        let (dictionary, values) = match fields.instance {
            InstanceStyle::VALUES_AND_DICT => (first, before(8).ok()?),
            InstanceStyle::VALUES_OR_DICT if first & 1 == 1 => (0, first.wrapping_add(1)),
            InstanceStyle::INLINE_VALUES if first == 0 && flags & INLINE_VALUES != 0 => {
                let size = memory.word(class.field(fields.class_basic_size)).ok()?;
                (0, object.0.wrapping_add(size))
            }
            _ => (first, 0),
        };
        if dictionary != 0 {
            return Some(Attributes::Dictionary(UserAddr(dictionary)));
        }
        let keys = memory.word(class.field(fields.class_cached_keys)).ok()?;
        (values != 0).then_some(Attributes::Values {
            keys: UserAddr(keys),
            values: behind(UserAddr(values), fields.values_head.into()),
        })
    }

    /// The entries of a table of keys, whose values are in them or, where there are some, apart.
    fn table(
        &mut self,
        keys: UserAddr,
        values: UserAddr,
        most: u64,
        part: Part,
    ) -> Option<Vec<Entry>> {
        let table = Table::of_keys(self.memory, self.layout, keys).ok()?;
        self.used_entries(&table, values, most, part)
    }

    /// A dictionary of 2.7.
    fn old_dictionary(&mut self, object: UserAddr, most: u64, part: Part) -> Option<Vec<Entry>> {
        let (table, _) = Table::with_mask(self.memory, self.body(object), 24).ok()?;
        self.used_entries(&table, UserAddr(0), most, part)
    }

    /// The entries of the first so many ones of a table that have a key and a value, which is in it or stands apart.
    fn used_entries(
        &mut self,
        table: &Table,
        values: UserAddr,
        most: u64,
        part: Part,
    ) -> Option<Vec<Entry>> {
        let Table {
            start, entry_bytes, ..
        } = *table;
        let count = self.count(table.count.min(most))?;
        let entries = Structure::read(self.memory, start, count * entry_bytes).ok()?;
        let apart = if values.is_null() {
            None
        } else {
            Some(Structure::read(self.memory, values, 8 * count).ok()?)
        };
        let entry = |nth| {
            let key = nth * entry_bytes + table.key_offset();
            let value = apart.as_ref().map(|apart| apart.word(8 * nth));
            Entry {
                key: Key::Object(UserAddr(entries.word(key))),
                value: UserAddr(value.unwrap_or_else(|| entries.word(key + 8))),
                part,
            }
        };
        Some((0..count).map(entry).filter(is_used).collect())
    }

    /// The attributes of a class and of those it inherits from, as far as they are written in Python.
    fn of_classes(&mut self, class: UserAddr) -> Vec<Entry> {
        let mut entries = Vec::new();
        for class in self.heap_classes(class) {
            if !self.take(CLASS) {
                break;
            }
            let variables = class.field(self.layout.object.class_dict_offset - DICT_BEFORE);
            let variables = self.memory.word(variables).unwrap_or(0);
            let part = Part::Attribute(class);
            entries.extend(self.dictionary(UserAddr(variables), MAX_ATTRIBUTES, part));
        }
        entries
    }

    /// A class and those it inherits from, without those that are written in C.
    fn heap_classes(&self, class: UserAddr) -> Vec<UserAddr> {
        let fields = &self.layout.object;
        let is_heap_type = |class: UserAddr| {
            let flags = self.memory.word(class.field(fields.class_flags()));
            class.could_be_structure() && flags.is_ok_and(|flags| flags & HEAP != 0)
        };
        if !is_heap_type(class) {
            return Vec::new();
        }
        let order = class.field(fields.class_dict_offset + MRO_BEHIND);
        let order = UserAddr(self.memory.word(order).unwrap_or(0));
        let mut classes = self.tuple_items(order, MAX_CLASSES);
        classes.retain(|class| is_heap_type(*class));
        classes
    }

    /// The slots of a class that an object has.
    fn slots(&mut self, class: UserAddr, object: UserAddr, part: Part) -> Vec<Entry> {
        let members = class.field(self.layout.object.class_dict_offset - MEMBERS_BEFORE);
        let members = UserAddr(self.memory.word(members).unwrap_or(0));
        let mut slots = Vec::new();
        if !members.could_be_structure() {
            return slots;
        }
        let mut looked_at = 0;
        for nth in 0..MAX_MEMBERS {
            looked_at = nth + 1;
            let member = behind(members, nth * MEMBER_BYTES);
            let word = |offset| self.memory.word(member.field(offset)).unwrap_or(0);
            let (name, offset) = (word(0), word(MEMBER_OFFSET));
            if name == 0 {
                break;
            }
            let kind = self.int(member.field(MEMBER_TYPE)).unwrap_or(0);
            if REFERENCES.contains(&kind) && offset <= 4096 {
                let value = self.memory.word(behind(object, offset)).unwrap_or(0);
                slots.push(Entry {
                    key: Key::Characters(UserAddr(name)),
                    value: UserAddr(value),
                    part,
                });
            }
        }
        self.count(looked_at);
        slots
    }

    /// The items of a list.
    fn list_items(&self, object: UserAddr) -> Vec<UserAddr> {
        let Ok((start, size)) = table::list(self.memory, self.body(object)) else {
            return Vec::new();
        };
        addresses(self.memory, start, size, MAX_ITEMS).unwrap_or_default()
    }

    /// The items of a tuple, which are where its class says that the fixed part ends.
    pub(super) fn tuple_items(&self, object: UserAddr, most: usize) -> Vec<UserAddr> {
        let fields = &self.layout.object;
        if self.full_class_name(object).as_deref() != Some("tuple") {
            return Vec::new();
        }
        let size = self.memory.word(self.body(object)).unwrap_or(0);
        let class = self.memory.word(object.field(fields.class)).map(UserAddr);
        let fixed = class.and_then(|it| self.memory.word(it.field(fields.class_basic_size)));
        match fixed {
            Ok(fixed) if fixed <= 64 => {
                addresses(self.memory, behind(object, fixed), size, most).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// `tp_flags` of the class of an object.
    fn flags(&self, object: UserAddr) -> Option<u64> {
        let fields = &self.layout.object;
        if !object.could_be_structure() {
            return None;
        }
        let class = UserAddr(self.memory.word(object.field(fields.class)).ok()?);
        let flags = class.field(fields.class_flags());
        class
            .could_be_structure()
            .then(|| self.memory.word(flags).ok())?
    }

    /// Counts what takes as long as so many entries; whether there were any left.
    fn take(&mut self, entries: u32) -> bool {
        let were_left = self.entries_left > 0;
        self.entries_left = self.entries_left.saturating_sub(entries);
        were_left
    }

    /// Counts so many entries, which are read at once; [`None`] where there are none, or none are left.
    fn count(&mut self, entries: u64) -> Option<u64> {
        if entries == 0 {
            return None;
        }
        let counted = u32::try_from(entries.div_ceil(AT_ONCE)).unwrap_or(u32::MAX);
        self.take(counted).then_some(entries)
    }
}

/// Whether an entry of a table has a key and a value.
fn is_used(entry: &Entry) -> bool {
    entry.value.could_be_structure()
        && matches!(entry.key, Key::Object(key) if key.could_be_structure())
}
