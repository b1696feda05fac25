//! A stack of native and kernel frames.

use super::header::Header;

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
    /// Code of an executable file: the address is the one in the file, without load bias;
    /// [`NativeFrame::id_or_count`] is the number that the agent assigned to the file.
    pub const FILE: Self = Self(2);
    /// Code in memory that no file backs, such as a compiler at run time makes: the address is
    /// that in the process, whose id in the initial PID namespace is [`NativeFrame::id_or_count`].
    pub const ANONYMOUS: Self = Self(3);
    /// Stands for native frames of the interpreter's evaluation loop: the next
    /// [`NativeFrame::id_or_count`] frames of the Python stack, leaf first, are what it runs; some
    /// of those may be [`FrameKind::HIDDEN`](super::FrameKind::HIDDEN) or left out.
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
    /// The file, the process, or the number of Python frames, depending on the kind.
    pub id_or_count: u32,
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
    /// [`RecordKind::NATIVE_STACK`](super::RecordKind::NATIVE_STACK).
    pub header: Header,
    /// Hash of the native stack.
    pub stack: u64,
    /// Frames that follow.
    pub frame_count: u32,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<NativeFrame>() == 16);
const _: () = assert!(size_of::<NativeStackHead>() == 24);
