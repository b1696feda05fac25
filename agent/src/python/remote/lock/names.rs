//! The name of a variable that refers to a lock.

use agent_common::{
    layout::InstanceStyle,
    memory::{UserAddr, UserMemory},
    python::Attributes,
};

use super::{Lock, LockReader};

/// Most attributes of an object that are looked at.
const MAX_OBJECT_ATTRIBUTES: u32 = 512;

/// Most variables of a module that are looked at.
const MAX_GLOBALS: u32 = 2048;

impl<M: UserMemory> LockReader<'_, M> {
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
        let flags = class.field(fields.class_flags());
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
}
