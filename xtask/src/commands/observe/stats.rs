//! Statistics.

/// The middle one; of an even number the mean of the middle two. [`None`] without values.
pub(in crate::commands) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// The smallest one.
pub(in crate::commands) fn least(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().min_by(f64::total_cmp)
}

/// The largest one.
pub(in crate::commands) fn largest(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().max_by(f64::total_cmp)
}

/// The standard deviation of values whose true mean is zero. [`None`] without values.
pub(in crate::commands) fn deviation(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let squares: Vec<_> = values.into_iter().map(|value| value * value).collect();
    let sum: f64 = squares.iter().sum();
    (!squares.is_empty()).then(|| (sum / float(squares.len() as u64)).sqrt())
}

/// A count as a floating-point number.
#[expect(
    clippy::cast_precision_loss,
    reason = "nothing that is measured here has more than three digits that count"
)]
pub(in crate::commands) fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0]), Some(5.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn the_deviation_is_from_zero() {
        assert_eq!(deviation([]), None);
        assert_eq!(deviation([-7.0, 1.0]), Some(5.0));
    }
}
