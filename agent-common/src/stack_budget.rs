//! How much of the stacks of threads a processor copies.
//!
//! A program that begins, or loads many libraries, needs much for a moment; one that maps new code without end must not
//! have the agent copy without end. So a processor may copy much at once, and little in each second after that.

/// As how many pages a stack counts at least, so that small ones are not many.
const MIN_STACK_PAGES: u32 = 4;

/// What a processor may still copy.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackBudget {
    /// Until when it has been refilled, in nanoseconds of the monotonic clock.
    refilled_ns: u64,
    /// Pages of stacks that may be copied; negative after a stack that had more.
    pages: i32,
    /// Zero.
    reserved: u32,
}

/// The token bucket of a [`StackBudget`], in pages of stacks.
#[derive(Clone, Copy, Debug)]
pub struct StackRate {
    /// Most at once.
    pub burst: u32,
    /// How many come back in a second.
    pub per_second: u32,
}

const SECOND_NS: u64 = 1_000_000_000;

impl StackBudget {
    /// Whether a stack may be copied now.
    #[inline(always)]
    pub fn has_room(&mut self, now_ns: u64, rate: StackRate) -> bool {
        let elapsed_ns = now_ns.saturating_sub(self.refilled_ns);
        // All of it has come back after that.
        let longest_ns = SECOND_NS * (1 + u64::from(rate.burst / rate.per_second));
        let counted_ns = if elapsed_ns < longest_ns {
            elapsed_ns
        } else {
            longest_ns
        };
        let fresh = counted_ns * u64::from(rate.per_second) / SECOND_NS;
        if fresh != 0 {
            // What is less than a page is lost.
            self.refilled_ns = now_ns;
            let pages = i64::from(self.pages) + fresh.cast_signed();
            let most = i64::from(rate.burst);
            self.pages = if pages < most { pages } else { most } as i32;
        }
        self.pages > 0
    }

    /// Counts the pages of a stack that was copied.
    #[inline(always)]
    pub fn spend(&mut self, pages: u32) {
        let pages = if pages < MIN_STACK_PAGES {
            MIN_STACK_PAGES
        } else {
            pages
        };
        self.pages = self.pages.saturating_sub_unsigned(pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: StackRate = StackRate {
        burst: 1000,
        per_second: 100,
    };

    /// Stacks of so many pages that are copied in this second, of a thousand.
    fn copied(budget: &mut StackBudget, second: u64, pages: u32) -> u32 {
        let samples = (0..1000).map(|nth| second * SECOND_NS + nth * 1_000_000);
        let copied = samples.filter(|&now_ns| {
            let has_room = budget.has_room(now_ns, RATE);
            if has_room {
                budget.spend(pages);
            }
            has_room
        });
        u32::try_from(copied.count()).unwrap()
    }

    #[test]
    fn much_is_copied_at_first_and_little_after_that() {
        let mut budget = StackBudget::default();
        let first = copied(&mut budget, 1_000_000, 10);
        assert!((100..=110).contains(&first), "{first}");
        for second in 1_000_001..1_000_600 {
            let next = copied(&mut budget, second, 10);
            assert!((8..=11).contains(&next), "{next}");
        }
        // All of it has come back after ten seconds, and no more after an hour.
        let later = copied(&mut budget, 1_004_200, 10);
        assert!((100..=110).contains(&later), "{later}");
    }

    #[test]
    fn small_stacks_count_as_larger_ones_so_that_they_are_few() {
        let mut budget = StackBudget::default();
        let most = (RATE.burst + RATE.per_second) / MIN_STACK_PAGES + 1;
        let first = copied(&mut budget, 1_000_000, 0);
        assert!((most * 8 / 10..=most).contains(&first), "{first} of {most}");
    }

    #[test]
    fn a_clock_that_is_behind_does_no_harm() {
        let mut budget = StackBudget::default();
        assert!(budget.has_room(10 * SECOND_NS, RATE));
        budget.spend(2000);
        assert!(!budget.has_room(9 * SECOND_NS, RATE));
        assert!(!budget.has_room(10 * SECOND_NS, RATE));
        assert!(budget.has_room(u64::MAX, RATE));
    }
}
