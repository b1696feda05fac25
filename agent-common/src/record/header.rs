//! What every record begins with.

/// What a record is.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout
    )
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordKind(pub u16);

impl RecordKind {
    /// A [`Sample`](super::Sample).
    pub const SAMPLE: Self = Self(1);
    /// A [`StackHead`](super::StackHead) with its frames.
    pub const STACK: Self = Self(2);
    /// A [`CodeObjectHead`](super::CodeObjectHead) with its names and the start of its line table.
    pub const CODE_OBJECT: Self = Self(3);
    /// A [`CodeObjectHead`](super::CodeObjectHead) without names, with a further piece of its line
    /// table.
    pub const LINE_TABLE_PIECE: Self = Self(4);
    /// A [`ThreadName`](super::ThreadName).
    pub const THREAD_NAME: Self = Self(5);
    /// A [`ProcessEvent`](super::ProcessEvent).
    pub const PROCESS_EVENT: Self = Self(6);
    /// An [`AbsentPage`](super::AbsentPage).
    pub const ABSENT_PAGE: Self = Self(7);
    /// A [`NativeStackHead`](super::NativeStackHead) with its frames.
    pub const NATIVE_STACK: Self = Self(8);
    /// A [`WantedTable`](super::WantedTable).
    pub const WANTED_TABLE: Self = Self(9);
    /// A [`LockName`](super::LockName).
    pub const LOCK_NAME: Self = Self(10);
    /// A [`LockRelease`](super::LockRelease).
    pub const LOCK_RELEASE: Self = Self(11);
    /// An [`ExceptionName`](super::ExceptionName).
    pub const EXCEPTION_NAME: Self = Self(12);
    /// A [`Raise`](super::Raise).
    pub const RAISE: Self = Self(13);
    /// A [`NewPage`](super::NewPage).
    pub const NEW_PAGE: Self = Self(14);
    /// A [`GonePage`](super::GonePage).
    pub const GONE_PAGE: Self = Self(15);
    /// A [`MovedMemory`](super::MovedMemory).
    pub const MOVED_MEMORY: Self = Self(16);
    /// A [`TaskName`](super::TaskName).
    pub const TASK_NAME: Self = Self(17);
    /// A [`StartedWait`](super::StartedWait).
    pub const STARTED_WAIT: Self = Self(18);
    /// An [`EndedWait`](super::EndedWait).
    pub const ENDED_WAIT: Self = Self(19);
    /// A [`StackPage`](super::StackPage).
    pub const STACK_PAGE: Self = Self(20);
    /// An [`UnfinishedStack`](super::UnfinishedStack).
    pub const UNFINISHED_STACK: Self = Self(21);
}

/// The start of every record.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout
    )
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

const _: () = assert!(size_of::<Header>() == 8);
