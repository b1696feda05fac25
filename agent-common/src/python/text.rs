//! Where the characters of a Python string are.

use crate::{
    layout::TextLayout,
    memory::{Fault, UserAddr, UserMemory},
    record::Text,
    scratch::{SLOT, Scratch},
};

/// Finds the characters of the string object at `address`, cut to
/// [`TEXT_BYTES`](crate::limits::TEXT_BYTES); the slot is overwritten.
///
/// # Errors
///
/// [`Fault`] when the object cannot be read or its characters are not there yet (up to 3.11).
#[inline(always)]
pub fn locate_text<M: UserMemory>(
    memory: &M,
    scratch: &mut Scratch,
    layout: &TextLayout,
    address: UserAddr,
) -> Result<(UserAddr, Text), Fault> {
    scratch.load_slot(memory, address, layout.bytes)?;
    let characters = scratch.word(SLOT + layout.length as usize);
    // What strings of another kind lack is filled in, without a branch: each costs the verifier
    // the rest of the way once more.
    let state = scratch.half(SLOT + layout.state as usize) & u32::from(layout.state_mask)
        | u32::from(layout.state_bits);
    let bit = |bit: u16| (state >> (bit & 31)) & 1 == 1;
    let kind = (state >> (layout.kind_bit & 31)) & 7;
    if !matches!(kind, 1 | 2 | 4) {
        return Err(Fault);
    }
    let text = Text::new(layout.style.kind(kind), u64::from(kind), characters);
    let data = if !bit(layout.compact_bit) {
        // An instance of a class that is derived from `str` refers to them.
        UserAddr(memory.word(address.field(layout.compact_data))?)
    } else if bit(layout.ascii_bit) {
        address.field(layout.ascii_data)
    } else {
        address.field(layout.compact_data)
    };
    Ok((data, text))
}
