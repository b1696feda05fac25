//! What the last blocks and windows were like: the longer one is ago, the less it counts.

#![expect(
    clippy::cast_precision_loss,
    reason = "estimates: counts and nanoseconds of a capture are below 2^53"
)]

use agent_common::maps::RunGaps;

/// Times between runs of the probe by which their mean is known.
const MIN_GAPS: f64 = 200.0;

/// How much of the blocks before a block counts in estimates, in whose window programs ran all the time.
pub(super) const REMEMBERED: f64 = 0.9;

/// How much of the windows before a window counts in how many exceptions one has at present.
const PRESENT: f64 = 0.7;

/// From one run of the probe to the next, of the last blocks.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    count: f64,
    ns: f64,
    /// Of the blocks that had at least [`MIN_GAPS`], each with what it counts: how many there were, the squares of what
    /// they count, the means of their gaps in nanoseconds, and the squares of these.
    blocks: f64,
    squares: f64,
    means_ns: f64,
    squared_means: f64,
}

impl Gaps {
    /// Takes the gaps of a block into account.
    pub(super) fn add(&mut self, gaps: RunGaps) {
        self.count = self.count * REMEMBERED + gaps.count as f64;
        self.ns = self.ns * REMEMBERED + gaps.ns as f64;
        for sum in [
            &mut self.blocks,
            &mut self.means_ns,
            &mut self.squared_means,
        ] {
            *sum *= REMEMBERED;
        }
        self.squares *= REMEMBERED.powi(2);
        if gaps.count as f64 >= MIN_GAPS {
            let mean_ns = gaps.ns as f64 / gaps.count as f64;
            self.blocks += 1.0;
            self.squares += 1.0;
            self.means_ns += mean_ns;
            self.squared_means += mean_ns.powi(2);
        }
    }

    /// CPU time from a run to the next one, in nanoseconds, where there were enough.
    pub(super) fn mean_ns(&self) -> Option<f64> {
        (self.count >= MIN_GAPS && self.ns > 0.0).then_some(self.ns / self.count)
    }

    /// The standard deviation of the means of blocks, in nanoseconds; [`None`] where too few of the last blocks had
    /// gaps.
    pub(super) fn spread_ns(&self) -> Option<f64> {
        // As many as count all the same.
        let equal = self.blocks.powi(2) / self.squares.max(1.0);
        let mean = self.means_ns / self.blocks.max(1.0);
        let variance = (self.squared_means / self.blocks.max(1.0) - mean.powi(2)).max(0.0);
        (equal > 1.5).then(|| (variance * equal / (equal - 1.0)).sqrt())
    }
}

/// How many exceptions the last windows had.
#[derive(Debug, Default)]
pub(super) struct Present {
    last: Option<f64>,
    /// Of the last windows, each of which counts the less the longer it is ago: how many there were, their exceptions,
    /// and their variances.
    windows: f64,
    raises: f64,
    spreads: f64,
}

impl Present {
    /// Takes a window into account; returns the variance that it shows, which is not less than that of events that
    /// are independent of each other.
    pub(super) fn add(&mut self, raises: f64) -> f64 {
        let last = self.last.replace(raises).unwrap_or(raises);
        let spread = ((raises - last).powi(2) / 2.0).max(raises);
        self.windows = self.windows * PRESENT + 1.0;
        self.raises = self.raises * PRESENT + raises;
        self.spreads = self.spreads * PRESENT + spread;
        spread
    }

    /// Exceptions of a window.
    pub(super) fn mean(&self) -> f64 {
        self.raises / self.windows.max(1.0)
    }

    /// Their variance.
    pub(super) fn spread(&self) -> f64 {
        self.spreads / self.windows.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(mean_ns: u64) -> RunGaps {
        RunGaps {
            count: 1_000,
            ns: 1_000 * mean_ns,
        }
    }

    #[test]
    fn the_spread_is_that_of_the_last_blocks() {
        let mut gaps = Gaps::default();
        gaps.add(block(3_000));
        assert_eq!(gaps.spread_ns(), None);
        gaps.add(block(3_000));
        assert!(gaps.spread_ns().unwrap() < 1.0);
        for _ in 0..100 {
            gaps.add(block(2_000));
            gaps.add(block(4_000));
        }
        let spread_ns = gaps.spread_ns().unwrap();
        assert!((spread_ns - 1_000.0).abs() < 50.0, "{spread_ns}");
        assert!((gaps.mean_ns().unwrap() - 3_000.0).abs() < 100.0);
        // Blocks in which programs hardly raised have none, and after many of them nothing is known any more.
        let few = RunGaps {
            count: 50,
            ns: 4_500_000,
        };
        gaps.add(few);
        assert!((gaps.spread_ns().unwrap() - spread_ns).abs() < 50.0);
        for _ in 0..40 {
            gaps.add(few);
        }
        assert_eq!(gaps.spread_ns(), None);
        assert!(gaps.mean_ns().is_some());
    }
}
