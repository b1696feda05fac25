//! The Python name of a thread, read in the same steps as in the BPF programs.

use agent_common::{
    layout::Layout,
    memory::{Fault, UserAddr, UserMemory},
    python::{AttributeName, Attributes, MAX_ATTRIBUTES, locate_text},
    record::Text,
    scratch::Scratch,
};

use crate::python::text;

/// The attribute of `threading.Thread` with its name.
const NAME: AttributeName = AttributeName::new("_name");

/// The name of the `threading.Thread` that is the first local variable of the frame at `root`;
/// [`None`] where it has none.
///
/// # Errors
///
/// [`Fault`] when the object cannot be read.
pub(super) fn read<M: UserMemory>(
    memory: &M,
    scratch: &mut Scratch,
    layout: &Layout,
    root: UserAddr,
) -> Result<Option<String>, Fault> {
    let found = read_text(memory, scratch, layout, root)?;
    Ok(found.map(|(text, characters)| text::decode(text, &characters)))
}

/// The same, not decoded.
///
/// # Errors
///
/// [`Fault`] when the object cannot be read.
pub(crate) fn read_text<M: UserMemory>(
    memory: &M,
    scratch: &mut Scratch,
    layout: &Layout,
    root: UserAddr,
) -> Result<Option<(Text, Vec<u8>)>, Fault> {
    // The low bits are a tag from 3.14 on.
    let object = UserAddr(memory.word(root.field(layout.frame.locals))? & !7);
    of_thread(memory, scratch, layout, object)
}

/// The name of a `threading.Thread`, not decoded; [`None`] where it has none.
///
/// # Errors
///
/// [`Fault`] when the object cannot be read.
pub(super) fn of_thread<M: UserMemory>(
    memory: &M,
    scratch: &mut Scratch,
    layout: &Layout,
    thread: UserAddr,
) -> Result<Option<(Text, Vec<u8>)>, Fault> {
    let mut attributes = Attributes::new();
    attributes.begin(memory, scratch, layout, thread)?;
    for _ in 0..MAX_ATTRIBUTES {
        let Some(value) = attributes.step(memory, scratch, layout, NAME)? else {
            continue;
        };
        let (data, text) = locate_text(memory, scratch, &layout.text, value)?;
        let mut characters = vec![0; text.bytes.into()];
        // SAFETY: `characters` has this length.
        unsafe { memory.copy(data, characters.as_mut_ptr(), text.bytes.into())? };
        return Ok(Some((text, characters)));
    }
    Ok(None)
}
