//! What is sampled, in which way.

use std::time::Duration;

use super::super::agent::Stacks;
use super::super::budget;

/// A program that is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    /// The name of the workload.
    pub(super) workload: &'static str,
    pub(super) argument: Option<u32>,
    pub(super) what: &'static str,
    /// Whether its stacks are as deep as those that the budgets are made for.
    pub(super) has_usual_depth: bool,
}

/// Which agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// A capture of one process, `--pid`.
    Process,
    /// `agent run`, which includes only that process, so that no other sample is recorded.
    Host,
}

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) target: Target,
    pub(super) rate_hz: u32,
    pub(super) scope: Scope,
    pub(super) stacks: Stacks,
}

/// The case whose figures are known best.
pub(super) const W1: Target = Target {
    workload: "deep_single",
    argument: Some(31),
    what: "w1: one thread, 31 frames",
    has_usual_depth: true,
};

/// The other ones.
const OTHERS: [Target; 6] = [
    Target {
        workload: "threads",
        argument: None,
        what: "w2: 10 threads, 30 frames",
        has_usual_depth: true,
    },
    Target {
        workload: "new_code",
        argument: None,
        what: "new code in 10 % of the samples",
        has_usual_depth: true,
    },
    Target {
        workload: "mostly_native",
        argument: None,
        what: "threads that are mostly native",
        has_usual_depth: true,
    },
    Target {
        workload: "deep_single",
        argument: Some(300),
        what: "one thread, 300 frames",
        has_usual_depth: false,
    },
    Target {
        workload: "generators",
        argument: None,
        what: "a chain of 30 generators",
        has_usual_depth: true,
    },
    Target {
        workload: "coroutines",
        argument: None,
        what: "asyncio, 20 coroutines",
        has_usual_depth: true,
    },
];

/// The rates for [`W1`], and the one for the others.
const RATES_HZ: [u32; 3] = [19, 97, 997];
const USUAL_RATE_HZ: u32 = 97;

/// All cases by target, so that each target is started once.
pub(super) fn all() -> Vec<(Target, Vec<Case>)> {
    let mut all = Vec::new();
    let scopes = [Scope::Process, Scope::Host];
    let mut cases = Vec::new();
    for rate_hz in RATES_HZ {
        for scope in scopes {
            for stacks in [Stacks::Python, Stacks::Whole] {
                cases.push(Case {
                    target: W1,
                    rate_hz,
                    scope,
                    stacks,
                });
            }
        }
    }
    all.push((W1, cases));
    for target in OTHERS {
        let case = |scope| Case {
            target,
            rate_hz: USUAL_RATE_HZ,
            scope,
            stacks: Stacks::Whole,
        };
        all.push((target, scopes.map(case).into()));
    }
    all
}

impl Scope {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Process => "--pid",
            Self::Host => "host",
        }
    }
}

impl Case {
    /// Kernel time of a sample in microseconds.
    pub(super) fn budget_us(self) -> Option<f64> {
        let has_native = self.stacks == Stacks::Whole;
        let budget = budget::recorded_sample_us(self.rate_hz, has_native);
        self.target.has_usual_depth.then_some(budget)
    }

    /// How long to measure in a short run: long enough for a hundred samples where they are rare.
    pub(super) fn duration(self) -> Duration {
        let seconds = match self.rate_hz {
            ..50 => 12,
            50..500 => 5,
            _ => 2,
        };
        Duration::from_secs(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_takes_less_than_five_minutes() {
        let all = all();
        let cases = all.iter().flat_map(|(_, cases)| cases);
        // Each case has a start and a pause before it, each target a start.
        let pause = Duration::from_secs(3);
        let sum: Duration = cases.map(|case| case.duration() + pause).sum();
        let sum = sum + pause * u32::try_from(all.len()).unwrap();
        assert!(sum < Duration::from_secs(270), "{sum:?}");
    }

    #[test]
    fn every_way_is_measured_at_every_rate() {
        let (target, cases) = &all()[0];
        assert_eq!(*target, W1);
        assert_eq!(cases.len(), 12);
        let cold = cases.iter().find(|case| {
            case.rate_hz == 19 && case.scope == Scope::Host && case.stacks == Stacks::Whole
        });
        assert_eq!(cold.unwrap().budget_us(), Some(12.0));
        assert_eq!(all()[4].1[0].budget_us(), None);
    }
}
