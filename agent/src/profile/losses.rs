//! What a profile lacks: lost, truncated and unsymbolized samples and frames.

/// Counts of what was lost, truncated or not symbolized, in samples unless stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Samples dropped because the ring buffer was full, or a window had too many different samples.
    pub lost_samples: u64,
    /// Samples whose Python stack exceeds the frame limit; they are in the profile, with a marker.
    pub truncated: u64,
    /// Samples whose Python stack does not reach the root; they are in the profile, with a marker.
    pub incomplete: u64,
    /// Python frames, not samples, whose code object is not known; they are in the profile, as
    /// markers.
    pub unsymbolized_python_frames: u64,
    /// Samples of threads that ran no Python and have no native frame either; they are in the
    /// profile, with a marker.
    pub not_python: u64,
    /// Samples whose native stack is incomplete; they are in the profile, with a marker.
    pub unwind: UnwindLosses,
    /// Samples whose native stack was dropped because the ring buffer was full; they are in the
    /// profile, with a marker and their Python frames.
    pub lost_native_stacks: u64,
    /// Samples whose native stack is complete and has fewer evaluation loops than their Python frames
    /// need; the remaining Python frames are at the root.
    pub unmatched: u64,
    /// Native and kernel frames, not samples, that could not be symbolized; they are in the profile
    /// with their addresses.
    pub unsymbolized_native_frames: UnsymbolizedLosses,
    /// Addresses, not samples, that have only the names of their functions: there was no time to look
    /// up inlined functions, files and lines.
    pub names_only: u64,
    /// Files and perf maps, not samples, whose symbols were left out because reading them took too long.
    pub unread_files: u64,
    /// Records of the BPF programs, not samples, that could not be decoded.
    pub malformed_records: u64,
    /// Processes, not samples, that are not profiled because there are too many.
    pub untracked_processes: u64,
    /// Process events, not samples, dropped because the ring buffer was full: the agent may not
    /// know what such a process runs.
    pub lost_process_events: u64,
    /// Bytes, not samples, of resident memory that were given back meanwhile; only of a growth of
    /// memory, which they are not taken off.
    pub given_back: u64,
    /// Time in which exceptions were not recorded, in milliseconds; those that were stand for the others.
    pub unrecorded_ms: u64,
    /// Variance of the number of exceptions that results from it.
    pub raise_variance: u64,
    /// CPU time that the probes of allocations took of the profiled processes, in milliseconds.
    pub probe_ms: u64,
    /// CPU time that tracing context switches took of the profiled processes, in milliseconds; an estimate.
    pub switch_ms: u64,
    /// Samples whose memory was not looked at again; only of memory in use and at the peak.
    pub unwatched_samples: u64,
    /// Moves of memory, not samples, that were not recorded: what was moved is missing; as `unwatched_samples`.
    pub lost_moves: u64,
    /// Samples that are not in the [timeline](super::Timeline), which is full; they are in the profile.
    pub untimed_samples: u64,
    /// Processes, not samples, without the probe of the kind: of them nothing is recorded.
    pub unprobed: u64,
    /// Processes, not samples, that allocate their objects by themselves; only of allocations.
    pub own_allocators: u64,
    /// Announcements of allocations, not samples, with sizes that cannot be, or that cannot be read; only of
    /// allocations.
    pub refused_announcements: u64,
    /// How long the traced waits were that are over; no loss, but what they are compared with.
    pub waits: WaitTotals,
}

impl Losses {
    /// The plain counters, without those that divide one loss by its reasons.
    pub const COUNTERS: [Counter<Self>; 23] = [
        |losses| &mut losses.lost_samples,
        |losses| &mut losses.truncated,
        |losses| &mut losses.incomplete,
        |losses| &mut losses.unsymbolized_python_frames,
        |losses| &mut losses.not_python,
        |losses| &mut losses.lost_native_stacks,
        |losses| &mut losses.unmatched,
        |losses| &mut losses.names_only,
        |losses| &mut losses.unread_files,
        |losses| &mut losses.malformed_records,
        |losses| &mut losses.untracked_processes,
        |losses| &mut losses.lost_process_events,
        |losses| &mut losses.given_back,
        |losses| &mut losses.unrecorded_ms,
        |losses| &mut losses.raise_variance,
        |losses| &mut losses.probe_ms,
        |losses| &mut losses.switch_ms,
        |losses| &mut losses.unwatched_samples,
        |losses| &mut losses.lost_moves,
        |losses| &mut losses.untimed_samples,
        |losses| &mut losses.unprobed,
        |losses| &mut losses.own_allocators,
        |losses| &mut losses.refused_announcements,
    ];

    /// Adds the losses of another profile.
    pub fn merge(&mut self, other: &Self) {
        merge(self, *other, &Self::COUNTERS);
        merge(&mut self.unwind, other.unwind, &UnwindLosses::ALL);
        merge(&mut self.waits, other.waits, &WaitTotals::ALL);
        merge(
            &mut self.unsymbolized_native_frames,
            other.unsymbolized_native_frames,
            &UnsymbolizedLosses::ALL,
        );
    }
}

/// Milliseconds of the traced waits of all profiled threads, by what their system calls wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTotals {
    /// Locks, the GIL among them.
    pub lock: u64,
    /// The end of a time.
    pub sleep: u64,
    /// One of several descriptors.
    pub poll: u64,
    /// A descriptor or a file.
    pub io: u64,
    /// A child process.
    pub child: u64,
    /// A page of memory.
    pub page_fault: u64,
    /// Something else.
    pub other: u64,
}

impl WaitTotals {
    /// All counters.
    pub const ALL: [Counter<Self>; 7] = [
        |waits| &mut waits.lock,
        |waits| &mut waits.sleep,
        |waits| &mut waits.poll,
        |waits| &mut waits.io,
        |waits| &mut waits.child,
        |waits| &mut waits.page_fault,
        |waits| &mut waits.other,
    ];

    /// Sum of all counters.
    #[must_use]
    pub fn total(self) -> u64 {
        total(self, &Self::ALL)
    }
}

/// Samples whose native stack is incomplete, by why unwinding ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnwindLosses {
    /// The thread's registers were not available, or were those of a 32-bit program.
    pub no_registers: u64,
    /// An address outside all known executable mappings.
    pub unmapped: u64,
    /// The unwind table of the code was not loaded yet.
    pub no_table: u64,
    /// The unwind table has no rule for the address.
    pub no_rule: u64,
    /// A page of the stack was not resident.
    pub fault: u64,
    /// The canonical frame address (CFA) of the caller was not above that of the frame.
    pub cfa_not_above: u64,
    /// The native stack exceeds the frame limit.
    pub too_deep: u64,
    /// Any other reason.
    pub other: u64,
}

impl UnwindLosses {
    /// All counters.
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

    /// Sum of all counters.
    #[must_use]
    pub fn total(self) -> u64 {
        total(self, &Self::ALL)
    }
}

/// Native and kernel frames, not samples, that could not be symbolized, by [`UnsymbolizedReason`].
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
    /// All counters.
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

    /// Sum of all counters.
    #[must_use]
    pub fn total(self) -> u64 {
        total(self, &Self::ALL)
    }
}

/// Why a native or kernel frame could not be symbolized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnsymbolizedReason {
    /// The file has no symbols.
    NoSymbols,
    /// The file has symbols, but none contains the address.
    NoSymbol,
    /// The file, or the symbols in it, could not be read.
    Unreadable,
    /// JIT code of a process without a perf map.
    NoMap,
    /// JIT code whose address is not in the process's perf map.
    NotInMap,
    /// The kernel hides its addresses (sysctl `kernel.kptr_restrict`).
    KptrRestricted,
    /// `/proc/kallsyms` could not be read, or has no functions.
    KallsymsUnreadable,
}

/// Samples excluded by a filter: they are not in the profile, and not a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilteredOut {
    /// Samples of threads that the filter excludes.
    pub other_threads: u64,
    /// Samples of threads that the filter includes, taken while the thread did not hold the GIL.
    pub without_gil: u64,
    /// Exceptions in the import system that come up again where code imports, or that it catches itself.
    pub in_imports: u64,
    /// Elapsed time of threads that waited for work, in nanoseconds.
    pub idle_ns: u64,
}

impl FilteredOut {
    /// The counters of samples.
    pub const SAMPLES: [Counter<Self>; 3] = [
        |filtered_out| &mut filtered_out.other_threads,
        |filtered_out| &mut filtered_out.without_gil,
        |filtered_out| &mut filtered_out.in_imports,
    ];

    /// Adds the counts of another profile.
    pub fn merge(&mut self, other: &Self) {
        merge(self, *other, &Self::SAMPLES);
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
    }

    /// Whether nothing was excluded.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Access to one counter of `T`.
pub type Counter<T> = fn(&mut T) -> &mut u64;

fn merge<T>(sums: &mut T, mut others: T, counters: &[Counter<T>]) {
    for counter in counters {
        let sum = counter(sums);
        *sum = sum.saturating_add(*counter(&mut others));
    }
}

fn total<T>(mut counted: T, counters: &[Counter<T>]) -> u64 {
    let counts = counters.iter().map(|counter| *counter(&mut counted));
    counts.fold(0, u64::saturating_add)
}

// A counter that is missing in a list would never be merged.
const _: () = {
    const COUNTER: usize = size_of::<u64>();
    assert!(size_of::<FilteredOut>() == (FilteredOut::SAMPLES.len() + 1) * COUNTER);
    assert!(size_of::<UnwindLosses>() == UnwindLosses::ALL.len() * COUNTER);
    assert!(size_of::<UnsymbolizedLosses>() == UnsymbolizedLosses::ALL.len() * COUNTER);
    assert!(size_of::<WaitTotals>() == WaitTotals::ALL.len() * COUNTER);
    let nested =
        size_of::<UnwindLosses>() + size_of::<UnsymbolizedLosses>() + size_of::<WaitTotals>();
    assert!(size_of::<Losses>() == Losses::COUNTERS.len() * COUNTER + nested);
};
