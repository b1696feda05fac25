//! Records of the BPF programs, decoded.

use std::{boxed::Box, vec::Vec};

use crate::record::{
    AbsentPage, CodeObjectHead, EndedWait, ExceptionName, Frame, GonePage, LockName, LockRelease,
    MovedMemory, NativeFrame, NewPage, ProcessEvent, Raise, Sample, StackPage, StartedWait,
    TaskName, ThreadName, UnfinishedStack, WantedTable,
};

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
    /// The name of a lock.
    LockName(LockRecord<'a>),
    /// The end of a wait for a lock.
    LockRelease(LockRelease),
    /// The name of a class of exceptions.
    ExceptionName(ExceptionName),
    /// An exception that was raised.
    Raise(Raise),
    /// The name of a task of asyncio.
    TaskName(TaskName),
    /// A sampled wait that has begun.
    StartedWait(Box<StartedWait>),
    /// A sampled wait that is over.
    EndedWait(EndedWait),
    /// Memory by which a process has grown.
    NewPage(NewPage),
    /// Such memory that is gone.
    GonePage(GonePage),
    /// Memory that has been moved.
    MovedMemory(MovedMemory),
    /// Something that happened to a process.
    ProcessEvent(ProcessEvent),
    /// A page that a sample missed.
    AbsentPage(AbsentPage),
    /// A native stack that samples refer to.
    NativeStack(NativeStack),
    /// An executable file is being run whose unwind table is not loaded.
    WantedTable(WantedTable),
    /// A page of the stack of an unfinished one.
    StackPage(&'a StackPage),
    /// A native stack whose walk is to be continued.
    UnfinishedStack(&'a UnfinishedStack),
}

/// A stack of Python frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Its hash.
    pub hash: u64,
    /// Its frames, leaf first, with those that the interpreter hides: runs of Python frames in a
    /// native stack count these too.
    pub frames: Vec<Frame>,
    /// Where frames were left out.
    pub gap: Option<Gap>,
}

/// Frames that are missing from a truncated stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// After how many frames they were left out.
    pub after: usize,
    /// How many.
    pub frames: u32,
}

/// A stack of kernel and native frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeStack {
    /// Its hash.
    pub hash: u64,
    /// Its frames, leaf first.
    pub frames: Vec<NativeFrame>,
}

/// A code object, or a further piece of its line table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeRecord<'a> {
    /// What is of fixed size.
    pub head: CodeObjectHead,
    /// Characters of its name.
    pub name: &'a [u8],
    /// Characters of its file's name.
    pub file: &'a [u8],
    /// The line table from `head.line_table_start` on.
    pub line_table: &'a [u8],
}

/// The name of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRecord<'a> {
    /// What is of fixed size.
    pub head: LockName,
    /// Characters of its name.
    pub name: &'a [u8],
}

/// The name of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadRecord<'a> {
    /// What is of fixed size.
    pub head: ThreadName,
    /// Characters of the name that Python has for it.
    pub python: &'a [u8],
}
