//! Classes of objects, and strings.

use agent_common::{
    layout::InstanceStyle,
    memory::{UserAddr, UserMemory},
    python::locate_text,
};

use super::LockReader;
use crate::python::{remote::name, text};

/// Most bytes of the name of a class.
const CLASS_BYTES: u64 = 64;

impl<M: UserMemory> LockReader<'_, M> {
    /// The name of the class of an object, without its module.
    pub(super) fn class_name(&self, object: UserAddr) -> Option<String> {
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
    pub(super) fn full_class_name(&self, object: UserAddr) -> Option<String> {
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
