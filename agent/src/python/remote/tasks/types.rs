//! What the classes of objects say of them.

use std::collections::HashMap;

use agent_common::memory::{UserAddr, UserMemory};

use super::{
    super::{
        class_flags::{INTEGER, TEXT},
        structure::{Structure, behind},
    },
    layout::TaskLayout,
};

/// Objects that have a frame, by the names of their classes.
const COROUTINES: [&[u8]; 3] = [b"coroutine", b"generator", b"async_generator"];

/// Objects whose first field is the one that is awaited.
const WRAPPERS: [&[u8]; 4] = [
    b"coroutine_wrapper",
    b"async_generator_asend",
    b"async_generator_athrow",
    b"anext_awaitable",
];

/// Bytes of the longest of these names and a zero byte, in whole words.
const NAME_BYTES: u64 = 24;

/// Bytes of a word of a variable, of which a coroutine has some behind its frame.
const ITEM_BYTES: u64 = 8;

/// Most classes that are remembered.
const MAX_TYPES: usize = 10_000;

/// A class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Type {
    pub(super) kind: Kind,
    /// Bytes of an object without its items; 0 where the class cannot be read.
    pub(super) object_bytes: u64,
    pub(super) is_number: bool,
    pub(super) is_text: bool,
}

/// How an object is awaited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has a frame.
    Coroutine,
    /// It passes on to its first field.
    Wrapper,
    /// In some other way: a future, or an object of an extension.
    #[default]
    Other,
}

/// The classes that were seen, by their addresses.
#[derive(Default)]
pub(super) struct Types(HashMap<u64, Type>);

impl Types {
    /// The class at `address`.
    pub(super) fn at<M: UserMemory>(
        &mut self,
        memory: &M,
        layout: &TaskLayout,
        address: u64,
    ) -> Type {
        if let Some(found) = self.0.get(&address) {
            return *found;
        }
        let found = read(memory, layout, UserAddr(address)).unwrap_or_default();
        if self.0.len() < MAX_TYPES {
            self.0.insert(address, found);
        }
        found
    }
}

fn read<M: UserMemory>(memory: &M, layout: &TaskLayout, address: UserAddr) -> Option<Type> {
    let objects = &layout.python.object;
    let basic_size = u64::from(objects.class_basic_size);
    let name = u64::from(layout.python.exception.class_name);
    let bytes = (layout.type_flags + 8).max(basic_size + 16).max(name + 8);
    let class = Structure::read(memory, address, bytes).ok()?;
    let object_bytes = class.word(basic_size);
    let item_bytes = class.word(basic_size + 8);
    let flags = class.word(layout.type_flags);
    let start = UserAddr(class.word(name));
    // It may have any address.
    let skipped = start.0 % 8;
    let aligned = UserAddr(start.0.wrapping_sub(skipped));
    let text = Structure::read(memory, aligned, NAME_BYTES + 8);
    let name = text.as_ref().map_or(&[][..], |text| {
        let text = text.bytes().get(skipped as usize..).unwrap_or_default();
        text.split(|byte| *byte == 0).next().unwrap_or_default()
    });
    let with_frame = layout.coroutine_frame + u64::from(layout.python.frame.locals);
    let has_frame = object_bytes == with_frame && item_bytes == ITEM_BYTES;
    Some(Type {
        kind: if has_frame && COROUTINES.contains(&name) {
            Kind::Coroutine
        } else if WRAPPERS.contains(&name) {
            Kind::Wrapper
        } else {
            Kind::Other
        },
        object_bytes,
        is_number: flags & INTEGER != 0,
        is_text: flags & TEXT != 0,
    })
}

/// The address of the class of the object at `object`.
pub(super) fn class_pointer(layout: &TaskLayout, object: UserAddr) -> UserAddr {
    behind(object, layout.python.object.class.into())
}
