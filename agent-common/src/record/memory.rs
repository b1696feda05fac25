//! Types of memory.

/// The type of the memory that a sample is about.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryType(pub u16);

impl MemoryType {
    /// The sample is not about memory.
    pub const NONE: Self = Self(0);
    /// Pages of files.
    pub const FILE: Self = Self(1);
    /// Memory of the process's own: the heap, stacks, what was copied when it was written to.
    pub const ANONYMOUS: Self = Self(2);
    /// Memory that processes share: `tmpfs`, System V and anonymous shared memory.
    pub const SHARED: Self = Self(4);
}
