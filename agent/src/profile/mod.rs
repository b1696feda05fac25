//! The model of a profile: what aggregation makes and every encoder reads.
//!
//! Invariants: every index is one of its table; a location has lines or code, or both.

mod code;
mod interned;
mod labels;
mod losses;
mod unwinding;

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

pub(crate) use self::interned::{Interned, index};
pub use self::{
    code::{
        Code, Executable, ExecutableId, ExecutableKind, NativeFunction, NativeResolved,
        UnsymbolizedReason,
    },
    labels::SERVICE_NAME_LABEL,
    losses::{LeftOut, Losses, Number, UnnamedLosses, UnwindLosses},
    unwinding::{Reached, Unwinding},
};

/// Samples of some processes over some time.
#[derive(Clone, Debug)]
pub struct Profile {
    /// When sampling began.
    pub start: SystemTime,
    /// For how long samples were taken.
    pub duration: Duration,
    /// CPU time that one sample stands for.
    pub period: Duration,
    /// What the series is called that the profile is of, as [`labels`](crate::targets::labels) has it; empty
    /// for a capture.
    pub labels: BTreeMap<String, String>,
    /// The processes that samples are of; [`ProcessIndex`] is an index. When there are no samples,
    /// the process whose samples were waited for, if it is known.
    pub processes: Vec<Process>,
    /// What native and kernel frames lie in; [`ExecutableId`] is an index.
    pub executables: Vec<Executable>,
    /// The functions; [`FunctionId`] is an index.
    pub functions: Vec<Function>,
    /// What frames stand at; [`LocationId`] is an index.
    pub locations: Vec<Location>,
    /// Distinct stacks; [`StackId`] is an index.
    pub stacks: Vec<Stack>,
    /// Threads; [`ThreadIndex`] is an index.
    pub threads: Vec<Thread>,
    /// How often each stack was seen in each thread; at most one entry for a pair.
    pub samples: Vec<Sample>,
    /// How far native walks came; at most one entry for a process, none for one of which no sample
    /// was walked.
    pub unwinding: Vec<Unwinding>,
    /// What was lost or could not be told.
    pub losses: Losses,
    /// What is not there because nobody wanted it.
    pub left_out: LeftOut,
}

/// A profiled process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id, as the agent sees it; 0 stands for all processes of a service together.
    pub pid: u32,
    /// The id of its parent, where it is known.
    pub parent: Option<u32>,
    /// The kernel's name of it (`comm`), or what stands for it.
    pub name: String,
    /// Path of its executable as it sees it, where it is known.
    pub executable: PathBuf,
    /// Whether it runs Python.
    pub is_python: bool,
    /// What the interpreter is, for example `CPython 3.12.1`; empty without one.
    pub runtime: String,
    /// Files that are mapped executable, the executable first.
    pub images: Arc<[Image]>,
}

/// A file that is mapped executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Offset of `start` in the file, in bytes.
    pub file_offset: u64,
    /// Path as the process sees it.
    pub path: PathBuf,
    /// GNU build ID in lower-case hexadecimal, where the file has one.
    pub build_id: Option<String>,
}

/// Index into [`Profile::processes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessIndex(pub u32);

/// Index into [`Profile::functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// Index into [`Profile::locations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocationId(pub u32);

/// Index into [`Profile::stacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

/// Index into [`Profile::threads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadIndex(pub u32);

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
    pub code: Option<Code>,
}

/// A place in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The function.
    pub function: FunctionId,
    /// The line; [`None`] where the interpreter or the compiler has none either.
    pub line: Option<NonZeroU32>,
}

/// A Python frame in words.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resolved {
    /// The function.
    pub function: Function,
    /// The line; [`None`] where the interpreter has none either.
    pub line: Option<NonZeroU32>,
}

/// A stack, leaf first.
pub type Stack = Box<[LocationId]>;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The process that it is of.
    pub process: ProcessIndex,
    /// Its id, as the agent sees it; 0 stands for all threads of its process together.
    pub tid: u32,
    /// `threading.Thread.name` where it is known, else the kernel's name of the thread.
    pub name: String,
}

/// How often a stack was seen in a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The stack.
    pub stack: StackId,
    /// The thread.
    pub thread: ThreadIndex,
    /// How many sampling periods.
    pub count: u64,
}

impl Profile {
    /// The process that a sample is of.
    ///
    /// # Panics
    ///
    /// When `sample` is not of this profile.
    #[must_use]
    pub fn process_of(&self, sample: &Sample) -> ProcessIndex {
        self.threads[sample.thread.0 as usize].process
    }

    /// What a frame stands at.
    ///
    /// # Panics
    ///
    /// When `id` is not an index of this profile.
    #[must_use]
    pub fn location(&self, id: LocationId) -> &Location {
        &self.locations[id.0 as usize]
    }

    /// A function.
    ///
    /// # Panics
    ///
    /// When `id` is not an index of this profile.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// What some code lies in.
    ///
    /// # Panics
    ///
    /// When `id` is not an index of this profile.
    #[must_use]
    pub fn executable(&self, id: ExecutableId) -> &Executable {
        &self.executables[id.0 as usize]
    }

    /// Sampling periods in all samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.samples.iter().map(|sample| sample.count).sum()
    }
}
