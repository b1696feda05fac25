//! `_Py_DebugOffsets`: the layout that CPython publishes, from 3.13 on.
//!
//! It is at the start of `_PyRuntime`, is initialised statically and therefore read from the ELF
//! file. Its own layout differs between series, so its version is read first.
//!
//! Invariant: every value is checked, since the BPF programs read at the offsets.

mod positions;
mod read;

pub use positions::{
    CodePositions, FramePositions, InterpreterPositions, Positions, RuntimePositions,
    TextPositions, ThreadPositions,
};
pub(super) use read::COOKIE;
pub use read::{DebugOffsets, DebugOffsetsError, MAX_BYTES};

#[cfg(test)]
mod tests;
