//! Locations of frames: functions, lines, and addresses in executables.

use std::num::NonZeroU32;

use super::indices::{ExecutableId, FunctionId};

/// Kind of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// A Python function, the body of a module or a class, a lambda, a comprehension.
    Python,
    /// Machine code of a process, compiled ahead of time or by a JIT compiler.
    Native,
    /// A function of the kernel.
    Kernel,
    /// Not a function: stands for frames that are missing, for example `[frames left out]`.
    Marker,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// Name: demangled; for Python the qualified name, where that version of CPython has one.
    pub name: String,
    /// Source file as the interpreter or the compiler recorded it; empty where none is known, and
    /// for a marker.
    pub file: String,
    /// First line of its source.
    pub first_line: Option<NonZeroU32>,
    /// Its kind.
    pub kind: FrameKind,
}

/// Location of a frame.
///
/// Native and kernel frames with different addresses have different locations, even if their lines
/// are equal; an encoder that shows only lines merges them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The functions, inlined ones first and the innermost of them at the start; empty when the frame
    /// could not be symbolized.
    pub lines: Box<[Line]>,
    /// Address of the instruction; only native and kernel frames have one.
    pub code: Option<CodeAddress>,
}

/// A line of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The function.
    pub function: FunctionId,
    /// Line number; [`None`] where neither interpreter nor compiler recorded one.
    pub line: Option<NonZeroU32>,
}

/// Address of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeAddress {
    /// The executable that contains it.
    pub executable: ExecutableId,
    /// Address in the executable's own address space.
    pub address: u64,
}
