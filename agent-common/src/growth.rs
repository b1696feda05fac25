//! Which of the bytes by which memory grows are samples.
//!
//! Invariant: of each period exactly one byte is a sample, at a random place, so that no
//! loop grows in lockstep with them, and the total is exact but for the last ones.

/// Bytes by which something has grown, of each `PERIOD` of which one is a sample.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampledGrowth<const PERIOD: u64> {
    /// Bytes since the last whole period.
    grown: u64,
    /// The byte of this period that is a sample.
    place: u64,
    /// Bytes that have to come back before growth counts.
    owed: u64,
    /// Bytes that are added with the next ones.
    deferred: u64,
}

impl<const PERIOD: u64> SampledGrowth<PERIOD> {
    /// Nothing yet.
    pub const NEW: Self = Self {
        grown: 0,
        place: 0,
        owed: 0,
        deferred: 0,
    };

    /// Most bytes that are taken back: more than a processor counts for itself.
    const MAX_OWED: u64 = 4 * PERIOD;

    /// Adds bytes; returns how many samples are among them. `random` is any number.
    #[inline(always)]
    pub fn add(&mut self, bytes: u64, random: u32) -> u64 {
        let bytes = bytes.wrapping_add(self.deferred);
        self.deferred = 0;
        let paid = if bytes < self.owed { bytes } else { self.owed };
        self.owed -= paid;
        let before = self.grown;
        let end = before.wrapping_add(bytes - paid);
        let was_to_come = before == 0 || self.place >= before;
        if before == 0 {
            self.place = u64::from(random) % PERIOD;
        }
        let periods = end / PERIOD;
        self.grown = end % PERIOD;
        if periods == 0 {
            return u64::from(was_to_come && self.place < end);
        }
        // The rest of the first one, whole ones, and a part of the last one.
        let first = u64::from(was_to_come);
        self.place = u64::from(random.rotate_left(16)) % PERIOD;
        let last = u64::from(self.place < self.grown);
        first + (periods - 1) + last
    }

    /// Adds bytes when the next ones are added.
    #[inline(always)]
    pub fn defer(&mut self, bytes: u64) {
        self.deferred = self.deferred.wrapping_add(bytes);
    }

    /// Takes bytes back that were added to another one by mistake.
    #[inline(always)]
    pub fn owe(&mut self, bytes: u64) {
        let owed = self.owed.wrapping_add(bytes);
        self.owed = if owed > Self::MAX_OWED {
            Self::MAX_OWED
        } else {
            owed
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::GROWTH_PERIOD_BYTES;

    type Growth = SampledGrowth<GROWTH_PERIOD_BYTES>;

    /// A generator of random numbers (`SplitMix64`'s finalizer).
    fn random(state: &mut u64) -> u32 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as u32
    }

    #[test]
    fn each_period_has_one_sample() {
        for step in [1, 4096, 3 * 4096, 70_000, GROWTH_PERIOD_BYTES, 2 << 20] {
            let (mut growth, mut state) = (Growth::default(), step);
            let (mut samples, mut bytes) = (0, 0);
            for _ in 0..100_000 {
                samples += growth.add(step, random(&mut state));
                bytes += step;
                let whole = bytes / GROWTH_PERIOD_BYTES;
                assert!((whole..=whole + 1).contains(&samples), "{step}: {samples}");
            }
        }
    }

    #[test]
    fn who_grows_in_lockstep_gets_a_fair_share() {
        let (mut growth, mut state) = (Growth::default(), 7);
        let mut samples = [0_u64; 2];
        // Three quarters of each period are one's, always the same.
        for _ in 0..20_000 {
            samples[0] += growth.add(GROWTH_PERIOD_BYTES / 4 * 3, random(&mut state));
            samples[1] += growth.add(GROWTH_PERIOD_BYTES / 4, random(&mut state));
        }
        assert!(samples[0].abs_diff(15_000) < 300, "{samples:?}");
        assert_eq!(samples[0] + samples[1], 20_000);
    }

    #[test]
    fn what_is_owed_comes_back_first() {
        let mut growth = Growth::default();
        growth.owe(3 * 4096);
        assert_eq!(growth.add(3 * 4096, 0), 0);
        assert_eq!(growth.add(1, 0), 1);
        let mut growth = Growth::default();
        growth.defer(GROWTH_PERIOD_BYTES);
        assert_eq!(growth.add(GROWTH_PERIOD_BYTES, 0), 2);
        growth.owe(u64::MAX / 2);
        growth.owe(u64::MAX / 2);
        assert_eq!(growth.add(Growth::MAX_OWED, 0), 0);
        assert_eq!(growth.add(GROWTH_PERIOD_BYTES, 0), 1);
    }
}
