//! What a profile lacks.

use super::Unnamed;

/// What was lost or could not be told, in samples unless stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Samples that found no room on their way to the user half.
    pub lost_samples: u64,
    /// Samples whose stack was deeper than what is kept; they are in the profile, marked.
    pub truncated: u64,
    /// Samples whose walk did not reach the root; they are in the profile, marked.
    pub incomplete: u64,
    /// Frames, not samples, whose function could not be told; they are in the profile, marked.
    pub unresolved_frames: u64,
    /// Samples of threads that ran no Python, and of which no other frame is known either; they are
    /// in the profile, marked.
    pub not_python: u64,
    /// Samples whose native frames are not all there; they are in the profile, marked.
    pub unwind: UnwindLosses,
    /// Samples whose native stack found no room on its way to the user half; they are in the
    /// profile, marked, with their Python frames.
    pub lost_native_stacks: u64,
    /// Samples whose native stack is whole and has no place for some of their Python frames; these
    /// stand at the root end.
    pub unmatched: u64,
    /// Native and kernel frames, not samples, whose function could not be told; they are in the
    /// profile with their addresses.
    pub unnamed: UnnamedLosses,
    /// Records, not samples, that could not be understood.
    pub malformed_records: u64,
    /// Processes, not samples, that are not in the profile because too many are profiled.
    pub left_out_processes: u64,
    /// Events, not samples, of processes that found no room on their way to the user half: what
    /// such a process runs may not be known.
    pub lost_process_events: u64,
}

impl Losses {
    /// Adds those of another profile.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            lost_samples,
            truncated,
            incomplete,
            unresolved_frames,
            not_python,
            unwind,
            lost_native_stacks,
            unmatched,
            unnamed,
            malformed_records,
            left_out_processes,
            lost_process_events,
        } = other;
        for (sum, more) in [
            (&mut self.lost_samples, lost_samples),
            (&mut self.truncated, truncated),
            (&mut self.incomplete, incomplete),
            (&mut self.unresolved_frames, unresolved_frames),
            (&mut self.not_python, not_python),
            (&mut self.lost_native_stacks, lost_native_stacks),
            (&mut self.unmatched, unmatched),
            (&mut self.malformed_records, malformed_records),
            (&mut self.left_out_processes, left_out_processes),
            (&mut self.lost_process_events, lost_process_events),
        ] {
            *sum = sum.saturating_add(*more);
        }
        self.unwind.merge(unwind);
        self.unnamed.merge(unnamed);
    }
}

/// Samples whose native frames are not known up to the entry, by what ended the walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnwindLosses {
    /// The thread's registers were not known, or were those of a 32-bit program.
    pub no_registers: u64,
    /// An address that is in no executable mapping that is known of.
    pub unmapped: u64,
    /// Code whose unwind table was not loaded yet.
    pub no_table: u64,
    /// Code that no unwind table has a rule for.
    pub no_rule: u64,
    /// A part of the stack that was not in memory.
    pub fault: u64,
    /// A caller's frame that would not lie above the frame.
    pub stuck: u64,
    /// More frames than are kept.
    pub too_deep: u64,
    /// Anything else.
    pub other: u64,
}

impl UnwindLosses {
    fn merge(&mut self, other: &Self) {
        let Self {
            no_registers,
            unmapped,
            no_table,
            no_rule,
            fault,
            stuck,
            too_deep,
            other,
        } = other;
        for (sum, more) in [
            (&mut self.no_registers, no_registers),
            (&mut self.unmapped, unmapped),
            (&mut self.no_table, no_table),
            (&mut self.no_rule, no_rule),
            (&mut self.fault, fault),
            (&mut self.stuck, stuck),
            (&mut self.too_deep, too_deep),
            (&mut self.other, other),
        ] {
            *sum = sum.saturating_add(*more);
        }
    }

    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        let Self {
            no_registers,
            unmapped,
            no_table,
            no_rule,
            fault,
            stuck,
            too_deep,
            other,
        } = self;
        no_registers + unmapped + no_table + no_rule + fault + stuck + too_deep + other
    }
}

/// Native and kernel frames, not samples, whose function could not be told, by what [`Unnamed`]
/// says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnnamedLosses {
    /// [`Unnamed::NoSymbols`].
    pub no_symbols: u64,
    /// [`Unnamed::NoSymbol`].
    pub no_symbol: u64,
    /// [`Unnamed::Unreadable`].
    pub unreadable: u64,
    /// [`Unnamed::NoMap`].
    pub no_map: u64,
    /// [`Unnamed::NotInMap`].
    pub not_in_map: u64,
    /// [`Unnamed::KernelHidden`].
    pub kernel_hidden: u64,
    /// [`Unnamed::KernelSilent`].
    pub kernel_silent: u64,
}

impl UnnamedLosses {
    fn merge(&mut self, other: &Self) {
        let Self {
            no_symbols,
            no_symbol,
            unreadable,
            no_map,
            not_in_map,
            kernel_hidden,
            kernel_silent,
        } = other;
        for (sum, more) in [
            (&mut self.no_symbols, no_symbols),
            (&mut self.no_symbol, no_symbol),
            (&mut self.unreadable, unreadable),
            (&mut self.no_map, no_map),
            (&mut self.not_in_map, not_in_map),
            (&mut self.kernel_hidden, kernel_hidden),
            (&mut self.kernel_silent, kernel_silent),
        ] {
            *sum = sum.saturating_add(*more);
        }
    }

    /// Counts `frames` frames.
    pub fn add(&mut self, reason: Unnamed, frames: u64) {
        let count = match reason {
            Unnamed::NoSymbols => &mut self.no_symbols,
            Unnamed::NoSymbol => &mut self.no_symbol,
            Unnamed::Unreadable => &mut self.unreadable,
            Unnamed::NoMap => &mut self.no_map,
            Unnamed::NotInMap => &mut self.not_in_map,
            Unnamed::KernelHidden => &mut self.kernel_hidden,
            Unnamed::KernelSilent => &mut self.kernel_silent,
        };
        *count = count.saturating_add(frames);
    }

    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        let Self {
            no_symbols,
            no_symbol,
            unreadable,
            no_map,
            not_in_map,
            kernel_hidden,
            kernel_silent,
        } = self;
        let of_files = no_symbols + no_symbol + unreadable;
        of_files + no_map + not_in_map + kernel_hidden + kernel_silent
    }
}

/// Samples that a filter left out: they are not in the profile, and no loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Samples of threads that were not asked for.
    pub other_threads: u64,
    /// Samples of threads that were asked for, taken while the thread did not hold the GIL.
    pub without_gil: u64,
}

impl LeftOut {
    /// Adds what was left out of another profile.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            other_threads,
            without_gil,
        } = other;
        self.other_threads = self.other_threads.saturating_add(*other_threads);
        self.without_gil = self.without_gil.saturating_add(*without_gil);
    }

    /// All that was left out, in samples.
    #[must_use]
    pub fn total(self) -> u64 {
        self.other_threads + self.without_gil
    }
}
