//! The age of a cached fact about another process, and when it has to be revalidated.
//!
//! A cached address can be freed and reused. A fact is therefore revalidated after an eighth of the
//! time for which it has been valid, and at the latest after a second: a new one is checked often,
//! an old one costs one check a second.

/// Longest time without revalidation, in nanoseconds.
pub const MAX_AGE_NS: u64 = 1_000_000_000;

/// When a fact was cached and last revalidated, in nanoseconds of the monotonic clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheAge {
    /// When it was cached.
    pub since_ns: u64,
    /// When it was last revalidated.
    pub revalidated_ns: u64,
}

impl CacheAge {
    /// Never read: it is due.
    pub const NEVER: Self = Self {
        since_ns: 0,
        revalidated_ns: 0,
    };

    /// A fact that was just read.
    #[must_use]
    pub const fn new(now_ns: u64) -> Self {
        Self {
            since_ns: now_ns,
            revalidated_ns: now_ns,
        }
    }

    /// When the fact has to be revalidated.
    #[inline(always)]
    #[must_use]
    pub const fn due_ns(&self) -> u64 {
        self.revalidated_ns.wrapping_add(self.valid_ns())
    }

    /// For how long the fact needs no revalidation after the last one, in nanoseconds; at most
    /// [`MAX_AGE_NS`].
    #[inline(always)]
    #[must_use]
    pub const fn valid_ns(&self) -> u64 {
        let known_ns = self.revalidated_ns.wrapping_sub(self.since_ns);
        if known_ns / 8 < MAX_AGE_NS {
            known_ns / 8
        } else {
            MAX_AGE_NS
        }
    }

    /// Whether the fact has to be revalidated.
    #[inline(always)]
    #[must_use]
    pub const fn is_due(&self, now_ns: u64) -> bool {
        now_ns > self.due_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheAge, MAX_AGE_NS};

    #[test]
    fn a_new_fact_is_due_at_once() {
        let fact = CacheAge::new(1_000);
        assert!(!fact.is_due(1_000));
        assert!(fact.is_due(1_001));
    }

    #[test]
    fn patience_is_an_eighth_of_the_age() {
        let fact = CacheAge {
            since_ns: 0,
            revalidated_ns: 800,
        };
        assert!(!fact.is_due(900));
        assert!(fact.is_due(901));
    }

    #[test]
    fn patience_ends_at_a_second() {
        let hour_ns = 3600 * MAX_AGE_NS;
        let fact = CacheAge {
            since_ns: 0,
            revalidated_ns: hour_ns,
        };
        assert!(!fact.is_due(hour_ns + MAX_AGE_NS));
        assert!(fact.is_due(hour_ns + MAX_AGE_NS + 1));
    }

    #[test]
    fn what_was_never_looked_at_is_due() {
        assert!(CacheAge::NEVER.is_due(1));
    }

    #[test]
    fn a_proof_from_the_future_is_not_due() {
        assert!(!CacheAge::new(2_000).is_due(1_000));
    }
}
