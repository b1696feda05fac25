//! What travels through the ring buffer, in the byte order of the machine.
//!
//! A stack and a code object travel once and are named by their hash afterwards. Numbers that
//! stand for a case are newtypes with constants: an unknown value survives the wire.

use crate::{
    layout::LineTableFormat,
    limits::{MAX_FRAMES, TEXT_BYTES},
};

/// What a record is.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordKind(pub u16);

impl RecordKind {
    /// A [`Sample`].
    pub const SAMPLE: Self = Self(1);
    /// A [`StackHead`] with its frames.
    pub const STACK: Self = Self(2);
    /// A [`CodeObject`] with its names and the start of its line table.
    pub const CODE_OBJECT: Self = Self(3);
    /// A [`CodeObject`] without names, with a further piece of its line table.
    pub const LINE_TABLE_PIECE: Self = Self(4);
    /// A [`ThreadName`].
    pub const THREAD_NAME: Self = Self(5);
    /// A [`ProcessEvent`].
    pub const PROCESS_EVENT: Self = Self(6);
    /// An [`AbsentPage`].
    pub const ABSENT_PAGE: Self = Self(7);
    /// A [`NativeStackHead`] with its frames.
    pub const NATIVE_STACK: Self = Self(8);
    /// A [`WantedTable`].
    pub const WANTED_TABLE: Self = Self(9);
}

/// The start of every record.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: RecordKind,
    /// Zero.
    pub reserved: u16,
    /// Bytes of the whole record, with this header.
    pub bytes: u32,
}

/// Where a walk of Python frames ended.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WalkEnd(pub u16);

impl WalkEnd {
    /// At the root: the stack is whole.
    pub const ROOT: Self = Self(1);
    /// The thread has no Python thread state.
    pub const NO_THREAD_STATE: Self = Self(2);
    /// The thread has a thread state that runs no frame.
    pub const NO_FRAME: Self = Self(3);
    /// The thread state could not be read.
    pub const THREAD_FAULT: Self = Self(4);
    /// A frame could not be read.
    pub const FRAME_FAULT: Self = Self(5);
    /// A pointer that no structure can have.
    pub const BAD_POINTER: Self = Self(6);
    /// The chain of frames leads back to itself.
    pub const CYCLE: Self = Self(7);
    /// More frames than are visited for one sample.
    pub const TOO_DEEP: Self = Self(8);
    /// More thread states than are visited for one sample.
    pub const TOO_MANY_THREADS: Self = Self(9);
    /// At a frame that the interpreter was about to link or had just unlinked.
    pub const TORN: Self = Self(10);
    /// The process is not known to run Python.
    pub const NO_PYTHON: Self = Self(11);
}

/// Where a walk of native frames ended.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeEnd(pub u16);

impl NativeEnd {
    /// It was not wanted.
    pub const NOT_WALKED: Self = Self(0);
    /// At the process's entry or the thread's start: the stack is whole.
    pub const ENTRY: Self = Self(1);
    /// The thread's registers are not known, or are those of a 32-bit program.
    pub const NO_REGISTERS: Self = Self(2);
    /// At an address that is in no executable mapping that is known of.
    pub const UNMAPPED: Self = Self(3);
    /// At code whose unwind table is not loaded yet, and which keeps no frame pointer.
    pub const NO_TABLE: Self = Self(4);
    /// At code that no unwind table has a rule for, and which keeps no frame pointer.
    pub const NO_RULE: Self = Self(5);
    /// A part of the stack could not be read.
    pub const FAULT: Self = Self(6);
    /// The caller's frame would not lie above the frame.
    pub const STUCK: Self = Self(7);
    /// More frames than are kept.
    pub const TOO_DEEP: Self = Self(8);
    /// There are no others than the kernel's: the thread is its own, or ends.
    pub const KERNEL_ALONE: Self = Self(9);
}

/// One sample of one thread.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// [`RecordKind::SAMPLE`].
    pub header: Header,
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Hash of the stack, 0 for a sample without Python frames.
    pub stack: u64,
    /// Hash of the native stack, 0 for a sample without kernel and native frames.
    pub native_stack: u64,
    /// Process, in the initial PID namespace.
    pub tgid: u32,
    /// Thread, in the initial PID namespace.
    pub tid: u32,
    /// Logical processor.
    pub cpu: u32,
    /// Sampling periods that this sample stands for, at least 1.
    pub weight: u32,
    /// Where the walk ended.
    pub end: WalkEnd,
    /// 1 when the thread held the GIL or, without one, was attached to the interpreter.
    pub holds_gil: u16,
    /// Where the walk of native frames ended.
    pub native_end: NativeEnd,
    /// Zero.
    pub reserved: u16,
}

/// What a frame on the wire is.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameKind(pub u32);

impl FrameKind {
    /// A Python frame whose code object was described.
    pub const PYTHON: Self = Self(1);
    /// A frame that the interpreter itself hides; not part of the stack.
    pub const HIDDEN: Self = Self(2);
    /// A Python frame whose code object could not be described for this sample;
    /// [`Frame::symbol`] is the code object's address.
    pub const UNRESOLVED: Self = Self(3);
    /// The same for the frame of a generator or coroutine.
    pub const UNRESOLVED_GENERATOR: Self = Self(4);
}

/// One frame of a stack.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Hash of the code object.
    pub symbol: u64,
    /// Bytes from the start of the bytecode; -1 (as `u32`) before the first instruction.
    pub instruction_offset: u32,
    /// What it is.
    pub kind: FrameKind,
}

/// The start of a stack; [`Frame`]s follow.
///
/// Frames stand leaf first. Those from [`crate::limits::LEAF_FRAMES`] on are a ring whose
/// oldest entry, the one nearest the leaf, is `root_start` entries in.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackHead {
    /// [`RecordKind::STACK`].
    pub header: Header,
    /// Hash of the stack.
    pub stack: u64,
    /// Frames that follow.
    pub frame_count: u16,
    /// Where the ring of root-most frames starts.
    pub root_start: u16,
    /// Frames between the leaf-most and the root-most ones that were left out.
    pub left_out: u32,
}

/// What a [`NativeFrame`] is.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeKind(pub u32);

impl NativeKind {
    /// Code of the kernel: [`NativeFrame::address`] is its address.
    pub const KERNEL: Self = Self(1);
    /// Code of an executable file: the address is the one that the file itself gives it, before
    /// any load bias; [`NativeFrame::of`] is the number that the user half gave the file.
    pub const FILE: Self = Self(2);
    /// Code in memory that no file backs, such as a compiler at run time makes: the address is
    /// that in the process, whose id in the initial PID namespace is [`NativeFrame::of`].
    pub const ANONYMOUS: Self = Self(3);
    /// Stands for native frames of the interpreter's evaluation loop: the next
    /// [`NativeFrame::of`] frames of the Python stack, leaf first, are what it runs; some of those
    /// may be [`FrameKind::HIDDEN`] or left out.
    pub const PYTHON: Self = Self(4);
}

/// One frame of a native stack.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeFrame {
    /// An address in the instruction that runs, or in the one that called: of a caller it is the
    /// return address less one, since a call can be a function's last instruction.
    pub address: u64,
    /// What the kind says.
    pub of: u32,
    /// What it is.
    pub kind: NativeKind,
}

/// The start of a native stack; [`NativeFrame`]s follow, leaf first, those of the kernel before
/// those of the process. The root-most frames of a deeper stack are not there.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeStackHead {
    /// [`RecordKind::NATIVE_STACK`].
    pub header: Header,
    /// Hash of the native stack.
    pub stack: u64,
    /// Frames that follow.
    pub frame_count: u32,
    /// Zero.
    pub reserved: u32,
}

/// An executable file is being run whose unwind table is not loaded.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedTable {
    /// [`RecordKind::WANTED_TABLE`].
    pub header: Header,
    /// The number that the user half gave the file.
    pub executable: u32,
    /// The process that runs it, in the initial PID namespace.
    pub tgid: u32,
}

/// How a piece of text on the wire is encoded.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Bytes of one character: 1 (Latin-1), 2 or 4, or [`Text::BYTES`]; 0 when the text could not
    /// be read.
    pub kind: u8,
    /// 1 when characters were left out at its end.
    pub cut: u8,
    /// Bytes that follow, without the padding to a multiple of eight.
    pub bytes: u16,
}

impl Text {
    /// The [`kind`](Self::kind) of bytes in an encoding that nothing names, mostly UTF-8.
    pub const BYTES: u8 = 3;

    /// A text of `characters` characters of `width` bytes, cut to [`TEXT_BYTES`].
    #[inline(always)]
    #[must_use]
    pub const fn new(kind: u8, width: u64, characters: u64) -> Self {
        let most = TEXT_BYTES as u64 / width;
        let cut = characters > most;
        let characters = if cut { most } else { characters };
        Self {
            kind,
            cut: cut as u8,
            bytes: (characters * width) as u16,
        }
    }

    /// Words of eight bytes that the text takes with its padding.
    #[inline(always)]
    #[must_use]
    pub const fn words(self) -> usize {
        (self.bytes as usize).div_ceil(8)
    }

    /// All of this in one number.
    #[inline(always)]
    #[must_use]
    pub const fn descriptor(self) -> u32 {
        (self.bytes as u32) << 16 | (self.cut as u32) << 8 | self.kind as u32
    }
}

/// The start of a code object: name, file and the start of the line table follow, the first two
/// padded with zeros to a multiple of eight bytes.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeObject {
    /// [`RecordKind::CODE_OBJECT`].
    pub header: Header,
    /// Hash of the code object.
    pub symbol: u64,
    /// `co_firstlineno`.
    pub first_line: i32,
    /// Bytes of the whole line table; more than what follows when there are pieces.
    pub line_table_bytes: u32,
    /// Where in the line table the bytes that follow start.
    pub line_table_start: u32,
    /// The qualified name, or the name where the version has no other.
    pub name: Text,
    /// The file's name.
    pub file: Text,
    /// How to read the line table.
    pub line_table_format: LineTableFormat,
    /// Zero.
    pub reserved: u16,
}

/// The name of a thread, whenever it has changed; the characters follow.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadName {
    /// [`RecordKind::THREAD_NAME`].
    pub header: Header,
    /// Process, in the initial PID namespace.
    pub tgid: u32,
    /// Thread, in the initial PID namespace.
    pub tid: u32,
    /// Hash of the code object of the root frame, 0 for none.
    pub root: u64,
    /// The kernel's name of the thread (`comm`), ended by a zero byte.
    pub command: [u8; 16],
    /// The attribute `_name` of the root frame's first variable, which is
    /// `threading.Thread.name` if that frame is `Thread._bootstrap`; kind 0 when there is none.
    pub python: Text,
    /// Zero.
    pub reserved: u32,
}

/// What happened to a process.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEventKind(pub u32);

impl ProcessEventKind {
    /// It was started by a profiled process, as a copy of that.
    pub const FORKED: Self = Self(1);
    /// It runs another program now.
    pub const EXECUTED: Self = Self(2);
    /// Nothing was known to be Python in it, and more of it is mapped executable than before.
    pub const MAPPED: Self = Self(3);
    /// It has ended.
    pub const EXITED: Self = Self(4);
}

/// Something that happened to a profiled process.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEvent {
    /// [`RecordKind::PROCESS_EVENT`].
    pub header: Header,
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// The process, in the initial PID namespace.
    pub tgid: u32,
    /// The process that started it, likewise, of [`ProcessEventKind::FORKED`], else 0.
    pub parent: u32,
    /// What.
    pub kind: ProcessEventKind,
    /// Zero.
    pub reserved: u32,
}

/// A page that was wanted for a sample and not in memory, which only the user half can wait for.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsentPage {
    /// [`RecordKind::ABSENT_PAGE`].
    pub header: Header,
    /// An address in it.
    pub address: u64,
    /// The process, in the initial PID namespace.
    pub tgid: u32,
    /// Bytes that were wanted from `address` on.
    pub bytes: u32,
}

const _: () = assert!(size_of::<Header>() == 8);
const _: () = assert!(size_of::<ProcessEvent>() == 32);
const _: () = assert!(size_of::<AbsentPage>() == 24);
const _: () = assert!(size_of::<Sample>() == 56);
const _: () = assert!(size_of::<NativeFrame>() == 16);
const _: () = assert!(size_of::<NativeStackHead>() == 24);
const _: () = assert!(size_of::<WantedTable>() == 16);
const _: () = assert!(size_of::<Frame>() == 16);
const _: () = assert!(size_of::<StackHead>() == 24);
const _: () = assert!(size_of::<CodeObject>() == 40);
const _: () = assert!(size_of::<ThreadName>() == 48);
const _: () = assert!(MAX_FRAMES <= u16::MAX as usize);
