//! Taking some of many events, each with the same chance as all others of its time.

/// Which of the events of a source are taken: all of them, while there are few.
///
/// Whether an event is taken is decided before anything is known about it, by a number that is drawn, and what is
/// taken has the [weight](Self::weight) that was in force then: estimates of it are not biased, however the rate
/// changes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thinning {
    /// When the window began in which events are counted, in nanoseconds of the monotonic clock.
    began_ns: u64,
    /// Events that were taken in it.
    count: u32,
    /// One of two to the power of so many is taken.
    doublings: u32,
}

/// Length of a window in nanoseconds.
pub const WINDOW_NS: u64 = 250_000_000;

/// One of 32,768 is taken at least.
const MAX_DOUBLINGS: u32 = 15;

impl Thinning {
    /// All events are taken.
    pub const ALL: Self = Self {
        began_ns: 0,
        count: 0,
        doublings: 0,
    };

    /// For how many events one that is taken stands.
    #[inline(always)]
    #[must_use]
    pub fn weight(&self) -> u32 {
        // The mask for the compiler, which knows no bound.
        1 << (self.doublings & 31)
    }

    /// Whether an event is taken for which this number was drawn.
    #[inline(always)]
    #[must_use]
    pub fn takes(&self, drawn: u32) -> bool {
        drawn & self.weight().wrapping_sub(1) == 0
    }

    /// Counts an event that was taken: after `most` of them in a window the weight is doubled, and it is halved where
    /// windows have passed with less than a quarter.
    #[inline(always)]
    pub fn count(&mut self, now_ns: u64, most: u32) {
        let windows = now_ns.wrapping_sub(self.began_ns) / WINDOW_NS;
        self.count = self.count.wrapping_add(1);
        if windows != 0 {
            if self.count < most / 4 {
                let halvings = if windows < u64::from(MAX_DOUBLINGS) {
                    windows as u32
                } else {
                    MAX_DOUBLINGS
                };
                self.doublings = self.doublings.saturating_sub(halvings);
            }
        } else if self.count >= most {
            if self.doublings < MAX_DOUBLINGS {
                self.doublings = self.doublings.wrapping_add(1);
            }
        } else {
            return;
        }
        self.began_ns = now_ns;
        self.count = 0;
    }
}

/// Draws the next number from a generator, whose state may begin with any number. Both halves of it are as good as drawn.
#[inline(always)]
#[must_use]
pub fn draw(state: &mut u64) -> u32 {
    // Of Knuth's MMIX, whose lower bits repeat soon.
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events that are taken in a second, and their weights together, of so many at equal distances.
    fn taken(thinning: &mut Thinning, start_ns: u64, events: u64) -> (u64, u64) {
        let (mut count, mut weight) = (0, 0);
        let mut state = start_ns ^ events;
        for event in 0..events {
            if thinning.takes(draw(&mut state)) {
                count += 1;
                weight += u64::from(thinning.weight());
                thinning.count(start_ns + event * 1_000_000_000 / events, 64);
            }
        }
        (count, weight)
    }

    #[test]
    fn all_are_taken_while_there_are_few() {
        let mut thinning = Thinning::ALL;
        assert_eq!(taken(&mut thinning, 1 << 40, 200), (200, 200));
    }

    #[test]
    fn of_many_some_are_taken_that_stand_for_all() {
        let mut thinning = Thinning::ALL;
        let start = 1 << 40;
        taken(&mut thinning, start, 100_000);
        let (count, weight) = taken(&mut thinning, start + 1_000_000_000, 100_000);
        assert!((60..=512).contains(&count), "{count}");
        assert!((80_000..=120_000).contains(&weight), "{weight}");
        // Soon after there are few again, all of them are taken.
        for second in 2..20 {
            taken(&mut thinning, start + second * 1_000_000_000, 100);
        }
        let last = taken(&mut thinning, start + 20_000_000_000, 100);
        assert_eq!(last, (100, 100));
    }

    #[test]
    fn the_weight_is_bounded() {
        let mut thinning = Thinning::ALL;
        for _ in 0..10_000_000 {
            thinning.count(1, 1);
        }
        assert_eq!(thinning.weight(), 1 << MAX_DOUBLINGS);
    }
}
