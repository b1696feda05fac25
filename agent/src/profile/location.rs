//! Where frames are: functions, lines, addresses in executables.

use std::num::NonZeroU32;

use super::indices::{ExecutableId, FunctionId};

/// What kind of frame a function's frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// A Python function, a module's or a class's body, a lambda, a comprehension.
    Python,
    /// A function of a process that the processor runs itself, compiled before or at run time.
    Native,
    /// A function of the kernel.
    Kernel,
    /// Not a function: says why something is not there, for example `[frames left out]`.
    Marker,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// Name as people know it: qualified where the version of Python has that, demangled.
    pub name: String,
    /// File as the interpreter or the compiler names it; empty where none is known, and for a
    /// marker.
    pub file: String,
    /// First line of its source.
    pub first_line: Option<NonZeroU32>,
    /// What it is.
    pub kind: FrameKind,
}

/// What a frame stands at.
///
/// Native and kernel frames with different addresses stand at different locations, even if their
/// lines are equal; whoever shows only lines takes those for one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The function and those that the compiler had put into it there, the innermost first; none
    /// when the function could not be told.
    pub lines: Box<[Line]>,
    /// The code, of a native or a kernel frame.
    pub code: Option<CodeAddress>,
}

/// A place in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The function.
    pub function: FunctionId,
    /// The line; [`None`] where the interpreter or the compiler has none either.
    pub line: Option<NonZeroU32>,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeAddress {
    /// What it lies in.
    pub executable: ExecutableId,
    /// Where, in the executable's own addresses.
    pub address: u64,
}
