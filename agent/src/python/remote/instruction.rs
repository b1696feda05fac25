//! Where in its code a frame is.

use agent_common::{
    layout::{ABSENT, InstructionStyle, Layout},
    memory::{Fault, UserAddr, UserMemory},
    python::bytecode,
};

use super::structure::Structure;

/// How many bytes into the bytecode of `code` the current instruction of a frame is; negative before the first one.
///
/// # Errors
///
/// [`Fault`] when that cannot be read, or is no place in any code.
pub(super) fn instruction_offset<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    frame: &Structure,
    code: UserAddr,
) -> Result<i32, Fault> {
    let fields = &layout.frame;
    if fields.instruction_style != InstructionStyle::POINTER {
        return Ok(match frame.half(fields.instruction.into()).cast_signed() {
            -1 => -1,
            index => index.wrapping_mul(fields.instruction_unit.into()),
        });
    }
    let copy = if fields.bytecode_copy == ABSENT {
        0
    } else {
        frame.half(fields.bytecode_copy.into())
    };
    let start = bytecode(memory, &layout.code, code, copy)?;
    let offset = frame.word(fields.instruction.into()).wrapping_sub(start);
    i32::try_from(offset.cast_signed()).map_err(|_| Fault)
}
