//! Processes that are profiled.

use crate::layout::RunningTaskLayout;
use crate::limits::{
    MAX_COUNTED_SEARCH_NS, MAX_PROCESS_SEARCH_NS, NEW_MAPPINGS_NS, SEARCH_PERIOD_NS,
};

/// Which processes that a profiled process starts are profiled as well.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Children(pub u16);

impl Children {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them, and theirs.
    pub const ALL: Self = Self(1);
    /// Those that run the same program: what executes another one, the process itself too, is not profiled
    /// any more until the agent says so.
    pub const COPIES: Self = Self(2);

    /// All of them, or none.
    #[must_use]
    pub const fn all_if(is_wanted: bool) -> Self {
        if is_wanted { Self::ALL } else { Self::NONE }
    }
}

/// What the agent has found out about a profiled process: the value of the map `PROCESSES`, whose key
/// is the process's id in the initial PID namespace.
///
/// All but `with_children` is about one program of the process, and void while it runs another one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackedProcess {
    /// Address of the pointer to the newest interpreter; 0 where no Python was found.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL, for
    /// [`GilStyle::HOLDER`](crate::layout::GilStyle::HOLDER) and
    /// [`LAST_HOLDER`](crate::layout::GilStyle::LAST_HOLDER); 0 not to read it.
    pub gil_holder: u64,
    /// The thread pointer of a thread minus its `pthread_self()`, in bytes.
    pub thread_pointer_distance: u64,
    /// The program that this is about: [`ProcessState::program`] while it was examined.
    pub program: u64,
    /// Identifies the mappings: another number whenever they change.
    pub mappings_epoch: u64,
    /// Index of the first of its mappings.
    pub first_mapping: u32,
    /// How many it has.
    pub mapping_count: u32,
    /// Index into the map `LAYOUTS`.
    pub layout: u32,
    /// Whether the processes that it starts are to be profiled as well.
    pub with_children: Children,
    /// 1 when it is not sampled until it executes another program.
    pub is_excluded: u16,
    /// Where it has the tasks that its threads run.
    pub tasks: RunningTaskLayout,
}

/// What the BPF programs note about a profiled process: the value of the map `PROCESS_STATES`, with
/// the keys of `PROCESSES`. Only they write it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessState {
    /// When it, or the process that it was forked from, last executed a program, in nanoseconds of
    /// the monotonic clock; 0 where that was before it was tracked.
    pub program: u64,
    /// When a new code object was last read, in nanoseconds of the monotonic clock.
    pub new_code_ns: u64,
    /// When a code object was last found to have taken the place of another one, in nanoseconds of
    /// the monotonic clock.
    pub reused_ns: u64,
    /// Executable pages at the last event about a change of their number.
    pub executable_pages: u64,
    /// Since when code objects are counted in `described_bytes`.
    pub described_since_ns: u64,
    /// Bytes of code objects that were read since then.
    pub described_bytes: u32,
    /// Time of long searches for the states of its threads since `searched_since_ns`, in nanoseconds.
    pub searched_ns: u32,
    /// Since when it is counted.
    pub searched_since_ns: u64,
    /// When `executable_pages` was last seen to change, in nanoseconds of the monotonic clock, whether the agent has examined
    /// the process since then or not.
    pub mapped_ns: u64,
}

impl ProcessState {
    /// Whether the states of its threads may be searched now.
    #[inline(always)]
    #[must_use]
    pub fn may_search(&self, now_ns: u64) -> bool {
        u64::from(self.searched_ns) < MAX_PROCESS_SEARCH_NS
            || now_ns.wrapping_sub(self.searched_since_ns) >= SEARCH_PERIOD_NS
    }

    /// Whether it has begun a program or mapped code so lately that the agent may not know the code yet.
    #[inline(always)]
    #[must_use]
    pub fn has_new_mappings(&self, now_ns: u64) -> bool {
        let changed_ns = if self.mapped_ns > self.program {
            self.mapped_ns
        } else {
            self.program
        };
        // Of a sample that stands for an earlier moment, or is taken beside another one, it may be later.
        now_ns.saturating_sub(changed_ns) < NEW_MAPPINGS_NS
    }

    /// Notes how long a search took that ended now.
    #[inline(always)]
    pub fn note_search(&mut self, took_ns: u64, now_ns: u64) {
        if now_ns.wrapping_sub(self.searched_since_ns) >= SEARCH_PERIOD_NS {
            self.searched_since_ns = now_ns;
            self.searched_ns = 0;
        }
        let counted = if took_ns < MAX_COUNTED_SEARCH_NS {
            took_ns
        } else {
            MAX_COUNTED_SEARCH_NS
        };
        self.searched_ns = self.searched_ns.saturating_add(counted as u32);
    }

    /// Of a process that is tracked from now on.
    pub const NEW: Self = Self {
        program: 0,
        new_code_ns: 0,
        reused_ns: 0,
        executable_pages: 0,
        described_since_ns: 0,
        described_bytes: 0,
        searched_ns: 0,
        searched_since_ns: 0,
        mapped_ns: 0,
    };
}

/// Key in the map `PROCESSES` of all threads that are the kernel's own: the process id of
/// `kthreadd`, which starts them and is itself started second.
pub const KERNEL_THREADS: u32 = 2;

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for TrackedProcess {}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for ProcessState {}

const _: () = assert!(size_of::<TrackedProcess>() == 64);
const _: () = assert!(size_of::<ProcessState>() == 64);

#[cfg(test)]
mod tests {
    use super::{NEW_MAPPINGS_NS, ProcessState};

    #[test]
    fn a_process_whose_searches_take_long_has_none_until_the_second_is_over() {
        let mut state = ProcessState::NEW;
        let begin = 5_000_000_000;
        for sample in 0..10 {
            assert!(state.may_search(begin), "{sample}");
            state.note_search(1_000_000, begin);
        }
        assert!(!state.may_search(begin + 999_999_999));
        assert!(state.may_search(begin + 1_000_000_000));
        state.note_search(1_000_000, begin + 1_000_000_000);
        assert_eq!(state.searched_ns, 1_000_000);
    }

    #[test]
    fn code_is_new_for_a_while_after_a_program_begins_or_maps_some() {
        let began = 100 * NEW_MAPPINGS_NS;
        for state in [
            ProcessState {
                program: began,
                ..ProcessState::NEW
            },
            ProcessState {
                program: 1,
                mapped_ns: began,
                ..ProcessState::NEW
            },
        ] {
            for (now_ns, is_new) in [
                (began - 1, true),
                (began, true),
                (began + NEW_MAPPINGS_NS - 1, true),
                (began + NEW_MAPPINGS_NS, false),
            ] {
                assert_eq!(state.has_new_mappings(now_ns), is_new, "{now_ns}");
            }
        }
        assert!(!ProcessState::NEW.has_new_mappings(began));
    }

    #[test]
    fn time_that_was_taken_from_the_processor_does_not_count() {
        let mut state = ProcessState::NEW;
        for _ in 0..4 {
            state.note_search(u64::MAX / 2, 1);
        }
        assert!(state.may_search(1));
    }
}
