//! A window → a profile of each series for the exporters, and counts of what was lost.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
};

use agent_common::record::ProfileKind;
use tracing::warn;

use super::target_table::TargetTable;
use crate::{
    aggregate::{Filter, ProfileTiming, Window},
    export::{BatchOptions, ProfileBatch, Unencodable},
    profile::{LastFrame, Losses, Profile},
    session::Profiles,
    targets::labels::Labels,
};

/// Executables with a counter of their own; those beyond share one.
const MAX_EXECUTABLES: usize = 100;

/// Most series of a window; the samples of further ones are in one, [`Labels::other`].
const MAX_SERIES: usize = 2000;

/// Counts over all windows so far.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Windows completed.
    pub(crate) windows: u64,
    /// Series whose samples are in the series of all others, each time that they were in a window.
    pub(crate) merged_series: u64,
    /// Profiles handed to the exporters.
    pub(crate) profiles: u64,
    /// Their size as gzipped pprof, in bytes.
    pub(crate) pprof_bytes: u64,
    /// Samples in them.
    pub(crate) samples: u64,
    /// Samples in them, by the name of what was sampled.
    pub(crate) event_samples: BTreeMap<&'static str, u64>,
    /// Times that CPUs went online or offline.
    pub(crate) cpu_changes: u64,
    /// Windows at whose end memory use was above the limit.
    pub(crate) memory_limit_reached: u64,
    /// Whether the log says that files were not opened because too many were open.
    pub(crate) has_left_out_files: bool,
    /// Samples dropped because a window was full.
    pub(crate) lost_samples: u64,
    /// Samples dropped because their processes are not selected, or were not known well enough to be.
    pub(crate) unselected_samples: u64,
    /// Samples whose stack is not complete, by reason.
    pub(crate) losses: Vec<(&'static str, u64)>,
    /// Native stacks unwound to the entry point.
    pub(crate) complete_stacks: u64,
    /// Truncated native stacks, by the executable in which unwinding stopped.
    pub(crate) truncated_stacks: BTreeMap<String, u64>,
}

impl Totals {
    /// Counts a batch that was built.
    pub(crate) fn add_batch(&mut self, batch: &ProfileBatch) {
        self.pprof_bytes += batch.pprof_bytes() as u64;
        self.add(&batch.profile);
    }

    fn add(&mut self, profile: &Profile) {
        self.profiles += 1;
        self.samples += profile.total();
        let of_event = self.event_samples.entry(profile.kind.name);
        *of_event.or_default() += profile.total();
        self.add_losses(&profile.losses);
        for unwinding in &profile.unwind_stats {
            self.complete_stacks += unwinding.complete;
            for (reached, count) in &unwinding.incomplete {
                let executable = match reached {
                    LastFrame::NoFrame => "none".into(),
                    LastFrame::EvaluationLoop => "python".into(),
                    LastFrame::Executable(id) => profile.executable(*id).path.to_string_lossy(),
                };
                self.add_truncated(executable, *count);
            }
        }
    }

    /// Counts truncated stacks: of few executables by themselves, since each is a metric series and
    /// anybody can have any number of executables.
    fn add_truncated(&mut self, executable: Cow<'_, str>, count: u64) {
        let is_known = self.truncated_stacks.contains_key(&*executable);
        let name = if is_known || self.truncated_stacks.len() < MAX_EXECUTABLES {
            executable.into_owned()
        } else {
            "other".to_owned()
        };
        *self.truncated_stacks.entry(name).or_default() += count;
    }

    fn add_losses(&mut self, losses: &Losses) {
        let all = [
            ("truncated", losses.truncated),
            ("incomplete", losses.incomplete),
            ("not_python", losses.not_python),
            ("native_stack_lost", losses.lost_native_stacks),
            ("native_stack_truncated", losses.unwind.total()),
            ("unmatched", losses.unmatched),
        ];
        self.losses.resize(all.len(), ("", 0));
        for (total, (reason, count)) in self.losses.iter_mut().zip(all) {
            *total = (reason, total.1 + count);
        }
    }
}

/// Splits a window that has ended into its series and kinds.
pub(crate) fn split_series(
    window: Window,
    targets: &TargetTable,
    totals: &mut Totals,
) -> BTreeMap<(Arc<Labels>, ProfileKind), Window> {
    totals.windows += 1;
    totals.lost_samples += window.lost_samples();
    let samples = window.samples().saturating_sub(window.lost_samples());
    let mut series = window.split(|pid| targets.labels(pid));
    let selected = series.values().map(Window::samples).sum();
    totals.unselected_samples += samples.saturating_sub(selected);
    let merged = merge_smallest(&mut series, MAX_SERIES);
    if merged > 0 && totals.merged_series == 0 {
        warn!(
            most = MAX_SERIES,
            merged,
            "a window has too many series: the smallest are in one with `service_name=other`"
        );
    }
    totals.merged_series += merged;
    series
}

/// Merges the series with the fewest samples into one until there are at most `most` with it; returns
/// how many were merged.
fn merge_smallest(series: &mut BTreeMap<(Arc<Labels>, ProfileKind), Window>, most: usize) -> u64 {
    let mut samples = HashMap::<Arc<Labels>, u64>::new();
    for ((labels, _), part) in &*series {
        *samples.entry(Arc::clone(labels)).or_default() += part.samples();
    }
    if samples.len() <= most {
        return 0;
    }
    let mut by_size: Vec<_> = samples.into_iter().collect();
    by_size.sort_unstable_by_key(|(labels, samples)| (Reverse(*samples), Arc::clone(labels)));
    let small = by_size.drain(most.saturating_sub(1)..);
    let small: HashSet<_> = small.map(|(labels, _)| labels).collect();
    let other = Arc::new(Labels::other());
    let all = mem::take(series).into_iter();
    let (parts, kept): (BTreeMap<_, _>, _) =
        all.partition(|((labels, _), _)| small.contains(labels));
    *series = kept;
    for ((_, kind), part) in parts {
        let merged = series.entry((Arc::clone(&other), kind)).or_default();
        merged.merge(part);
    }
    small.len() as u64
}

/// The profile of a series, for the exporters; [`None`] if `filter` excludes all of its samples.
///
/// # Errors
///
/// When it cannot be encoded.
pub(crate) fn batch(
    profiles: &mut Profiles,
    labels: &Labels,
    part: &Window,
    about: &ProfileTiming,
    filter: &Filter,
    options: &BatchOptions,
) -> Option<Result<ProfileBatch, Unencodable>> {
    let mut profile = profiles.profile_of(part, about, filter);
    if profile.samples.is_empty() {
        return None;
    }
    profile.labels = labels.clone().into_map();
    Some(ProfileBatch::new(profile, options))
}

#[cfg(test)]
mod tests {
    use super::{MAX_EXECUTABLES, Totals, batch, merge_smallest};
    use crate::{
        aggregate::{Filter, ProfileTiming, Window, fixtures::window_of},
        binaries::executables::Executables,
        export::BatchOptions,
        profile::{CPU, Periods, kinds::wall},
        session::Profiles,
        targets::labels::Labels,
    };
    use agent_common::record::ProfileKind;
    use std::{
        collections::BTreeMap,
        sync::Arc,
        time::{Duration, SystemTime},
    };

    fn labels(service: &str) -> Arc<Labels> {
        Arc::new(Labels::default().with(&[("service_name".to_owned(), service.to_owned())].into()))
    }

    #[test]
    fn the_smallest_series_are_merged_and_no_sample_is_lost() {
        let key = |number: u32| (labels(&format!("service {number:04}")), ProfileKind::CPU);
        let series = |number: u32| -> (_, Window) { (key(number), window_of(number, number)) };
        let all: BTreeMap<_, _> = (1..=3000).map(series).collect();
        let total =
            |series: &BTreeMap<_, Window>| series.values().map(Window::samples).sum::<u64>();

        let mut merged = all.clone();
        assert_eq!(merge_smallest(&mut merged, 3000), 0);
        assert_eq!(merge_smallest(&mut merged, 2000), 1001);
        assert_eq!((merged.len(), total(&merged)), (2000, total(&all)));
        // 1 + 2 + … + 1001
        let other = &merged[&(Arc::new(Labels::other()), ProfileKind::CPU)];
        assert_eq!(other.samples(), 501_501);
        assert!(merged.contains_key(&key(1002)) && !merged.contains_key(&key(1001)));
    }

    #[test]
    fn a_profile_without_samples_is_not_sent() {
        let mut profiles = Profiles::new(None, Executables::default());
        let mut batch_of = |kind| {
            let about = ProfileTiming {
                kind,
                start: SystemTime::UNIX_EPOCH,
                duration: Duration::from_secs(15),
                periods: Periods::new(20, None),
            };
            let (labels, window) = (Labels::default(), window_of(7, 3));
            let (filter, options) = (Filter::default(), BatchOptions::default());
            let batch = batch(&mut profiles, &labels, &window, &about, &filter, &options);
            batch.map(|batch| batch.unwrap().profile.total())
        };
        assert_eq!(batch_of(&CPU), Some(3));
        assert_eq!(batch_of(&wall::KIND), None);
    }

    #[test]
    fn the_metric_series_of_executables_are_bounded_and_lose_nothing() {
        let mut totals = Totals::default();
        for round in 0..2 {
            for number in 0..1000 {
                totals.add_truncated(format!("/tmp/{number}").into(), 1);
            }
            assert_eq!(totals.truncated_stacks.len(), MAX_EXECUTABLES + 1);
            assert_eq!(totals.truncated_stacks["/tmp/0"], round + 1);
        }
        assert_eq!(totals.truncated_stacks.values().sum::<u64>(), 2000);
    }
}
