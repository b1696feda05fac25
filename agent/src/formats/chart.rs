//! The samples of each thread laid out on an axis of time, for formats that show when a thread ran what.
//!
//! ```text
//! instants of samples  ·    a    a    a    b                   a    a
//! spans                ├────a────a────a┼───b┤             ├────a────a┤
//! ```
//!
//! A sample says where its thread was at an instant, and how much of its time it stands for: it is a span as long
//! as that, which ends at the instant. Where the span before does not end until then, it begins later; where it ends
//! a moment earlier, it begins there: clocks are not exact. A longer time without samples is a gap. So a span may be
//! off by [`MAX_SLACK`] periods, and no more, and the spans of a stack are together as long as its samples.
//!
//! Where values are no time of the thread, each sample is a span of a microsecond at its instant.
//!
//! Invariant: spans of a thread do not overlap, and neighbours have different stacks or a gap between them.

use crate::profile::{Profile, StackId, ThreadIndex};

/// Longest time between two spans that is no gap, in sampling periods.
const MAX_SLACK: u64 = 2;

/// How long a sample is shown that is no time.
const INSTANT_NS: u64 = 1_000;

/// A time in which a thread had one stack, in nanoseconds from the start of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) stack: StackId,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// What its samples measured, in the unit of the kind.
    pub(super) value: u64,
}

/// A part of the time of a thread; a gap has no stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) stack: Option<StackId>,
    pub(super) length_ns: u64,
}

/// The spans of all threads.
pub(super) struct Chart(Vec<Vec<Span>>);

impl Chart {
    /// The chart of a profile with a timeline.
    pub(super) fn new(profile: &Profile) -> Self {
        let is_time = profile.kind.is_time_of_thread();
        let slack_ns = profile.period.saturating_mul(MAX_SLACK);
        let mut threads = vec![Vec::<Span>::new(); profile.threads.len()];
        for timed in profile.timed_samples() {
            let sample = profile.samples[timed.sample as usize];
            let spans = &mut threads[sample.thread.0 as usize];
            let last_ns = spans.last().map_or(0, |span| span.end_ns);
            let begin_ns = if is_time {
                let begin_ns = timed.time_ns.saturating_sub(timed.value.into());
                if begin_ns.saturating_sub(last_ns) > slack_ns {
                    begin_ns
                } else {
                    last_ns
                }
            } else {
                last_ns.max(timed.time_ns)
            };
            let length_ns = if is_time {
                timed.value.into()
            } else {
                INSTANT_NS
            };
            let end_ns = begin_ns.saturating_add(length_ns);
            match spans.last_mut() {
                Some(last) if last.stack == sample.stack && last.end_ns == begin_ns => {
                    last.end_ns = end_ns;
                    last.value = last.value.saturating_add(timed.value.into());
                }
                _ => spans.push(Span {
                    stack: sample.stack,
                    begin_ns,
                    end_ns,
                    value: timed.value.into(),
                }),
            }
        }
        Self(threads)
    }

    /// The chart of a profile, if it has one whose spans are time.
    pub(super) fn of_time(profile: &Profile) -> Option<Self> {
        let has_chart = profile.timeline.is_some() && profile.kind.is_time_of_thread();
        has_chart.then(|| Self::new(profile))
    }

    /// The spans of a thread, the earliest first.
    pub(super) fn spans(&self, thread: ThreadIndex) -> &[Span] {
        &self.0[thread.0 as usize]
    }

    /// The same with the gaps before them, from the start of sampling.
    pub(super) fn parts(&self, thread: ThreadIndex) -> impl Iterator<Item = Part> {
        let mut last_ns = 0;
        self.spans(thread).iter().flat_map(move |span| {
            let gap = Part {
                stack: None,
                length_ns: span.begin_ns - last_ns,
            };
            last_ns = span.end_ns;
            let part = Part {
                stack: Some(span.stack),
                length_ns: span.end_ns - span.begin_ns,
            };
            [gap, part].into_iter().filter(|part| part.length_ns != 0)
        })
    }

    /// When the last span of a thread ends, in nanoseconds from the start of sampling.
    pub(super) fn end_ns(&self, thread: ThreadIndex) -> u64 {
        self.spans(thread).last().map_or(0, |span| span.end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{
        TimedSample, Timeline,
        fixtures::{PERIOD_NS, example_profile, of_kind, timed},
        kinds::{gil, page_faults},
    };

    /// A profile whose samples with these indices have these times, in tenths of a period.
    fn at(times: &[(u32, u64)]) -> Profile {
        let mut profile = example_profile("/srv/app/main.py");
        let samples = times.iter().map(|(sample, tenths)| TimedSample {
            time_ns: tenths * PERIOD_NS / 10,
            sample: *sample,
            value: u32::try_from(PERIOD_NS).unwrap(),
        });
        profile.timeline = Some(Timeline::new(samples.collect()));
        profile
    }

    /// Stacks of the first thread with begin and end, in tenths of a period.
    fn spans(profile: &Profile) -> Vec<(u32, u64, u64)> {
        let chart = Chart::new(profile);
        let spans = chart.spans(ThreadIndex(0)).iter();
        let tenth = PERIOD_NS / 10;
        spans
            .map(|span| (span.stack.0, span.begin_ns / tenth, span.end_ns / tenth))
            .collect()
    }

    #[test]
    fn a_stack_lasts_until_another_one_or_a_gap() {
        let profile = at(&[(0, 40), (0, 51), (0, 59), (1, 70), (0, 120), (0, 130)]);
        assert_eq!(spans(&profile), [(0, 30, 60), (1, 60, 70), (0, 110, 130)]);
        let chart = Chart::new(&profile);
        let gaps = chart.parts(ThreadIndex(0)).filter(|it| it.stack.is_none());
        let gaps: Vec<_> = gaps.map(|gap| gap.length_ns / PERIOD_NS).collect();
        assert_eq!(gaps, [3, 4]);
        assert_eq!(chart.end_ns(ThreadIndex(0)), 13 * PERIOD_NS);
        assert_eq!(chart.end_ns(ThreadIndex(1)), 0);
    }

    #[test]
    fn slack_does_not_add_up() {
        // One sample in two periods, as of a thread that shares its CPU.
        let times: Vec<_> = (1..100).map(|nth| (nth % 2, u64::from(20 * nth))).collect();
        let profile = at(&times);
        let spans = spans(&profile);
        for ((_, begin, end), (_, time)) in spans.iter().zip(times) {
            assert_eq!(end - begin, 10);
            let late = time - end;
            assert!(late <= 10 * MAX_SLACK, "{begin} {end} {time}");
        }
    }

    #[test]
    fn samples_that_are_not_in_order_do_not_overlap() {
        let profile = at(&[(0, 100), (1, 101), (0, 102)]);
        assert_eq!(
            spans(&profile),
            [(0, 90, 100), (1, 100, 110), (0, 110, 120)]
        );
    }

    #[test]
    fn the_spans_of_a_stack_are_as_long_as_its_samples() {
        let profile = timed(example_profile("/srv/app/main.py"));
        let chart = Chart::of_time(&profile).unwrap();
        for sample in &profile.samples {
            let spans = chart.spans(sample.thread).iter();
            let spans = spans.filter(|span| span.stack == sample.stack);
            let sum: u64 = spans.map(|span| span.end_ns - span.begin_ns).sum();
            assert_eq!(sum, sample.value);
        }
    }

    #[test]
    fn what_is_no_time_of_the_thread_is_an_instant() {
        for kind in [&page_faults::KIND, &gil::KIND] {
            let profile = timed(of_kind(example_profile("/srv/app/main.py"), kind));
            assert!(Chart::of_time(&profile).is_none());
            let chart = Chart::new(&profile);
            let spans = profile.threads.iter().zip(0..);
            let spans = spans.flat_map(|(_, index)| chart.spans(ThreadIndex(index)));
            let sum: u64 = spans.map(|span| span.end_ns - span.begin_ns).sum();
            let samples = profile.timed_samples().len() as u64;
            assert_eq!(sum, samples * INSTANT_NS);
        }
    }

    #[test]
    fn a_profile_without_a_timeline_has_no_chart() {
        assert!(Chart::of_time(&example_profile("/srv/app/main.py")).is_none());
    }
}
