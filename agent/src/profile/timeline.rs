//! When the samples of a profile were taken.

/// The samples of a profile in the order of time.
///
/// Invariant: their values, added up by [`TimedSample::sample`], are those of the samples of the profile, except for
/// [`Losses::untimed_samples`](super::Losses::untimed_samples).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline(Vec<TimedSample>);

/// One sample, or a part of one whose value is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedSample {
    /// When it was taken, in nanoseconds from the start of sampling.
    pub time_ns: u64,
    /// Index of the sample of the profile that counts it.
    pub sample: u32,
    /// What it measured until then, in the unit of the profile's kind.
    pub value: u32,
}

const _: () = assert!(size_of::<TimedSample>() == 16);

impl Timeline {
    /// Of samples in any order; those of the same time keep theirs.
    #[must_use]
    pub fn new(mut samples: Vec<TimedSample>) -> Self {
        samples.sort_by_key(|sample| sample.time_ns);
        Self(samples)
    }

    /// The samples, the earliest first.
    #[must_use]
    pub fn samples(&self) -> &[TimedSample] {
        &self.0
    }

    /// The same where samples of the profile have other indices, which `index` gives.
    #[must_use]
    pub(super) fn renumbered(&self, index: impl Fn(u32) -> u32) -> Self {
        let samples = self.0.iter().map(|timed| TimedSample {
            sample: index(timed.sample),
            ..*timed
        });
        Self(samples.collect())
    }
}
