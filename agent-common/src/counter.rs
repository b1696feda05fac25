//! Counters of the BPF programs, per processor: every kind of loss, and events that the agent
//! reacts to.

/// An index of the counter map.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter(pub u32);

impl Counter {
    /// Samples taken of profiled processes.
    pub const SAMPLES: Self = Self(0);
    /// Samples that found the ring buffer full.
    pub const LOST_SAMPLES: Self = Self(1);
    /// Stacks that found the ring buffer full; they are sent again when next seen.
    pub const LOST_STACKS: Self = Self(2);
    /// Code objects that found the ring buffer full; they are sent again when next seen.
    pub const LOST_CODE_OBJECTS: Self = Self(3);
    /// Thread names that found the ring buffer full.
    pub const LOST_THREAD_NAMES: Self = Self(4);
    /// Stacks sent.
    pub const STACKS: Self = Self(5);
    /// Code objects sent.
    pub const CODE_OBJECTS: Self = Self(6);
    /// Samples whose stack was deeper than the limit.
    pub const TRUNCATED: Self = Self(7);
    /// Frames whose code object could not be read.
    pub const UNRESOLVED_FRAMES: Self = Self(8);
    /// Code objects of which some part could not be read.
    pub const CODE_FAULTS: Self = Self(9);
    /// Cached code objects that were revalidated.
    pub const CODE_REVALIDATIONS: Self = Self(10);
    /// Cached code objects at whose address another one was found.
    pub const CODE_REUSED: Self = Self(11);
    /// Searches for a thread's state.
    pub const THREAD_SEARCHES: Self = Self(12);
    /// Process events that found the ring buffer full.
    pub const LOST_PROCESS_EVENTS: Self = Self(13);
    /// Processes that are not profiled because the map of processes is full.
    pub const UNTRACKED_PROCESSES: Self = Self(14);
    /// Samples that needed a page that was not resident.
    pub const ABSENT_PAGES: Self = Self(15);
    /// Native stacks sent.
    pub const NATIVE_STACKS: Self = Self(16);
    /// Native stacks that found the ring buffer full; they are sent again when next seen.
    pub const LOST_NATIVE_STACKS: Self = Self(17);
    /// Code addresses that had to be looked up in the mappings and tables.
    pub const CODE_LOOKUPS: Self = Self(18);
    /// Samples of processes that are not in the map of processes because it is full.
    pub const UNTRACKED_SAMPLES: Self = Self(19);
    /// Steps of processors on their way online or offline.
    pub const CPU_HOTPLUG_CHANGES: Self = Self(20);
    /// Code objects that were not read because their sample or their process had read too much; they
    /// are read when next seen.
    pub const DEFERRED_CODE_OBJECTS: Self = Self(21);
    /// Waits for locks whose ends were recorded by another event than a release: the end of a time, a signal,
    /// or a process that has the lock at another address or is not profiled.
    pub const UNKNOWN_LOCK_RELEASES: Self = Self(22);
    /// Pages that processes whose growth is profiled have given back; known at their next fault.
    pub const GIVEN_BACK_PAGES: Self = Self(23);
    /// Searches for a thread's state that were not made because those in its process take too long.
    pub const REFUSED_THREAD_SEARCHES: Self = Self(24);
    /// Frames that exceptions have left or in which they were caught, of all processes with the probe.
    pub const TRACEBACKS: Self = Self(25);
    /// Exceptions that were recorded.
    pub const RAISES: Self = Self(26);
    /// Frames that exceptions have left on a processor on which another thread was interrupted while an exception
    /// of its own was recorded: whether they were raised in them is not known.
    pub const LOST_RAISES: Self = Self(27);
    /// Time that the probe has run, in nanoseconds.
    pub const PROBE_NS: Self = Self(28);
    /// Moves of memory that found the ring buffer full, or of which there were too many at once.
    pub const LOST_MOVES: Self = Self(29);
    /// Calls of functions that allocate memory, of all processes with the probe.
    pub const ALLOCATIONS: Self = Self(30);
    /// Allocations that were due and not recorded, because a thread was interrupted on the processor while one of its
    /// own was recorded.
    pub const LOST_ALLOCATIONS: Self = Self(31);
    /// Time for which allocations were recorded, in nanoseconds.
    pub const ALLOCATION_NS: Self = Self(32);
    /// Context switches of profiled threads that were traced, but the last few of each processor: see
    /// [`SWITCHES_PER_COUNT`](crate::limits::SWITCHES_PER_COUNT).
    pub const SWITCHES: Self = Self(33);
    /// Time that tracing them has taken, in nanoseconds: an estimate by some of them.
    pub const SWITCH_NS: Self = Self(34);
    /// Context switches of threads that are not traced because there are too many.
    pub const UNTRACED_SWITCHES: Self = Self(35);
    /// Context switches that were sampled.
    pub const SAMPLED_WAITS: Self = Self(36);
    /// Records of sampled waits that found the ring buffer full.
    pub const LOST_WAITS: Self = Self(37);
    /// Traced waits that are over, without the last few of each processor as above.
    pub const WAITS: Self = Self(38);
    /// The time of traced waits that are over, in nanoseconds, by [`WaitClass`](crate::maps::WaitClass): this is the
    /// first of so many counters.
    pub const WAIT_NS: Self = Self(39);
    /// The time of traced waits of a class.
    #[must_use]
    pub const fn of_waits(class: crate::maps::WaitClass) -> Self {
        Self(Self::WAIT_NS.0.wrapping_add(class.0))
    }

    /// Native stacks that were sent with a copy of their thread's stack, to be walked to their end later.
    pub const UNFINISHED_STACKS: Self = Self(39 + crate::maps::WaitClass::COUNT);
    /// Native stacks that ended at code which the agent did not know yet, and that were sent as they are, because too
    /// much was copied or unread.
    pub const UNCOPIED_STACKS: Self = Self(40 + crate::maps::WaitClass::COUNT);

    /// Allocations that a program has announced with sizes that cannot be, or where they cannot be read.
    pub const REFUSED_ANNOUNCEMENTS: Self = Self(41 + crate::maps::WaitClass::COUNT);

    /// Samples of threads that run, which passes over the threads have asked for.
    pub const PASS_SAMPLES: Self = Self(42 + crate::maps::WaitClass::COUNT);

    /// How many counters there are.
    pub const COUNT: u32 = 43 + crate::maps::WaitClass::COUNT;
}
