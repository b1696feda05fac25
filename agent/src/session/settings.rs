//! How a session samples.

use super::{counting::Counting, scope::Scope, unwind_tables::LargeTables};
use crate::{
    bpf::LoadOptions,
    profile::{CPU, Kind, Periods, RecordedExceptions},
    threads::{self, LockNaming, Reads, TracedWaits, WaitRecords, reason::wait_classes},
};

/// How to sample.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub struct Settings {
    /// What to sample.
    pub kinds: Vec<&'static Kind>,
    /// Time between two samples.
    pub periods: Periods,
    /// Whether to walk native and kernel frames too.
    pub native: bool,
    /// Whether to look at who holds the GIL.
    pub gil: bool,
    /// Whether samples of threads that keep others waiting say which, and names of locks have their addresses.
    pub wait_identities: bool,
    /// What is wanted of waits besides samples.
    pub records: WaitRecords,
    /// Whether context switches are traced, so that short waits are exact; only with kinds of passes over threads.
    pub trace_switches: bool,
    /// Which exceptions are recorded.
    pub exceptions: RecordedExceptions,
    /// Whether profiles say when their samples were taken.
    pub times: SampleTimes,
    /// Most bytes that the symbols of files take.
    pub symbol_bytes: usize,
}

/// What becomes of the times of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleTimes {
    /// They are dropped: samples are counted alone.
    #[default]
    Dropped,
    /// The profiles of the session have a [timeline](crate::profile::Profile::timeline).
    Kept,
}

/// How to name the locks for which threads wait, if a kind is about them.
fn lock_naming(settings: &Settings) -> Option<LockNaming> {
    let mut kinds = settings.kinds.iter();
    let naming = if settings.wait_identities {
        LockNaming::WithIdentities
    } else {
        LockNaming::WithoutIdentities
    };
    kinds.any(|kind| kind.is_about_locks()).then_some(naming)
}

/// How passes over threads are made.
pub(super) fn passes_of(settings: &Settings, hash_seed: u64) -> threads::Settings {
    let has = |is_of: fn(&Kind) -> bool| settings.kinds.iter().any(|kind| is_of(kind));
    threads::Settings {
        period: settings.periods.passes,
        hash_seed,
        with_native: settings.native,
        reads: Reads {
            stacks: has(Kind::needs_stacks_of_passes),
            gil: has(Kind::is_about_gil),
            tasks: has(Kind::is_about_tasks),
        },
        locks: lock_naming(settings),
        traced: settings.trace_switches.then(TracedWaits::default),
        records: settings.records.clone(),
    }
}

/// What counts the samples of a session.
pub(super) fn counting_of(settings: &Settings) -> Counting {
    let has = |is_of: fn(&Kind) -> bool| settings.kinds.iter().any(|kind| is_of(kind));
    let mut counting = Counting::default();
    if has(Kind::is_of_passes) {
        let wants_cpu = has(Kind::is_cpu);
        let snapshot = settings.records.snapshot.clone();
        counting =
            Counting::with_passes(wants_cpu, settings.wait_identities).with_snapshot(snapshot);
        if has(Kind::is_about_releases) {
            counting = counting.with_lock_releases();
        }
    }
    match settings.times {
        SampleTimes::Kept => counting.with_times(),
        SampleTimes::Dropped => counting,
    }
}

/// When the unwind tables of large files are compiled: a capture of some processes has all of them at its start. A
/// snapshot waits for those that it needs.
pub(super) fn large_tables(settings: &Settings, scope: &Scope) -> LargeTables {
    let is_host = matches!(scope, Scope::Host { .. });
    if is_host || settings.records.snapshot.is_some() {
        LargeTables::WhenNeeded
    } else {
        LargeTables::Ahead
    }
}

/// With what the BPF programs are loaded.
pub(super) fn load_options(settings: &Settings, scope: &Scope, hash_seed: u64) -> LoadOptions {
    let has = |is_of: fn(&Kind) -> bool| settings.kinds.iter().any(|kind| is_of(kind));
    let classes = || Box::new(wait_classes());
    LoadOptions {
        kinds: sampled_kinds(settings),
        period: settings.periods.clock,
        hash_seed,
        with_native: settings.native,
        with_stack_copies: continues_walks(settings),
        whole_host: matches!(scope, Scope::Host { .. }),
        with_appeared: scope.has_later(),
        visits: scope.visits(has(Kind::is_of_passes)),
        // A dump makes few passes.
        with_loops: settings.records.snapshot.is_none(),
        lock_releases: has(Kind::is_about_releases),
        switches: settings.trace_switches.then(classes),
        exceptions: settings.exceptions,
    }
}

/// Whether native stacks are walked on that end at code which is not known yet: not where one stack of each thread is wanted
/// at once.
pub(super) fn continues_walks(settings: &Settings) -> bool {
    settings.native && settings.records.snapshot.is_none()
}

/// The kinds whose samples are to be taken from the start: passes need to know where threads run, of which they read stacks.
fn sampled_kinds(settings: &Settings) -> Vec<&'static Kind> {
    let kinds = &settings.kinds;
    let mut sampled = kinds.clone();
    if settings.records.snapshot.is_none()
        && kinds.iter().any(|kind| kind.needs_stacks_of_passes())
        && !kinds.iter().any(|kind| kind.is_cpu())
    {
        sampled.push(&CPU);
    }
    sampled
}
