//! How many exceptions were raised, where one window of each block was recorded.
//!
//! The probe slows programs down, so that one which computes raises fewer exceptions while they are recorded than
//! otherwise; one that waits for requests raises as many. In both there are as many for each second of CPU time of
//! their own, without what the probe costs. On a busy machine they have it in bursts, of which some blocks have their
//! window in one and others beside it: so it is of many blocks together.
//!
//! Where recording takes most of the CPU time, that time of their own is a small difference of large numbers, neither
//! of which is known well. There it is known from how long it is from one run to the next while the probe is attached
//! and does not record: that differs from the time without it by the breakpoint alone.
//!
//! Where recording ends within a block, that part of it has as many exceptions as its length, and the windows before,
//! let expect.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "estimates: counts and nanoseconds of a capture are below 2^53, and casts of floats saturate"
)]

use super::{
    estimate::Uncertainty,
    recent::{Gaps, Present, REMEMBERED},
    schedule::{CACHES_NS, WINDOW_NS, windows_in},
};
use crate::bpf::RaiseCounts;

/// How far what the probe costs may be from the truth, as a share of it: on a machine that others use too, the same
/// breakpoint takes 0.8 to 1.5 us at different times.
const UNCERTAIN: f64 = 0.2;

/// By how much a run of the probe that does not record slows a program down, in times of what it costs one that does
/// little: 1 to 1.4 by measurement, since the kernel displaces what the program has in the processor's caches.
const POLLUTION: f64 = 1.2;

/// The cost in a window, in parts of its CPU time, from which what is left of that is too little to be known from it.
const MOST_COST: f64 = 1.0 / 3.0;

/// By how much the probe may slow programs down at most, as far as estimates take it into account.
const MAX_SLOWDOWN: u64 = 20;

/// By how much the weight of a block differs at most from what its length and the cost of the probe say.
const MAX_UNEXPLAINED: f64 = 2.0;

/// What the window of a block has shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Windows of the block, or of the part of it that has passed.
    pub(super) windows: f64,
    /// Exceptions that were recorded.
    pub(super) raises: u64,
    /// The window, or what was seen of it: the agent may be late.
    pub(super) window: Elapsed,
    /// What the probe did in that.
    pub(super) work: RaiseCounts,
    /// The rest of the block, or of what was seen of it: where detaching the probe takes long, more than that.
    pub(super) other: Elapsed,
    /// What the probe did there, while it was attached before the window and after it.
    pub(super) outside: RaiseCounts,
}

/// A time that has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Elapsed {
    /// Its length in nanoseconds.
    pub(super) ns: u64,
    /// CPU time of the programs meanwhile, with what the probe has cost, in nanoseconds.
    pub(super) cpu_ns: u64,
}

impl Elapsed {
    /// With another time.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            ns: self.ns + other.ns,
            cpu_ns: self.cpu_ns + other.cpu_ns,
        }
    }
}

/// CPU time of the programs' own in a window.
struct OwnTime {
    /// In nanoseconds.
    ns: f64,
    /// What the probe has cost of which this depends, in nanoseconds.
    cost_ns: f64,
    /// Its standard deviation by when it was measured, in nanoseconds.
    spread_ns: f64,
}

/// Estimates how many exceptions were raised in blocks of which one window was recorded.
#[derive(Debug, Default)]
pub(super) struct Estimator {
    /// What a run of the probe costs that does not record, in nanoseconds.
    idle_run_ns: f64,
    /// From one run of the probe to the next, without recording and with it.
    idle: Gaps,
    recorded: Gaps,
    /// CPU time of the programs' own outside of the windows, of the last blocks.
    other_ns: f64,
    /// What it would be if the rest were as the windows: without what the probe costs, and with it.
    least_ns: f64,
    most_ns: f64,
    /// Exceptions that were raised and are not in the samples, or the other way about.
    owed: f64,
    /// Exceptions in the last windows.
    present: Present,
}

impl Estimator {
    /// Where a run of the probe that does not record costs that.
    pub(super) fn new(idle_run_ns: u64) -> Self {
        Self {
            idle_run_ns: idle_run_ns as f64,
            ..Self::default()
        }
    }

    /// Takes into account that so many exceptions were recorded in `ns` nanoseconds, which are all of them.
    pub(super) fn note_present(&mut self, raises: u64, ns: u64) {
        self.present.add(raises as f64 / windows_in(ns.max(1)));
    }

    /// Takes into account what the probe did in a time in which all exceptions were recorded, and in one right after
    /// that in which none was.
    pub(super) fn note_all(&mut self, recorded: RaiseCounts, idle: RaiseCounts) {
        self.recorded.add(recorded.recorded);
        self.owed += idle.runs as f64 * recorded.raises as f64 / recorded.runs.max(1) as f64;
        self.note_idle(idle);
    }

    /// Takes into account what the probe did in a time before a window, in which nothing was recorded.
    pub(super) fn note_idle(&mut self, idle: RaiseCounts) {
        self.idle.add(idle.idle);
    }

    /// Takes the part of a block of so many windows into account that has `passed` when its window was not recorded to
    /// the end; so many exceptions were recorded.
    pub(super) fn add_unseen(&mut self, windows: u64, passed: f64, recorded: u64) -> Uncertainty {
        let times = self.ratio(1.0 + passed);
        let raises = self.present.mean() * times;
        self.owed += raises - self.weight(windows) * recorded as f64;
        let own_ns = self.own_run_ns().unwrap_or(self.idle_run_ns).max(1.0);
        let slowdown = (self.idle_run_ns / own_ns).min(MAX_SLOWDOWN as f64);
        Uncertainty {
            variance: times.powi(2) * self.present.spread(),
            systematic: UNCERTAIN * slowdown * raises,
        }
    }

    /// By how many exceptions those differ that were raised from those in the samples.
    pub(super) fn owed(&self) -> i64 {
        self.owed as i64
    }

    /// The weight of exceptions in the window of a block of so many windows.
    pub(super) fn weight(&self, windows: u64) -> f64 {
        let weight = 1.0 + self.ratio(windows as f64);
        let expected = self.present.mean();
        if expected < 1.0 {
            return weight;
        }
        (weight + self.owed / expected).clamp(weight / 2.0, weight * 2.0)
    }

    /// How much time of their own programs have outside of the window of a block, in times of that in it.
    fn ratio(&self, windows: f64) -> f64 {
        let others = (windows - 1.0).max(0.0);
        if self.least_ns > 0.0 {
            let least_ns = self.least_ns / MAX_UNEXPLAINED;
            let most_ns = self.most_ns * MAX_UNEXPLAINED;
            return others * self.other_ns.clamp(least_ns, most_ns) / self.least_ns;
        }
        // Where nothing is known of windows: as if programs had as much CPU time as while all was recorded.
        others * self.slowdown().unwrap_or(1.0)
    }

    /// CPU time from a run of the probe to the next one if it was not attached, in nanoseconds, where it has run often
    /// enough without recording.
    fn own_run_ns(&self) -> Option<f64> {
        let run_ns = self.idle.mean_ns()?;
        let own_ns = run_ns - POLLUTION * self.idle_run_ns;
        Some(own_ns.max(run_ns / MAX_SLOWDOWN as f64))
    }

    /// How many times as long as usual it takes programs from one run to the next while exceptions are recorded.
    fn slowdown(&self) -> Option<f64> {
        let slowdown = self.recorded.mean_ns()? / self.own_run_ns()?;
        Some(slowdown.clamp(1.0, MAX_SLOWDOWN as f64))
    }

    /// By how much the CPU time from a run of the probe to the next one differs between blocks, in nanoseconds: it is
    /// measured for a short time of each, and processors that others use too are twice as fast at some times as at
    /// others. One block alone does not tell.
    fn spread_of_runs_ns(&self) -> f64 {
        let of_one = || UNCERTAIN * self.idle.mean_ns().unwrap_or(0.0);
        self.idle.spread_ns().unwrap_or_else(of_one)
    }

    /// CPU time of the programs' own in a window, in nanoseconds.
    ///
    /// What recording costs their caches is known least: up to [`CACHES_NS`], and as much as idle runs say.
    fn own_ns(&self, seen: &Seen) -> OwnTime {
        let cpu_ns = seen.window.cpu_ns as f64;
        let least = cpu_ns / MAX_SLOWDOWN as f64;
        let (cost, caches_ns) = self.cost_ns(seen.work);
        let Some(run_ns) = self.own_run_ns() else {
            let cost = cost + caches_ns;
            return OwnTime {
                ns: (cpu_ns - cost).max(least),
                cost_ns: cost,
                spread_ns: 0.0,
            };
        };
        let by_runs = run_ns * seen.work.runs as f64;
        if cost + caches_ns > cpu_ns * MOST_COST {
            let runs = seen.work.runs as f64;
            return OwnTime {
                ns: by_runs.clamp(least, cpu_ns),
                cost_ns: self.idle_run_ns * runs,
                spread_ns: self.spread_of_runs_ns() * runs,
            };
        }
        let most = cpu_ns - cost;
        OwnTime {
            ns: by_runs.clamp(most - caches_ns, most),
            cost_ns: cost + caches_ns,
            spread_ns: 0.0,
        }
    }

    /// What the work of the probe has cost, as measured, and what it may have cost by the caches, in nanoseconds.
    fn cost_ns(&self, work: RaiseCounts) -> (f64, f64) {
        let measured = work.ns as f64 + work.runs as f64 * self.idle_run_ns;
        (measured, work.raises as f64 * CACHES_NS as f64)
    }

    /// Compares a window, in which programs had this CPU time of their own, with the rest of its block.
    fn compare(&mut self, seen: &Seen, own_ns: f64) {
        let (cost, caches_ns) = self.cost_ns(seen.outside);
        let other_ns = (seen.other.cpu_ns as f64 - cost - caches_ns).max(0.0);
        let windows = seen.other.ns as f64 / seen.window.ns.max(1) as f64;
        let cpu_ns = seen.window.cpu_ns as f64;
        // As much is forgotten as is learned.
        let learned = (cpu_ns / WINDOW_NS as f64).min(1.0);
        let remembered = 1.0 - (1.0 - REMEMBERED) * learned;
        self.other_ns = self.other_ns * remembered + other_ns;
        self.least_ns = self.least_ns * remembered + windows * own_ns;
        // They may have run for less than what the probe is said to cost.
        self.most_ns = self.most_ns * remembered + windows * cpu_ns.max(own_ns);
    }

    /// Takes a block into account, or the part of it until recording ended, whose exceptions had this weight.
    pub(super) fn add(&mut self, seen: &Seen, weight: f64) -> Uncertainty {
        let raises = seen.raises as f64;
        self.recorded.add(seen.work.recorded);
        let (mut slowdown, mut spread) = (0.0, 0.0);
        if seen.window.ns > WINDOW_NS / 2 {
            let own = self.own_ns(seen);
            self.compare(seen, own.ns);
            slowdown = (own.cost_ns / own.ns.max(1.0)).min(MAX_SLOWDOWN as f64);
            spread = (own.spread_ns / own.ns.max(1.0)).min(MAX_SLOWDOWN as f64);
        }
        let ratio = self.ratio(seen.windows);
        self.owed += raises * (1.0 + ratio) - raises * weight;
        // The window of a block and the others of it are as different as those of two blocks.
        Uncertainty {
            variance: ratio * (ratio + 1.0) * self.present.add(raises)
                + (spread * raises * ratio).powi(2),
            systematic: UNCERTAIN * slowdown * raises * ratio,
        }
    }
}

#[cfg(test)]
mod tests;
