//! The name of a variable that refers to a lock.

use agent_common::{
    layout::InstanceStyle,
    memory::{UserAddr, UserMemory},
    python::Attributes,
};

use super::{Caller, Lock, LockReader};

/// Most attributes of an object that are looked at.
const MAX_OBJECT_ATTRIBUTES: u32 = 512;

/// Most variables of a module that are looked at.
const MAX_GLOBALS: u32 = 2048;

/// Most attributes of an object, or variables of a module, in which a name is looked for in their turn, and most entries
/// of a dictionary that is one.
const MAX_INNER: usize = 64;
const MAX_INNER_ENTRIES: u32 = 512;

/// Most entries that are looked at besides for a name that is none of the near ones: there must be time for other locks.
const MAX_FAR: u32 = 256;

/// Classes of objects with many attributes that are no objects of the program.
const MODULES: [&str; 2] = ["module", "type"];

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
        // It may be an argument, or another variable.
        for variable in callers.iter().flat_map(Caller::variables) {
            self.is(lock, variable);
        }
        let near = callers.iter().find_map(|caller| {
            self.attribute(lock, caller.first)
                .or_else(|| self.global(lock, caller.globals))
        });
        if near.is_some() {
            return near;
        }
        let kept = self.entries_left.saturating_sub(MAX_FAR);
        self.entries_left -= kept;
        let far = self.far_variable(lock, &callers);
        self.entries_left += kept;
        far
    }

    /// The same among what other variables refer to, the nearest first.
    fn far_variable(&mut self, lock: &mut Lock, callers: &[Caller]) -> Option<String> {
        let mut others = callers.iter().flat_map(|caller| &caller.others);
        let of_others = others.find_map(|other| self.attribute(lock, *other));
        of_others.or_else(|| {
            callers.iter().find_map(|caller| {
                let inner = self.attributes(caller.first).unwrap_or_default();
                let class = inner.first().and_then(|_| self.class(caller.first));
                self.in_one_of(lock, class.as_deref(), &inner).or_else(|| {
                    let inner = self.globals_of(caller.globals).unwrap_or_default();
                    self.in_one_of(lock, None, &inner)
                })
            })
        })
    }

    /// The name of the lock in one of the values with these names, which are those of an object of the class or of a module.
    fn in_one_of(
        &mut self,
        lock: &mut Lock,
        class: Option<&str>,
        values: &[(UserAddr, UserAddr)],
    ) -> Option<String> {
        for &(name, value) in values {
            match self.full_class_name(value) {
                Some(of) if of == "dict" => {
                    if let Some(key) = self.key_of_lock(lock, value, MAX_INNER_ENTRIES) {
                        let name = self.text(name)?;
                        let before = class.map_or(String::new(), |class| format!("{class}."));
                        return Some(format!("{before}{name}[\"{key}\"]"));
                    }
                }
                Some(of) if !MODULES.contains(&&*of) => {
                    if let Some(name) = self.attribute(lock, value) {
                        return Some(name);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Attributes of an object: their names and their values.
    fn attributes(&mut self, object: UserAddr) -> Option<Vec<(UserAddr, UserAddr)>> {
        if !self.has_attributes(object)? {
            return None;
        }
        let mut attributes = Attributes::new();
        let (memory, layout) = (self.memory, self.layout);
        attributes
            .begin_most(memory, self.scratch, layout, object, MAX_OBJECT_ATTRIBUTES)
            .ok()?;
        Some(self.entries(&mut attributes))
    }

    /// Variables of a module.
    fn globals_of(&mut self, globals: UserAddr) -> Option<Vec<(UserAddr, UserAddr)>> {
        let mut variables = Attributes::new();
        let (memory, layout) = (self.memory, self.layout);
        variables
            .begin_dictionary(memory, self.scratch, layout, globals, MAX_GLOBALS)
            .ok()?;
        Some(self.entries(&mut variables))
    }

    fn entries(&mut self, entries: &mut Attributes) -> Vec<(UserAddr, UserAddr)> {
        let mut found = Vec::new();
        while self.entries_left > 0
            && found.len() < MAX_INNER
            && let Ok((key, value)) = entries.next_entry(self.memory)
        {
            self.entries_left -= 1;
            let value = self.memory.word(value).map_or(UserAddr(0), UserAddr);
            if !key.is_null() && value.could_be_structure() {
                found.push((key, value));
            }
        }
        found
    }

    /// The class of an object as names have it.
    fn class(&self, object: UserAddr) -> Option<String> {
        let class = self.full_class_name(object)?;
        Some(class.rsplit('.').next().unwrap_or_default().to_owned())
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
        Some(format!("{}.{name}", self.class(object)?))
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
        self.key_of_lock(lock, globals, MAX_GLOBALS)
    }

    /// The key of a dictionary whose value is the lock.
    fn key_of_lock(&mut self, lock: &mut Lock, dictionary: UserAddr, most: u32) -> Option<String> {
        let mut entries = Attributes::new();
        let (memory, layout) = (self.memory, self.layout);
        entries
            .begin_dictionary(memory, self.scratch, layout, dictionary, most)
            .ok()?;
        self.key_of(lock, &mut entries)
    }

    /// A key that is a string, as it need not be of a dictionary that has no variables.
    fn text_key(&mut self, key: UserAddr) -> Option<String> {
        let class = self.full_class_name(key)?;
        ["str", "unicode"]
            .contains(&&*class)
            .then(|| self.text(key))?
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
                return self.text_key(key);
            }
        }
        None
    }
}
