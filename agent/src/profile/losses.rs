//! What a profile lacks.

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
    pub unsymbolized_python_frames: u64,
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
    pub unsymbolized_native_frames: UnsymbolizedLosses,
    /// Records, not samples, that could not be understood.
    pub malformed_records: u64,
    /// Processes, not samples, that are not in the profile because too many are profiled.
    pub untracked_processes: u64,
    /// Events, not samples, of processes that found no room on their way to the user half: what
    /// such a process runs may not be known.
    pub lost_process_events: u64,
}

impl Losses {
    /// The numbers that are not reasons for one loss.
    pub const COUNTERS: [Counter<Self>; 10] = [
        |losses| &mut losses.lost_samples,
        |losses| &mut losses.truncated,
        |losses| &mut losses.incomplete,
        |losses| &mut losses.unsymbolized_python_frames,
        |losses| &mut losses.not_python,
        |losses| &mut losses.lost_native_stacks,
        |losses| &mut losses.unmatched,
        |losses| &mut losses.malformed_records,
        |losses| &mut losses.untracked_processes,
        |losses| &mut losses.lost_process_events,
    ];

    /// Adds those of another profile.
    pub fn merge(&mut self, other: &Self) {
        merge(self, *other, &Self::COUNTERS);
        merge(&mut self.unwind, other.unwind, &UnwindLosses::ALL);
        merge(
            &mut self.unsymbolized_native_frames,
            other.unsymbolized_native_frames,
            &UnsymbolizedLosses::ALL,
        );
    }
}

/// Samples whose native frames are not known up to the entry, by what ended the walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnwindLosses {
    /// The thread's registers were not known, or were those of a 32-bit program.
    pub no_registers: u64,
    /// An address that is in no executable mapping that is known of.
    pub unmapped: u64,
    /// CodeAddress whose unwind table was not loaded yet.
    pub no_table: u64,
    /// CodeAddress that no unwind table has a rule for.
    pub no_rule: u64,
    /// A part of the stack that was not in memory.
    pub fault: u64,
    /// A caller's frame that would not lie above the frame.
    pub cfa_not_above: u64,
    /// More frames than are kept.
    pub too_deep: u64,
    /// Anything else.
    pub other: u64,
}

impl UnwindLosses {
    /// All numbers.
    pub const ALL: [Counter<Self>; 8] = [
        |losses| &mut losses.no_registers,
        |losses| &mut losses.unmapped,
        |losses| &mut losses.no_table,
        |losses| &mut losses.no_rule,
        |losses| &mut losses.fault,
        |losses| &mut losses.cfa_not_above,
        |losses| &mut losses.too_deep,
        |losses| &mut losses.other,
    ];

    /// All of them together.
    #[must_use]
    pub fn total(self) -> u64 {
        total(self, &Self::ALL)
    }
}

/// Native and kernel frames, not samples, whose function could not be told, by what [`UnsymbolizedReason`]
/// says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnsymbolizedLosses {
    /// [`UnsymbolizedReason::NoSymbols`].
    pub no_symbols: u64,
    /// [`UnsymbolizedReason::NoSymbol`].
    pub no_symbol: u64,
    /// [`UnsymbolizedReason::Unreadable`].
    pub unreadable: u64,
    /// [`UnsymbolizedReason::NoMap`].
    pub no_map: u64,
    /// [`UnsymbolizedReason::NotInMap`].
    pub not_in_map: u64,
    /// [`UnsymbolizedReason::KptrRestricted`].
    pub kptr_restricted: u64,
    /// [`UnsymbolizedReason::KallsymsUnreadable`].
    pub kallsyms_unreadable: u64,
}

impl UnsymbolizedLosses {
    /// All numbers.
    pub const ALL: [Counter<Self>; 7] = [
        |losses| &mut losses.no_symbols,
        |losses| &mut losses.no_symbol,
        |losses| &mut losses.unreadable,
        |losses| &mut losses.no_map,
        |losses| &mut losses.not_in_map,
        |losses| &mut losses.kptr_restricted,
        |losses| &mut losses.kallsyms_unreadable,
    ];

    /// Counts `frames` frames.
    pub fn add(&mut self, reason: UnsymbolizedReason, frames: u64) {
        let count = match reason {
            UnsymbolizedReason::NoSymbols => &mut self.no_symbols,
            UnsymbolizedReason::NoSymbol => &mut self.no_symbol,
            UnsymbolizedReason::Unreadable => &mut self.unreadable,
            UnsymbolizedReason::NoMap => &mut self.no_map,
            UnsymbolizedReason::NotInMap => &mut self.not_in_map,
            UnsymbolizedReason::KptrRestricted => &mut self.kptr_restricted,
            UnsymbolizedReason::KallsymsUnreadable => &mut self.kallsyms_unreadable,
        };
        *count = count.saturating_add(frames);
    }

    /// All of them together.
    #[must_use]
    pub fn total(self) -> u64 {
        total(self, &Self::ALL)
    }
}

/// Why the function of a native or a kernel frame could not be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnsymbolizedReason {
    /// Its file has no symbols.
    NoSymbols,
    /// There are symbols, but none that the address is in.
    NoSymbol,
    /// Its file, or the symbols in it, could not be read.
    Unreadable,
    /// It was made at run time, by a compiler that wrote no map of it.
    NoMap,
    /// It was made at run time, and the compiler's map does not tell of it.
    NotInMap,
    /// The kernel hides where its functions are.
    KptrRestricted,
    /// The kernel does not tell its functions at all.
    KallsymsUnreadable,
}

/// Samples that a filter left out: they are not in the profile, and no loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilteredOut {
    /// Samples of threads that were not asked for.
    pub other_threads: u64,
    /// Samples of threads that were asked for, taken while the thread did not hold the GIL.
    pub without_gil: u64,
}

impl FilteredOut {
    /// All numbers.
    pub const ALL: [Counter<Self>; 2] = [
        |filtered_out| &mut filtered_out.other_threads,
        |filtered_out| &mut filtered_out.without_gil,
    ];

    /// Adds what was left out of another profile.
    pub fn merge(&mut self, other: &Self) {
        merge(self, *other, &Self::ALL);
    }

    /// All that was left out, in samples.
    #[must_use]
    pub fn total(self) -> u64 {
        total(self, &Self::ALL)
    }
}

/// Where a number of `T` is.
pub type Counter<T> = fn(&mut T) -> &mut u64;

fn merge<T>(sums: &mut T, mut others: T, numbers: &[Counter<T>]) {
    for number in numbers {
        let sum = number(sums);
        *sum = sum.saturating_add(*number(&mut others));
    }
}

fn total<T>(mut counted: T, numbers: &[Counter<T>]) -> u64 {
    let counts = numbers.iter().map(|number| *number(&mut counted));
    counts.fold(0, u64::saturating_add)
}

// A number that is forgotten in a list is one that is never merged.
const _: () = {
    const NUMBER: usize = size_of::<u64>();
    assert!(size_of::<FilteredOut>() == FilteredOut::ALL.len() * NUMBER);
    assert!(size_of::<UnwindLosses>() == UnwindLosses::ALL.len() * NUMBER);
    assert!(size_of::<UnsymbolizedLosses>() == UnsymbolizedLosses::ALL.len() * NUMBER);
    let nested = size_of::<UnwindLosses>() + size_of::<UnsymbolizedLosses>();
    assert!(size_of::<Losses>() == Losses::COUNTERS.len() * NUMBER + nested);
};
