//! The times of the samples of a window, for charts: what counts alone do not say.
//!
//! Invariants: it takes at most [`MAX_SAMPLES`] entries of 16 bytes, and keys as many as the window has; samples past
//! that are counted by key, so that a profile says how many it lacks.

use foldhash::fast::RandomState;
use indexmap::IndexSet;

use super::{
    interner::{Interner, index},
    key::SampleKey,
    scaling::Scaling,
};
use crate::profile::{Sample, Sampled, TimedSample, Timeline};

/// Most samples whose times are kept.
const MAX_SAMPLES: usize = 1_000_000;

/// The times of samples.
#[derive(Clone, Debug, Default)]
pub(super) struct WindowTimes {
    keys: IndexSet<SampleKey, RandomState>,
    /// In the order in which they came; their samples are indices of keys, and times those of the monotonic clock.
    samples: Vec<TimedSample>,
    /// The last time so far.
    latest_ns: u64,
    /// Samples past the limit, by index of the key; shorter where there are none.
    untimed: Vec<u64>,
    /// When sampling began, on the monotonic clock.
    start_ns: u64,
}

impl WindowTimes {
    /// Adds `count` samples that measured `value` until `time_ns`. One without a time, 0, has the latest so far.
    pub(super) fn add(&mut self, key: SampleKey, time_ns: u64, count: u64, value: u64) {
        self.latest_ns = self.latest_ns.max(time_ns);
        let time_ns = if time_ns == 0 {
            self.latest_ns
        } else {
            time_ns
        };
        let key = self.keys.insert_full(key).0;
        let most = u64::from(u32::MAX);
        let parts = value.div_ceil(most).max(1);
        let is_room =
            usize::try_from(parts).is_ok_and(|parts| self.samples.len() + parts <= MAX_SAMPLES);
        // The rest of the chart would have gaps.
        if !is_room || !self.untimed.is_empty() {
            let length = self.untimed.len().max(key + 1);
            self.untimed.resize(length, 0);
            self.untimed[key] = self.untimed[key].saturating_add(count);
            return;
        }
        let sample = index(key);
        let mut rest = value;
        for _ in 0..parts {
            let part = rest.min(most);
            rest -= part;
            self.samples.push(TimedSample {
                time_ns,
                sample,
                value: u32::try_from(part).unwrap_or(u32::MAX),
            });
        }
    }

    /// Multiplies the values of the samples whose keys have a scaling.
    pub(super) fn scale(&mut self, of_key: impl Fn(&SampleKey) -> Option<Scaling>) {
        let mut scalings: Vec<_> = self.keys.iter().map(of_key).collect();
        for sample in &mut self.samples {
            if let Some(scaling) = &mut scalings[sample.sample as usize] {
                let value = scaling.apply(sample.value.into());
                sample.value = u32::try_from(value).unwrap_or(u32::MAX);
            }
        }
    }

    /// Sets when sampling began, in nanoseconds of the monotonic clock.
    pub(super) fn set_start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }
}

/// A timeline being built: which samples of the window are in the profile.
pub(super) struct TimelineBuilder<'a> {
    times: &'a WindowTimes,
    /// By index of the key.
    included: Vec<Option<Sampled>>,
}

impl<'a> TimelineBuilder<'a> {
    pub(super) fn new(times: &'a WindowTimes) -> Self {
        Self {
            times,
            included: vec![None; times.keys.len()],
        }
    }

    /// Includes the samples with a key, which the profile counts as those of `sampled`.
    pub(super) fn include(&mut self, key: &SampleKey, sampled: Sampled) {
        if let Some(index) = self.times.keys.get_index_of(key) {
            self.included[index] = Some(sampled);
        }
    }

    /// The timeline of a profile with these samples, and how many of them it lacks.
    pub(super) fn finish(self, samples: &[Sample]) -> (Timeline, u64) {
        let mut indices = Interner::default();
        for sample in samples {
            // A profile has at most one for each.
            indices.index(sample.sampled());
        }
        let included = self.included.into_iter();
        let indices: Vec<_> = included
            .map(|sampled| sampled.map(|sampled| indices.index(sampled)))
            .collect();
        let timed = self.times.samples.iter().filter_map(|timed| {
            Some(TimedSample {
                time_ns: timed.time_ns.saturating_sub(self.times.start_ns),
                sample: indices[timed.sample as usize]?,
                ..*timed
            })
        });
        let untimed = self.times.untimed.iter().zip(&indices);
        let untimed = untimed.filter_map(|(count, index)| index.map(|_| *count));
        (
            Timeline::new(timed.collect()),
            untimed.fold(0, u64::saturating_add),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        time::{Duration, SystemTime},
    };

    use agent_common::record::{Frame, NativeFrame, Sample, WaitReason};

    use super::*;
    use crate::{
        aggregate::{
            Catalog, Filter, ProfileTiming, ThreadFilter, Window, Windows, fixtures::sample,
        },
        profile::{
            CPU, Kind, Periods, Profile, UnsymbolizedReason,
            kinds::{exceptions, off_cpu},
        },
        symbolize::{SymbolizeFrames, SymbolizedNativeFrame, SymbolizedPythonFrame, unsymbolized},
    };

    struct NoNames;

    impl SymbolizeFrames for NoNames {
        fn python(&mut self, _frame: &Frame) -> Option<SymbolizedPythonFrame> {
            None
        }

        fn native(&mut self, _tgid: u32, frame: &NativeFrame) -> SymbolizedNativeFrame {
            unsymbolized(frame, UnsymbolizedReason::NoSymbols)
        }
    }

    fn profile(window: &Window, kind: &'static Kind, filter: &Filter) -> Profile {
        let about = ProfileTiming {
            kind,
            start: SystemTime::UNIX_EPOCH,
            duration: Duration::from_secs(1),
            periods: Periods::new(100, None),
        };
        Catalog::default().profile(window, &about, filter, &mut NoNames)
    }

    /// Samples of three threads, some with the GIL, some waiting, not in the order of time.
    fn window() -> Window {
        let mut windows = Windows::with_times();
        for nth in 0..100_u32 {
            windows.add_sample(&Sample {
                time_ns: 1_000 + u64::from(nth ^ 3),
                tid: 1 + nth % 3,
                value: u64::from(nth) * 1_000,
                holds_gil: u8::from(nth % 2 == 0),
                kind: if nth % 5 == 0 {
                    off_cpu::KIND.recorded_as()
                } else {
                    CPU.number
                },
                wait: if nth % 5 == 0 {
                    WaitReason::FILE
                } else {
                    WaitReason::NONE
                },
                ..sample()
            });
        }
        let mut window = windows.take();
        window.set_start(1_000);
        window
    }

    /// Asserts that the timeline has the values of the samples.
    fn assert_agree(profile: &Profile) {
        let timed = profile.timed_samples();
        assert!(timed.is_sorted_by_key(|timed| timed.time_ns));
        let mut values = BTreeMap::<u32, u64>::new();
        for timed in timed {
            *values.entry(timed.sample).or_default() += u64::from(timed.value);
        }
        let expected = (0..).zip(profile.samples.iter().map(|sample| sample.value));
        assert_eq!(values, expected.collect());
    }

    #[test]
    fn exceptions_that_are_added_are_in_the_timeline() {
        let corrected = |difference: i64| {
            let mut windows = Windows::with_times();
            for nth in 0..50_u32 {
                windows.add_sample(&Sample {
                    time_ns: 1_000 + u64::from(nth),
                    tid: 1 + nth % 3,
                    value: 1 + u64::from(nth % 4),
                    kind: exceptions::KIND.number,
                    ..sample()
                });
                windows.add_sample(&sample());
            }
            let mut window = windows.take();
            window.correct_raises(difference);
            let raises = profile(&window, &exceptions::KIND, &Filter::default());
            assert_agree(&raises);
            let samples = profile(&window, &CPU, &Filter::default());
            assert_eq!(samples.samples.iter().map(|it| it.count).sum::<u64>(), 50);
            assert_eq!(raises.samples.iter().map(|it| it.count).sum::<u64>(), 50);
            raises.samples.iter().map(|it| it.value).sum::<u64>()
        };
        let raised = corrected(0);
        for difference in [-20, 1, 1_000] {
            assert_eq!(
                corrected(difference),
                raised.saturating_add_signed(difference)
            );
        }
    }

    #[test]
    fn the_timeline_has_the_samples_that_filters_include() {
        let window = window();
        let filters = [
            Filter::default(),
            Filter {
                gil_only: true,
                ..Filter::default()
            },
            Filter {
                thread: Some(ThreadFilter::Tid(2)),
                ..Filter::default()
            },
        ];
        for kind in [&CPU, &off_cpu::KIND] {
            let lengths = filters.clone().map(|filter| {
                let profile = profile(&window, kind, &filter);
                assert_agree(&profile);
                assert_agree(&profile.without_internals());
                assert_eq!(profile.losses.untimed_samples, 0);
                profile.timed_samples().len()
            });
            assert!(
                lengths[1] < lengths[0] && lengths[2] < lengths[0],
                "{lengths:?}"
            );
            assert!(lengths[1] > 0 && lengths[2] > 0, "{lengths:?}");
        }
    }

    #[test]
    fn times_count_from_the_start_of_sampling() {
        let profile = profile(&window(), &CPU, &Filter::default());
        let times = profile.timed_samples().iter().map(|timed| timed.time_ns);
        assert_eq!(times.max(), Some(99));
    }

    #[test]
    fn there_is_no_timeline_where_none_is_wanted() {
        let mut windows = Windows::default();
        windows.add_sample(&sample());
        let profile = profile(&windows.take(), &CPU, &Filter::default());
        assert_eq!(profile.timeline, None);
        let mut windows = Windows::with_times();
        windows.take();
        assert!(windows.take().times.is_some());
    }

    #[test]
    fn a_sample_without_a_time_is_not_at_the_start() {
        let mut windows = Windows::with_times();
        for time_ns in [5_000, 0] {
            windows.add_sample(&Sample {
                time_ns,
                ..sample()
            });
        }
        let profile = profile(&windows.take(), &CPU, &Filter::default());
        let times = profile.timed_samples().iter().map(|timed| timed.time_ns);
        assert_eq!(times.collect::<Vec<_>>(), [5_000, 5_000]);
    }

    #[test]
    fn a_large_value_has_several_entries() {
        let mut windows = Windows::with_times();
        windows.add_sample(&Sample {
            value: 10_000_000_000,
            ..sample()
        });
        let profile = profile(&windows.take(), &CPU, &Filter::default());
        assert_agree(&profile);
        assert_eq!(profile.timed_samples().len(), 3);
    }

    #[test]
    fn samples_past_the_limit_are_counted() {
        let mut windows = Windows::with_times();
        let more = 100_u32;
        let samples = u32::try_from(MAX_SAMPLES).unwrap() + more;
        for nth in 0..samples {
            windows.add_sample(&Sample {
                time_ns: nth.into(),
                tid: 1 + nth % 2,
                ..sample()
            });
        }
        let window = windows.take();
        let all = profile(&window, &CPU, &Filter::default());
        assert_eq!(all.total(), u64::from(samples));
        assert_eq!(all.timed_samples().len(), MAX_SAMPLES);
        assert_eq!(all.losses.untimed_samples, u64::from(more));
        let filter = Filter {
            thread: Some(ThreadFilter::Tid(2)),
            ..Filter::default()
        };
        let one = profile(&window, &CPU, &filter);
        assert_eq!(one.losses.untimed_samples, u64::from(more / 2));
    }
}
