//! When exceptions are recorded, so that this costs no more than a share of a processor.
//!
//! As long as it costs less they are all recorded. Otherwise time is divided into blocks without gaps; in one window of
//! each, at a random place of it, exceptions are recorded, and stand for those of the whole block: an estimate without
//! bias, wherever the recording ends.

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
/// For the budget; estimates have what was [measured](Estimator::new).
pub(super) const BREAKPOINT_NS: u64 = 1_000;

/// What recording an exception costs the program afterwards, in nanoseconds: its caches hold what the probe has read.
const CACHES_NS: u64 = 3_000;

/// How far these two may be from the truth, as a share of the whole cost.
const UNCERTAIN: f64 = 0.15;

/// Runs of the probe without recording from which the time of a run without the probe is known.
const MIN_IDLE_RUNS: f64 = 200.0;

/// The cost in a window, in parts of its CPU time, from which what is left of that is too little to be known from it.
const MOST_COST: f64 = 1.0 / 3.0;

/// By how much the probe may slow programs down at most, as far as estimates take it into account.
const MAX_SLOWDOWN: u64 = 20;

/// How much of the blocks before a block counts in estimates.
const REMEMBERED: f64 = 0.9;

/// How much of the windows before a window counts in what the probe costs at present.
const SPENT_BEFORE: f64 = 0.7;

/// Most windows of a block.
const MAX_WINDOWS: u64 = 400;

/// What the work of the probe has cost the programs, in nanoseconds.
fn cost_ns(work: RaiseCounts) -> u64 {
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
        let windows = (spending.budgets().ceil() as u64).clamp(1, MAX_WINDOWS);
        let window_start_ns = start_ns + random(windows) * WINDOW_NS;
        Self {
            window_ns: window_start_ns..window_start_ns + WINDOW_NS,
            end_ns: start_ns + windows * WINDOW_NS,
            windows,
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

/// What the window of a block has shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Windows of the block.
    pub(super) windows: u64,
    /// What the probe did in the window.
    pub(super) work: RaiseCounts,
    /// CPU time of the programs in the window, with what the probe has cost, in nanoseconds.
    pub(super) window_cpu_ns: u64,
    /// Their CPU time in the rest of the block, with what the probe has cost there.
    pub(super) other_cpu_ns: u64,
    /// What the probe did there, while it was attached before the window and after it.
    pub(super) outside: RaiseCounts,
}

/// What programs did while the probe was attached and recorded nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    /// Runs of the probe.
    pub(super) runs: u64,
    /// CPU time of the programs, with what the probe has cost, in nanoseconds.
    pub(super) cpu_ns: u64,
}

/// Estimates how many exceptions were raised in blocks of which one window was recorded.
///
/// The probe slows programs down, so that one which computes raises fewer exceptions while they are recorded than
/// otherwise; one that waits for requests raises as many. In both there are as many for each second of CPU time of
/// their own, without what the probe costs.
///
/// Where recording takes most of the CPU time, that time of their own is a small difference of large numbers, neither
/// of which is known well. There it is known from how long a run takes while the probe is attached and does not
/// record: that differs from the time without it by the breakpoint alone.
#[derive(Debug, Default)]
pub(super) struct Estimator {
    /// What a run of the probe costs that does not record, in nanoseconds.
    idle_run_ns: f64,
    /// Runs of the probe without recording, of the last blocks, and the CPU time meanwhile.
    idle_runs: f64,
    idle_cpu_ns: f64,
    /// CPU time for each run while all exceptions were recorded, in nanoseconds; 0 where there was none.
    recorded_run_ns: f64,
    /// CPU time of the programs outside of the windows, of the last blocks.
    other_ns: f64,
    /// What it would be if the windows were as the rest, but for what the probe costs.
    expected_ns: f64,
    /// Exceptions that were raised and are not in the samples, or the other way about.
    owed: f64,
    /// Exceptions in the last window.
    last: Option<f64>,
}

impl Estimator {
    /// Where a run of the probe that does not record costs that.
    pub(super) fn new(idle_run_ns: u64) -> Self {
        Self {
            idle_run_ns: idle_run_ns as f64,
            ..Self::default()
        }
    }

    /// Takes into account that all exceptions were recorded, in so much CPU time of the programs, and none right
    /// after that.
    pub(super) fn note_all(&mut self, work: RaiseCounts, cpu_ns: u64, idle: Idle) {
        let runs = work.runs.max(1) as f64;
        self.recorded_run_ns = cpu_ns as f64 / runs;
        let raises_per_run = work.raises as f64 / runs;
        self.owed += idle.runs as f64 * raises_per_run;
        let in_window = WINDOW_NS as f64 / self.recorded_run_ns.max(1.0) * raises_per_run;
        self.last.get_or_insert(in_window);
        self.note_idle(idle);
    }

    /// Takes into account what programs did before a window.
    pub(super) fn note_idle(&mut self, idle: Idle) {
        self.idle_runs = self.idle_runs * REMEMBERED + idle.runs as f64;
        self.idle_cpu_ns = self.idle_cpu_ns * REMEMBERED + idle.cpu_ns as f64;
    }

    /// The variance that is added by a block of which only a share has passed, with its window or without it: what is
    /// counted for it is all of it or nothing.
    pub(super) fn variance_of_part(&self, windows: u64, share: f64) -> u64 {
        let raises = self.last.unwrap_or(0.0) * (1.0 + self.ratio(windows));
        (raises.powi(2) * share * (1.0 - share)) as u64
    }

    /// The weight of exceptions in the window of a block of so many windows.
    pub(super) fn weight(&self, windows: u64) -> f64 {
        let weight = 1.0 + self.ratio(windows);
        let expected = self.last.unwrap_or(0.0);
        if expected < 1.0 {
            return weight;
        }
        (weight + self.owed / expected).clamp(weight / 2.0, weight * 2.0)
    }

    /// How much time of their own programs have outside of the window of a block, in times of that in it.
    fn ratio(&self, windows: u64) -> f64 {
        let others = windows.saturating_sub(1) as f64;
        if self.expected_ns > 0.0 {
            return others * self.other_ns / self.expected_ns;
        }
        // Where nothing is known of windows: as if programs had as much CPU time as while all was recorded.
        match self.own_run_ns() {
            Some(own_ns) if self.recorded_run_ns > 0.0 => {
                others * (self.recorded_run_ns / own_ns).clamp(1.0, MAX_SLOWDOWN as f64)
            }
            _ => others,
        }
    }

    /// CPU time from a run of the probe to the next one if it was not attached, in nanoseconds, where it has run often
    /// enough without recording.
    fn own_run_ns(&self) -> Option<f64> {
        let run_ns = self.idle_cpu_ns / self.idle_runs.max(1.0);
        let own_ns = (run_ns - self.idle_run_ns).max(run_ns / MAX_SLOWDOWN as f64);
        (self.idle_runs >= MIN_IDLE_RUNS).then_some(own_ns)
    }

    /// CPU time of the programs' own in a window, in nanoseconds, and the uncertain part of that.
    fn own_ns(&self, seen: &Seen) -> (f64, f64) {
        let cpu_ns = seen.window_cpu_ns as f64;
        let cost = cost_ns(seen.work) as f64;
        let least = cpu_ns / MAX_SLOWDOWN as f64;
        if cost > cpu_ns * MOST_COST
            && let Some(run_ns) = self.own_run_ns()
        {
            let own_ns = (run_ns * seen.work.runs as f64).clamp(least, cpu_ns);
            return (own_ns, own_ns * self.idle_run_ns / run_ns);
        }
        ((cpu_ns - cost).max(least), cost)
    }

    /// Takes a block into account that has ended, whose exceptions had this weight; returns the variance that it adds.
    pub(super) fn add(&mut self, seen: &Seen, weight: f64) -> u64 {
        let raises = seen.work.raises as f64;
        let others = seen.windows.saturating_sub(1) as f64;
        let (own_ns, uncertain_ns) = self.own_ns(seen);
        // Of one block alone it depends on when the programs happened to run.
        let outside_ns = seen.outside.ns as f64
            + seen.outside.runs as f64 * self.idle_run_ns
            + seen.outside.raises as f64 * CACHES_NS as f64;
        let other_ns = (seen.other_cpu_ns as f64 - outside_ns).max(0.0);
        self.other_ns = self.other_ns * REMEMBERED + other_ns;
        self.expected_ns = self.expected_ns * REMEMBERED + others * own_ns;
        let ratio = self.ratio(seen.windows);
        self.owed += raises * (1.0 + ratio) - raises * weight;
        // The window of a block and the others of it are as different as those of two blocks.
        let last = self.last.replace(raises).unwrap_or(raises);
        let spread = ((raises - last).powi(2) / 2.0).max(raises);
        let sampling = ratio * (ratio + 1.0) * spread;
        let slowdown = (uncertain_ns / own_ns.max(1.0)).min(MAX_SLOWDOWN as f64);
        let systematic = UNCERTAIN * slowdown * raises * ratio;
        (sampling + systematic.powi(2)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many exceptions, each of which costs 10 us.
    fn work(raises: u64) -> RaiseCounts {
        RaiseCounts {
            runs: 2 * raises,
            raises,
            ns: raises.saturating_mul(5_000),
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

    /// Blocks of a program that raises `rate` exceptions in a second of its own CPU time, which it has all the time or
    /// a tenth of it; returns how many there are in the samples, over those that were raised.
    fn recorded_share(rate: f64, is_busy: bool, blocks: u32) -> f64 {
        let windows = 20;
        let mut estimator = Estimator::new(BREAKPOINT_NS);
        let (mut recorded, mut total) = (0.0, 0.0);
        let window = WINDOW_NS as f64 / 1e9;
        for _ in 0..blocks {
            let own = if is_busy {
                window / (1.0 + rate * 10e-6)
            } else {
                window / 10.0
            };
            let raises = rate * own;
            let others = 19.0 * if is_busy { window } else { window / 10.0 };
            let weight = estimator.weight(windows);
            let seen = Seen {
                windows,
                work: work(raises as u64),
                window_cpu_ns: ((own + raises * 10e-6) * 1e9) as u64,
                // The probe was attached for some time before the window.
                other_cpu_ns: (others * 1e9) as u64 + cost_ns(work(2_000)),
                outside: work(2_000),
            };
            recorded += raises * weight;
            total += raises + rate * others;
            estimator.add(&seen, weight);
        }
        recorded / total
    }

    #[test]
    fn programs_that_the_probe_slows_down_have_their_usual_exceptions() {
        for (rate, is_busy) in [(1e5, true), (1e6, true), (1e5, false), (1e4, true)] {
            let share = recorded_share(rate, is_busy, 50);
            assert!((share - 1.0).abs() < 0.03, "{rate} {is_busy}: {share}");
        }
    }

    /// A program that does nothing but raise exceptions, two thousand nanoseconds for each, of which recording takes five
    /// times as much, and not what is assumed.
    #[test]
    fn what_recording_costs_does_not_matter_where_it_takes_most_of_the_time() {
        const OWN_NS: u64 = 2_000;
        const RECORDED_NS: u64 = 10_000;
        let windows = 40;
        let mut estimator = Estimator::new(900);
        let all = WINDOW_NS / RECORDED_NS;
        estimator.note_all(of_runs(all), WINDOW_NS, Idle::default());
        let (mut recorded, mut total) = (0.0, 0.0);
        for nth in 0..20 {
            let idle = Idle {
                runs: 1_000,
                cpu_ns: 1_000 * (OWN_NS + 900),
            };
            estimator.note_idle(idle);
            let weight = estimator.weight(windows);
            let seen = Seen {
                windows,
                work: of_runs(all),
                window_cpu_ns: WINDOW_NS,
                other_cpu_ns: (windows - 1) * WINDOW_NS,
                outside: RaiseCounts {
                    runs: 1_000,
                    ..RaiseCounts::default()
                },
            };
            recorded += all as f64 * weight;
            total += all as f64 + ((windows - 1) * WINDOW_NS / OWN_NS) as f64;
            // From the first window on.
            let share = recorded / total;
            assert!((share - 1.0).abs() < 0.03, "{nth}: {share}");
            let deviation = (estimator.add(&seen, weight) as f64).sqrt();
            assert!(deviation < 0.1 * total, "{nth}: {deviation} of {total}");
        }
    }

    /// Runs that each record an exception.
    fn of_runs(runs: u64) -> RaiseCounts {
        RaiseCounts {
            runs,
            raises: runs,
            ns: runs * 5_000,
        }
    }

    #[test]
    fn what_is_recorded_whole_has_no_error() {
        let seen = |raises, windows: u64| Seen {
            windows,
            work: RaiseCounts {
                raises,
                ..RaiseCounts::default()
            },
            window_cpu_ns: WINDOW_NS,
            other_cpu_ns: (windows - 1) * WINDOW_NS,
            outside: RaiseCounts::default(),
        };
        let mut estimator = Estimator::new(BREAKPOINT_NS);
        assert_eq!(estimator.add(&seen(100, 1), 1.0), 0);
        // Two more windows of about as many: as a Poisson process has it, and a little for what the probe costs.
        assert_eq!(estimator.add(&seen(100, 3), 3.0), 615);
        assert_eq!(estimator.add(&seen(200, 3), 3.0), 31_186);
    }
}
