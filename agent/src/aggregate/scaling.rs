//! Values that are multiplied so that they have another sum.

/// How many times the sum may be larger afterwards, or smaller: a few samples do not stand for whatever an estimate says.
const MAX_TIMES_MORE: u64 = 100;
const MAX_TIMES_LESS: u64 = 10;

/// Multiplies values one after the other. What rounding takes from one of them the next ones have: they have the
/// wanted sum, to the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaling {
    sum: u64,
    wanted: u64,
    /// Sum of the values so far.
    seen: u64,
}

impl Scaling {
    /// Of values with a sum, for which another one is wanted, within limits.
    pub(super) fn new(sum: u64, wanted: u64) -> Self {
        let most = sum.saturating_mul(MAX_TIMES_MORE);
        Self {
            sum,
            wanted: wanted.clamp(sum / MAX_TIMES_LESS, most),
            seen: 0,
        }
    }

    /// The next value, multiplied.
    pub(super) fn apply(&mut self, value: u64) -> u64 {
        let before = self.scaled();
        self.seen = self.seen.saturating_add(value).min(self.sum);
        self.scaled() - before
    }

    /// Of the values so far.
    fn scaled(&self) -> u64 {
        let scaled = u128::from(self.seen) * u128::from(self.wanted) / u128::from(self.sum.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_wanted_sum_and_their_proportions() {
        for wanted in [30_u64, 99, 100, 101, 777] {
            let values = [1_u64, 2, 3, 50, 44];
            let mut scaling = Scaling::new(100, wanted);
            let scaled = values.map(|value| scaling.apply(value));
            assert_eq!(scaled.iter().sum::<u64>(), wanted, "{scaled:?}");
            for (value, scaled) in values.into_iter().zip(scaled) {
                assert!((value * wanted).abs_diff(scaled * 100) <= 100, "{scaled}");
            }
        }
    }

    #[test]
    fn it_is_bounded() {
        assert_eq!(Scaling::new(0, 100).apply(0), 0);
        assert_eq!(Scaling::new(1, u64::MAX).apply(1), 100);
        assert_eq!(Scaling::new(100, 0).apply(100), 10);
        let mut full = Scaling::new(u64::MAX, u64::MAX);
        assert_eq!(full.apply(u64::MAX), u64::MAX);
        assert_eq!(full.apply(1), 0);
    }
}
