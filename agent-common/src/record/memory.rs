//! Types of memory.

/// The type of the memory that a sample is about, or what of it was written to.
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
    /// The reference count of a Python object.
    pub const REFERENCE_COUNT: Self = Self(8);
    /// What the garbage collector keeps with a Python object.
    pub const GC_HEADER: Self = Self(16);
    /// Contents of objects, and memory that is not Python's.
    pub const DATA: Self = Self(32);
}
