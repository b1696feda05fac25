//! Classes of objects, and strings.

use agent_common::{
    layout::InstanceStyle,
    memory::{UserAddr, UserMemory},
    python::locate_text,
};

use super::{super::structure::behind, LockReader};
use crate::python::{remote::name, text};

/// Most bytes of the name of a class or a member.
const MAX_CHARACTERS: u64 = 64;

/// The class of instances of old classes in 2.7, and that of those classes.
const OLD_INSTANCE: &str = "instance";
const OLD_CLASS: &str = "classobj";

impl<M: UserMemory> LockReader<'_, M> {
    /// The name of the class of an object, without its module.
    pub(super) fn class_name(&mut self, object: UserAddr) -> Option<String> {
        let class = self.class(object)?;
        let name = self.name_of_class(class)?;
        // `_Condition` and others in 2.7, `lock` and those of `multiprocessing`.
        let name = match name.trim_start_matches('_') {
            "lock" => "Lock",
            name => name,
        };
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// The class of an object.
    pub(super) fn class(&self, object: UserAddr) -> Option<UserAddr> {
        let fields = &self.layout.object;
        let class = UserAddr(self.memory.word(object.field(fields.class)).ok()?);
        if !class.could_be_structure() {
            return None;
        }
        let is_old = self.is_2_7() && self.full_name_of_class(class)? == OLD_INSTANCE;
        // `in_class`.
        let class = if is_old {
            UserAddr(self.memory.word(self.body(object)).ok()?)
        } else {
            class
        };
        class.could_be_structure().then_some(class)
    }

    /// The name of a class, without its module.
    pub(super) fn name_of_class(&mut self, class: UserAddr) -> Option<String> {
        if self.is_2_7() && self.full_class_name(class)? == OLD_CLASS {
            // `cl_name`, after `cl_bases` and `cl_dict`.
            let name = self.memory.word(self.body(class).field(16)).ok()?;
            return self.text(UserAddr(name));
        }
        let name = self.full_name_of_class(class)?;
        Some(name.rsplit('.').next().unwrap_or_default().to_owned())
    }

    /// `tp_name` of the class of an object.
    pub(super) fn full_class_name(&self, object: UserAddr) -> Option<String> {
        let class = object.field(self.layout.object.class);
        let class = UserAddr(self.memory.word(class).ok()?);
        class
            .could_be_structure()
            .then(|| self.full_name_of_class(class))?
    }

    /// `tp_name`, after `ob_type` and `ob_size`.
    fn full_name_of_class(&self, class: UserAddr) -> Option<String> {
        let name = class.field(self.layout.object.class + 16);
        Some(self.characters(UserAddr(self.memory.word(name).ok()?)))
    }

    /// The characters up to a zero byte.
    pub(super) fn characters(&self, address: UserAddr) -> String {
        let mut bytes = Vec::new();
        for nth in 0..MAX_CHARACTERS / 8 {
            let Ok(word) = self.memory.word(behind(address, 8 * nth)) else {
                break;
            };
            let word = word.to_ne_bytes();
            let end = word.iter().position(|byte| *byte == 0);
            bytes.extend(&word[..end.unwrap_or(8)]);
            if end.is_some() {
                break;
            }
        }
        text::decode_bytes(&bytes)
    }

    /// Whether it is 2.7, in which no layout says how instances keep their attributes.
    pub(super) fn is_2_7(&self) -> bool {
        self.layout.object.instance == InstanceStyle::OPAQUE
    }

    /// What follows the head of an object.
    pub(super) fn body(&self, object: UserAddr) -> UserAddr {
        object.field(self.layout.object.class + 8)
    }

    /// What a cell has in it, if it is one.
    pub(super) fn content_of_cell(&self, object: UserAddr) -> Option<UserAddr> {
        if self.full_class_name(object)? != "cell" {
            return None;
        }
        self.memory.word(self.body(object)).ok().map(UserAddr)
    }

    /// An integer of few digits.
    pub(super) fn integer(&self, object: UserAddr) -> Option<i64> {
        let body = self.body(object);
        let head = self.memory.word(body).ok()?;
        let (count, is_negative) = match &*self.full_class_name(object)? {
            "int" if self.is_2_7() => return Some(head.cast_signed()),
            "int" if self.has_tagged_integers() => (head >> 3, head & 3 == 2),
            "int" | "long" => {
                let size = head.cast_signed();
                (size.unsigned_abs(), size < 0)
            }
            _ => return None,
        };
        let digits = match count {
            0 => return Some(0),
            1 => u64::from(self.int(body.field(8)).ok()?),
            // Of 30 bits each.
            2 => {
                let digits = self.memory.word(body.field(8)).ok()?;
                digits & 0xffff_ffff | digits >> 32 << 30
            }
            _ => return None,
        };
        let number = i64::try_from(digits).ok()?;
        Some(if is_negative { -number } else { number })
    }

    /// Whether integers begin with a tag: from 3.12 on.
    fn has_tagged_integers(&self) -> bool {
        [InstanceStyle::VALUES_OR_DICT, InstanceStyle::INLINE_VALUES]
            .contains(&self.layout.object.instance)
    }

    /// The name of a `threading.Thread`.
    pub(super) fn thread_name(&mut self, thread: UserAddr) -> Option<String> {
        let found = name::of_thread(self.memory, self.scratch, self.layout, thread);
        let (found, characters) = found.ok()??;
        Some(text::decode(found, &characters))
    }

    pub(super) fn text(&mut self, object: UserAddr) -> Option<String> {
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
