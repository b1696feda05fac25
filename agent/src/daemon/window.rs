//! A window → a profile of each series for the exporters, and counts of what was lost.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use agent_common::record::ProfileKind;

use super::target_table::TargetTable;
use crate::{
    aggregate::{ProfileTiming, Window},
    export::{BatchOptions, ProfileBatch, Unencodable},
    profile::{LastFrame, Losses, Profile},
    session::Profiles,
    targets::labels::Labels,
};

/// Executables with a counter of their own; those beyond share one.
const MAX_EXECUTABLES: usize = 100;

/// Counts over all windows so far.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Windows completed.
    pub(crate) windows: u64,
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
    window.split(|pid| targets.labels(pid))
}

/// The profile of a series, for the exporters.
///
/// # Errors
///
/// When it cannot be encoded.
pub(crate) fn batch(
    profiles: &mut Profiles,
    labels: &Labels,
    part: &Window,
    about: &ProfileTiming,
    options: &BatchOptions,
) -> Result<ProfileBatch, Unencodable> {
    let mut profile = profiles.profile_of(part, about);
    profile.labels = labels.clone().into_map();
    ProfileBatch::new(profile, options)
}

#[cfg(test)]
mod tests {
    use super::{MAX_EXECUTABLES, Totals};

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
