//! How far the values of a profile are chance.
//!
//! Samples are random: with n of them the standard error of their number is √n, if each is taken independently of the
//! others. The variance of a value is then the value times what one sample stands for.
//!
//! What is counted is not everywhere what was sampled. Of allocations one in a period of bytes is a sample, and it
//! stands for a period's worth of them, or for itself where it is larger. Of exceptions that stand for others it is
//! recorded how far their number is uncertain.

use std::borrow::Cow;

use crate::profile::{Kind, Profile, Sample, Unit};

/// The variances of the values of a profile.
pub(super) struct Noise<'a> {
    /// The variance for one of the values of [`Self::values`].
    pub(super) unit: f64,
    /// The profile whose values, times the unit, are the variances of its own.
    pub(super) values: Cow<'a, Profile>,
}

impl<'a> Noise<'a> {
    /// The variances of a profile.
    pub(super) fn of(profile: &'a Profile) -> Self {
        let total = to_float(profile.total_value().max(1));
        let sizes: Vec<f64> = if is_sampled_by_bytes(profile.kind) {
            let period = to_float(profile.period.max(1));
            let size = |sample| sampled_bytes(mean_value(sample), period);
            profile.samples.iter().map(size).collect()
        } else if profile.kind.is_about_exceptions() {
            // Each function has its share of what is not known of all.
            let least = 1.0 + to_float(profile.losses.raise_variance) / total;
            let size = |sample| mean_value(sample).max(least);
            profile.samples.iter().map(size).collect()
        } else {
            return Self {
                unit: total / to_float(profile.total().max(1)),
                values: Cow::Borrowed(profile),
            };
        };
        Self::of_sizes(profile, &sizes)
    }

    /// The variances where samples stand for so much each, in their order.
    fn of_sizes(profile: &'a Profile, sizes: &[f64]) -> Self {
        let variances = profile.samples.iter().zip(sizes);
        let variances: Vec<_> = variances
            .map(|(sample, size)| to_float(sample.value) * size)
            .collect();
        // Variances of bytes do not fit into values; in this unit their sum is that of the values.
        let unit = variances.iter().sum::<f64>() / to_float(profile.total_value().max(1));
        let unit = unit.max(1.0);
        let mut values = profile.clone();
        for (sample, variance) in values.samples.iter_mut().zip(variances) {
            sample.value = to_integer((variance / unit).ceil());
        }
        Self {
            unit,
            values: Cow::Owned(values),
        }
    }
}

/// Whether a sample is taken after so many bytes and counted as the allocations that it stands for.
fn is_sampled_by_bytes(kind: &Kind) -> bool {
    let has_bytes = kind.unit == Unit::Bytes && kind.names.period_type.unit == Unit::Bytes.name();
    kind.is_about_allocations() || kind.is_foreign() && has_bytes
}

/// What a sample of an allocation of so many bytes stands for: it is taken with the probability
/// `1 - exp(-bytes / period)`.
fn sampled_bytes(bytes: f64, period: f64) -> f64 {
    let bytes = bytes.max(1.0);
    bytes / -(-bytes / period).exp_m1()
}

/// The mean of what equal samples measured.
fn mean_value(sample: &Sample) -> f64 {
    to_float(sample.value) / to_float(sample.count.max(1))
}

#[expect(clippy::cast_precision_loss, reason = "what is shown has three digits")]
pub(super) fn to_float(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates: casts of floats saturate"
)]
fn to_integer(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use agent_common::limits::ALLOCATION_PERIOD_BYTES;

    use super::*;
    use crate::profile::{
        fixtures::{example_profile, of_kind},
        kinds::{allocations, exceptions, growth, page_faults},
    };

    /// One stack with this count and value.
    fn profile(kind: &'static Kind, count: u64, value: u64) -> Profile {
        let mut profile = of_kind(example_profile("main.py"), kind);
        profile.samples.truncate(1);
        profile.samples[0].count = count;
        profile.samples[0].value = value;
        profile
    }

    /// The variance of all samples.
    fn variance(profile: &Profile) -> f64 {
        let noise = Noise::of(profile);
        noise.unit * to_float(noise.values.total_value())
    }

    #[track_caller]
    fn assert_about(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
    }

    #[test]
    fn allocations_are_as_uncertain_as_their_samples() {
        let period = to_float(ALLOCATION_PERIOD_BYTES);
        // A hundred samples, however many allocations they stand for.
        let bytes = 100 * ALLOCATION_PERIOD_BYTES;
        for count in [100_000, 1_000_000] {
            let small = profile(&allocations::KIND, count, bytes);
            assert_about(variance(&small), to_float(bytes) * period);
        }
        // Large ones stand for themselves.
        let large = profile(&allocations::KIND, 10, 20 * bytes);
        let each = to_float(2 * bytes);
        assert_about(variance(&large), 10.0 * each * each);
    }

    #[test]
    fn exceptions_are_as_uncertain_as_recorded() {
        let all = profile(&exceptions::KIND, 900, 900);
        assert_about(variance(&all), 900.0);
        let mut some = profile(&exceptions::KIND, 100, 4_000);
        assert_about(variance(&some), 40.0 * 4_000.0);
        // Of bursts more is recorded than samples alone say.
        some.losses.raise_variance = 1_000_000;
        assert_about(variance(&some), 1_004_000.0);
        // A function with a quarter of them has a quarter of it.
        let rest = some.samples[0];
        some.samples[0].value /= 4;
        some.samples[0].count /= 4;
        some.samples.push(Sample {
            value: 3_000,
            count: 75,
            ..rest
        });
        let noise = Noise::of(&some);
        let function = noise.unit * to_float(noise.values.samples[0].value);
        assert_about(function, 251_000.0);
        assert_about(variance(&some), 1_004_000.0);
    }

    #[test]
    fn other_samples_are_counted() {
        let faults = profile(&page_faults::KIND, 100, 10_100);
        assert_about(variance(&faults), 100.0 * 101.0 * 101.0);
        let grown = profile(&growth::KIND, 100, 100 << 20);
        assert_about(variance(&grown), 100.0 * f64::from(1 << 20).powi(2));
    }
}
