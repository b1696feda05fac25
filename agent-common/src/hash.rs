//! The 64-bit hash that identifies code objects and stacks.
//!
//! The seed is drawn anew for every run of the agent, so that two stacks with the same hash cannot
//! be prepared. Two among a million distinct stacks share a hash with a probability of
//! 3 in 100 million; the second would then be shown as the first. That is accepted: sending
//! the whole stack with every sample would cost a hundred times as much.

/// Odd constant with a balanced bit pattern (2^64 divided by the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash that is being computed.
#[derive(Clone, Copy, Debug)]
pub struct Hash(u64);

impl Hash {
    /// Starts from the run's seed.
    #[inline(always)]
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed ^ MULTIPLIER)
    }

    /// Adds eight bytes.
    #[inline(always)]
    #[must_use]
    pub const fn word(self, word: u64) -> Self {
        let mixed = (self.0 ^ word).wrapping_mul(MULTIPLIER);
        Self(mixed ^ (mixed >> 29))
    }

    /// The hash, never 0: that value means "none" on the wire.
    #[inline(always)]
    #[must_use]
    pub const fn finish(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(MULTIPLIER);
        let hash = mixed ^ (mixed >> 29);
        if hash == 0 { 1 } else { hash }
    }
}

#[cfg(test)]
mod tests {
    use super::Hash;
    use std::collections::HashSet;

    #[test]
    fn order_and_seed_matter() {
        let of = |seed: u64, words: &[u64]| {
            words
                .iter()
                .fold(Hash::new(seed), |hash, word| hash.word(*word))
                .finish()
        };
        assert_ne!(of(1, &[2, 3]), of(1, &[3, 2]));
        assert_ne!(of(1, &[2, 3]), of(2, &[2, 3]));
        assert_ne!(of(1, &[0]), of(1, &[0, 0]));
    }

    #[test]
    fn small_differences_do_not_collide() {
        let mut seen = HashSet::new();
        for high in 0..256_u64 {
            for low in 0..1024_u64 {
                assert!(seen.insert(Hash::new(7).word(high << 40 | low).word(low).finish()));
            }
        }
    }
}
