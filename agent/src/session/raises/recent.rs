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
}

impl Gaps {
    /// Takes the gaps of a block into account.
    pub(super) fn add(&mut self, gaps: RunGaps) {
        self.count = self.count * REMEMBERED + gaps.count as f64;
        self.ns = self.ns * REMEMBERED + gaps.ns as f64;
    }

    /// CPU time from a run to the next one, in nanoseconds, where there were enough.
    pub(super) fn mean_ns(&self) -> Option<f64> {
        (self.count >= MIN_GAPS && self.ns > 0.0).then_some(self.ns / self.count)
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
