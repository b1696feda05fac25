//! What a sample measures.

/// What a sample measures, and with it the unit of [`Sample::value`](super::Sample::value).
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileKind(pub u16);

/// Declares the constants, one line for each.
macro_rules! profile_kinds {
    ($($name:ident = $number:literal, $measures:literal;)*) => {
        impl ProfileKind {
            $(#[doc = $measures] pub const $name: Self = Self($number);)*
        }
    };
}

profile_kinds! {
    CPU = 1, "CPU time, in nanoseconds.";
    PAGE_FAULTS = 2, "Page faults, as events.";
    MAJOR_FAULTS = 3, "Major page faults, as events.";
    WALL = 4, "Elapsed time of threads, running or not, in nanoseconds.";
    OFF_CPU = 5, "The part of that in which they did not run, in nanoseconds.";
    GIL = 6, "Elapsed time in which threads waited for the GIL, in nanoseconds, of who held it.";
    GIL_HELD = 7, "Elapsed time in which threads held the GIL, in nanoseconds.";
    RUN_QUEUE = 8, "Elapsed time in which threads could run and waited for a CPU, in nanoseconds.";
    LOCK = 9, "Elapsed time in which threads waited for locks, in nanoseconds.";
    LOCK_RELEASE = 10, "The same, in nanoseconds, of who released the locks.";
    GROWTH = 11, "Growth of resident memory, in bytes.";
    EXCEPTIONS = 12, "Exceptions that were raised, as events.";
    COPY_ON_WRITE = 13, "Memory that was copied because it was written to, in bytes.";
    IN_USE = 14, "New memory that is still resident when sampling ends, in bytes.";
    PEAK = 15, "New memory that was resident when there was most of it, in bytes.";
    ALLOCATIONS = 16, "Memory that was asked for, in bytes.";
    TASKS = 17, "Elapsed time of tasks of asyncio, in nanoseconds.";
    AT_PASS = 18, "Where threads run at a pass, which says for how much time each stands.";
}
