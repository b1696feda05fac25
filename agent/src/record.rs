//! What the kernel half says, as the rooms of the user half read it.

use agent_common::record::{AbsentPage, CodeObject, Frame, ProcessEvent, Sample, ThreadName};

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// One sample.
    Sample(Sample),
    /// A stack that samples refer to.
    Stack(Stack),
    /// A code object that stacks refer to, with the start of its line table.
    CodeObject(CodeRecord<'a>),
    /// A further piece of the line table of a code object that was sent before.
    LineTablePiece(CodeRecord<'a>),
    /// The name of a thread.
    ThreadName(ThreadRecord<'a>),
    /// Something that happened to a process.
    ProcessEvent(ProcessEvent),
    /// A page that a sample missed.
    AbsentPage(AbsentPage),
}

/// A stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Its hash.
    pub hash: u64,
    /// Its frames, leaf first, without those that the interpreter hides.
    pub frames: Vec<Frame>,
    /// After how many frames others were left out.
    pub gap: Option<usize>,
}

/// A code object, or a further piece of its line table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeRecord<'a> {
    /// What is of fixed size.
    pub head: CodeObject,
    /// Characters of its name.
    pub name: &'a [u8],
    /// Characters of its file's name.
    pub file: &'a [u8],
    /// The line table from `head.line_table_start` on.
    pub line_table: &'a [u8],
}

/// The name of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadRecord<'a> {
    /// What is of fixed size.
    pub head: ThreadName,
    /// Characters of the name that Python has for it.
    pub python: &'a [u8],
}
