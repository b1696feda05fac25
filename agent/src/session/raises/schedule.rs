//! When exceptions are recorded, so that this costs no more than a share of a processor.
//!
//! As long as it costs less they are all recorded. Otherwise time is divided into blocks without gaps; in one window of
//! each, at a random place of it, exceptions are recorded, and stand for those of the whole block: an estimate without
//! bias. Where the agent misses a window, the block has a later one, and is as much longer.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates: counts and nanoseconds of a capture are below 2^53, and casts of floats saturate"
)]

use std::ops::Range;

use agent_common::maps::{RaiseWindow, WEIGHT_UNIT};

use crate::bpf::RaiseCounts;

/// Length of a window, in nanoseconds.
pub(super) const WINDOW_NS: u64 = 20_000_000;

/// For how long before the end of a window what comes next is decided, in nanoseconds.
const DECIDED_NS: u64 = 5_000_000;

/// Most time of the probe, as a share of one processor's.
const BUDGET: f64 = 0.025;

/// Most time that may be spent at once, in nanoseconds.
const MAX_CREDIT_NS: f64 = 100_000_000.0;

/// The share of [`BUDGET`] below which all exceptions are recorded again.
const LOW: f64 = 0.5;

/// What a run of the probe costs the program besides the time that the probe measures, in nanoseconds: the breakpoint.
/// For the budget; estimates have what was measured.
pub(super) const BREAKPOINT_NS: u64 = 1_000;

/// What recording an exception costs the program afterwards, in nanoseconds: its caches hold what the probe has read.
pub(super) const CACHES_NS: u64 = 3_000;

/// How much of the windows before a window counts in what the probe costs at present.
const SPENT_BEFORE: f64 = 0.7;

/// Most windows of a block, besides those that were missed.
const MAX_WINDOWS: u64 = 400;

/// How many windows a time has.
pub(super) fn windows_in(ns: u64) -> f64 {
    ns as f64 / WINDOW_NS as f64
}

/// What the work of the probe has cost the programs, in nanoseconds.
pub(super) fn cost_ns(work: RaiseCounts) -> u64 {
    let breakpoints_ns = work.runs.saturating_mul(BREAKPOINT_NS);
    let caches_ns = work.raises.saturating_mul(CACHES_NS);
    work.ns
        .saturating_add(breakpoints_ns)
        .saturating_add(caches_ns)
}

/// What the probe costs while it records, of the last windows: in one alone a program may have waited that raises
/// exceptions all the time else.
#[derive(Debug, Default)]
pub(super) struct Spending {
    cost_ns: f64,
    ns: f64,
}

impl Spending {
    /// What it costs where it did so much in `ns` nanoseconds, and nothing is known of the time before.
    pub(super) fn of(work: RaiseCounts, ns: u64) -> Self {
        let mut spending = Self::default();
        spending.add(work, ns);
        spending
    }

    /// Takes into account what the probe did while it recorded for `ns` nanoseconds.
    pub(super) fn add(&mut self, work: RaiseCounts, ns: u64) {
        self.cost_ns = self.cost_ns * SPENT_BEFORE + cost_ns(work) as f64;
        self.ns = self.ns * SPENT_BEFORE + ns as f64;
    }

    /// The cost as a multiple of the budget.
    fn budgets(&self) -> f64 {
        self.cost_ns / (self.ns.max(1.0) * BUDGET)
    }

    /// Whether all exceptions can be recorded again.
    pub(super) fn is_little(&self) -> bool {
        self.budgets() < LOW
    }
}

/// What is recorded at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// All exceptions, since then.
    All {
        /// In nanoseconds of the monotonic clock.
        since_ns: u64,
    },
    /// Those in one window of a block.
    Block(Block),
}

/// A block of windows, of which one is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The recorded window, in nanoseconds of the monotonic clock.
    pub(super) window_ns: Range<u64>,
    /// The end of the block.
    pub(super) end_ns: u64,
    /// How many windows it has.
    pub(super) windows: u64,
}

impl Block {
    /// One that begins at a time, if recording costs that; `random` gives a number below another one.
    pub(super) fn new(start_ns: u64, spending: &Spending, random: impl FnOnce(u64) -> u64) -> Self {
        Self::after(start_ns, 0, spending, random)
    }

    /// The same from its begin, with a window that does not begin before a time.
    pub(super) fn moved(
        &self,
        earliest_ns: u64,
        spending: &Spending,
        random: impl FnOnce(u64) -> u64,
    ) -> Self {
        let start_ns = self.start_ns();
        let missed = earliest_ns.saturating_sub(start_ns).div_ceil(WINDOW_NS);
        Self::after(start_ns, missed, spending, random)
    }

    /// A block whose first windows are not recorded.
    fn after(
        start_ns: u64,
        missed: u64,
        spending: &Spending,
        random: impl FnOnce(u64) -> u64,
    ) -> Self {
        let windows = (spending.budgets().ceil() as u64).clamp(1, MAX_WINDOWS);
        let window_start_ns = start_ns + (missed + random(windows)) * WINDOW_NS;
        Self {
            window_ns: window_start_ns..window_start_ns + WINDOW_NS,
            end_ns: start_ns + (missed + windows) * WINDOW_NS,
            windows: missed + windows,
        }
    }

    /// When exceptions are recorded, each with this weight.
    pub(super) fn window(&self, weight: f64) -> RaiseWindow {
        RaiseWindow {
            start_ns: self.window_ns.start,
            end_ns: self.window_ns.end,
            weight: (weight * WEIGHT_UNIT as f64) as u64,
        }
    }

    fn start_ns(&self) -> u64 {
        self.end_ns - self.windows * WINDOW_NS
    }

    /// How much of it has passed at a time, in nanoseconds.
    pub(super) fn passed_ns(&self, now_ns: u64) -> u64 {
        now_ns.min(self.end_ns).saturating_sub(self.start_ns())
    }

    /// How much of its window has passed at a time, in nanoseconds.
    pub(super) fn recorded_ns(&self, now_ns: u64) -> u64 {
        now_ns.clamp(self.window_ns.start, self.window_ns.end) - self.window_ns.start
    }

    /// When what follows is to be decided.
    pub(super) fn decision_ns(&self) -> u64 {
        self.window_ns.end - DECIDED_NS
    }
}

impl Phase {
    /// When it begins to have exceptions recorded, in nanoseconds of the monotonic clock.
    pub(super) fn start_ns(&self) -> u64 {
        match self {
            Self::All { since_ns } => *since_ns,
            Self::Block(block) => block.window_ns.start,
        }
    }

    /// When it has exceptions recorded, each with this weight.
    pub(super) fn window(&self, weight: f64) -> RaiseWindow {
        match self {
            Self::All { since_ns } => RaiseWindow {
                start_ns: *since_ns,
                end_ns: u64::MAX,
                weight: WEIGHT_UNIT,
            },
            Self::Block(block) => block.window(weight),
        }
    }
}

/// What may be spent at once while all exceptions are recorded, so that short bursts are.
#[derive(Debug)]
pub(super) struct Credit {
    ns: f64,
}

impl Default for Credit {
    fn default() -> Self {
        Self { ns: MAX_CREDIT_NS }
    }
}

impl Credit {
    /// Takes off what the last `ns` nanoseconds have cost; returns whether that was too much.
    pub(super) fn is_used_up(&mut self, work: RaiseCounts, ns: u64) -> bool {
        self.ns += ns as f64 * BUDGET - cost_ns(work) as f64;
        let is_used_up = self.ns < 0.0;
        self.ns = self.ns.clamp(0.0, MAX_CREDIT_NS);
        is_used_up
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// So many exceptions, each of which costs 10 us.
    pub(in super::super) fn work(raises: u64) -> RaiseCounts {
        RaiseCounts {
            runs: 2 * raises,
            raises,
            ns: raises.saturating_mul(5_000),
            ..RaiseCounts::default()
        }
    }

    /// So many exceptions in so many nanoseconds.
    fn spending(raises: u64, ns: u64) -> Spending {
        Spending::of(work(raises), ns)
    }

    #[test]
    fn the_window_of_a_block_bounds_the_cost() {
        let ns = 1_000_000_000;
        let mut credit = Credit::default();
        assert!(!credit.is_used_up(work(12_000), ns));
        assert!(!credit.is_used_up(work(2_500), ns));
        assert!(credit.is_used_up(work(50_000), ns));
        assert!(spending(1_000, ns).is_little());
        let block = Block::new(0, &spending(50_000, ns), |_| 0);
        // 50,000 * 10 us are half of a processor.
        assert_eq!(block.windows, 20);
        assert_eq!(block.end_ns, 20 * WINDOW_NS);
        assert_eq!(block.window_ns, 0..WINDOW_NS);
        let last = Block::new(block.end_ns, &spending(50_000, ns), |windows| windows - 1);
        assert_eq!(last.window_ns.end, last.end_ns);
        // Its window was missed: another one stands for all of that time too.
        let moved = last.moved(
            block.end_ns + 21 * WINDOW_NS - 1,
            &spending(50_000, ns),
            |_| 0,
        );
        assert_eq!(moved.window_ns.start, block.end_ns + 21 * WINDOW_NS);
        assert_eq!(moved.windows, 41);
        assert_eq!(moved.end_ns, block.end_ns + 41 * WINDOW_NS);
        // It begins where the first one did.
        let now_ns = moved.window_ns.start + 7;
        assert_eq!(moved.passed_ns(now_ns), 21 * WINDOW_NS + 7);
        assert_eq!(moved.passed_ns(u64::MAX), 41 * WINDOW_NS);
        assert_eq!(moved.recorded_ns(0), 0);
        assert_eq!(moved.recorded_ns(now_ns), 7);
        assert_eq!(moved.recorded_ns(u64::MAX), WINDOW_NS);
        let most = Block::new(0, &spending(u64::MAX / 20_000, 1), |_| 0);
        assert_eq!(most.windows, MAX_WINDOWS);
    }

    #[test]
    fn a_window_in_which_a_program_waits_does_not_mean_that_all_is_recorded() {
        let mut spending = spending(1_000, WINDOW_NS);
        let windows = |spending: &Spending| Block::new(0, spending, |_| 0).windows;
        assert_eq!(windows(&spending), 20);
        spending.add(work(0), WINDOW_NS);
        assert!(!spending.is_little());
        assert_eq!(windows(&spending), 9);
        for _ in 0..10 {
            spending.add(work(0), WINDOW_NS);
        }
        assert!(spending.is_little());
    }

    #[test]
    fn windows_of_a_block_are_as_likely_as_each_other() {
        // One exception in each millisecond, for times that are no multiple of a block.
        const ROUNDS: u64 = 4_000;
        const LENGTH_NS: u64 = 7 * WINDOW_NS + WINDOW_NS / 3;
        let mut total = 0.0;
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..ROUNDS {
            let mut start_ns = 0;
            while start_ns < LENGTH_NS {
                let spending = spending(random.u64(10_000..30_000), 1_000_000_000);
                let block = Block::new(start_ns, &spending, |below| random.u64(..below));
                let window = &block.window_ns;
                let recorded = window.end.min(LENGTH_NS).saturating_sub(window.start);
                total += (recorded * block.windows) as f64;
                start_ns = block.end_ns;
            }
        }
        let mean = total / (ROUNDS * LENGTH_NS) as f64;
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
    }
}
