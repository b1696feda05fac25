//! `_Py_DebugOffsets`: what CPython itself says about its layout, from 3.13 on.
//!
//! It stands at the start of `_PyRuntime`, is initialised statically and therefore read from
//! the ELF file. Its own layout differs between series, so its version is read first. A value
//! that is wrong would make the kernel half read nonsense: every one is checked.

mod positions;
mod read;

pub use positions::{
    CodePositions, FramePositions, InterpreterPositions, Positions, RuntimePositions,
    TextPositions, ThreadPositions,
};
pub(super) use read::COOKIE;
pub use read::{DebugOffsets, DebugOffsetsError, MAX_BYTES};
