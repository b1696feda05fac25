//! Whether what was read is good.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;

use super::RATE_HZ;
use super::churn::Churn;
use super::reading::{Profiles, Quantity, Reading};
use crate::commands::observe::daemon::{Daemon, LOSSES, Metrics};
use crate::commands::observe::stats::{float, median};
use xtask::processors;

/// How much more of a quantity there may be at the end than in the middle, as a factor.
const GROWTH: f64 = 1.1;

/// How much samples may differ from the CPU time that they stand for, as a share: chance alone makes
/// half a percent of 40,000.
const DIFFERENCE: f64 = 0.03;

/// The share of the samples that may be in a counter with a reason instead of in a profile.
const LOST: f64 = 0.0001;

/// The share of the samples of a busy program that are in its own profiles.
const COMPLETE: f64 = 0.97;

/// Counters with the reasons for which a sample is in no profile.
const SAMPLES_LOST: [&str; 3] = [
    "profiling_agent_samples_lost_total",
    "profiling_agent_window_lost_samples_total",
    "profiling_agent_unknown_process_samples_total",
];

/// The time after which all that the agent holds must have stopped to grow.
const LONG: Duration = Duration::from_secs(3600);

/// What the kernel counts besides.
pub(super) struct Accounts {
    samples: f64,
    busy: Duration,
    stolen: Duration,
    steady: (String, Duration),
}

impl Accounts {
    /// At the begin of the time.
    pub(super) fn begin(daemon: &Daemon, churn: &Churn) -> Result<Self> {
        Ok(Self {
            samples: daemon.metrics()?.value("profiling_agent_samples_total")?,
            busy: processors::busy_time()?,
            stolen: processors::stolen_time()?,
            steady: churn.steady()?,
        })
    }

    /// At its end: what was used since.
    pub(super) fn end(self, daemon: &Daemon, churn: &Churn) -> Result<Self> {
        let now = Self::begin(daemon, churn)?;
        let steady = now.steady.1.saturating_sub(self.steady.1);
        Ok(Self {
            samples: now.samples - self.samples,
            busy: now.busy.saturating_sub(self.busy),
            stolen: now.stolen.saturating_sub(self.stolen),
            steady: (now.steady.0, steady),
        })
    }

    /// Whether there is a sample for each period of CPU time. The clock of the samples goes on while the
    /// hypervisor has a processor, which the scheduler's accounts leave out.
    fn samples_of_the_host(&self) -> Check {
        let due = self.busy.as_secs_f64() * f64::from(RATE_HZ);
        let stolen = self.stolen.as_secs_f64() * f64::from(RATE_HZ);
        let good = due * (1.0 - DIFFERENCE)..=(due + stolen) * (1.0 + DIFFERENCE);
        Check {
            what: "samples taken of those due for the CPU time of the host".to_owned(),
            measured: format!("{:.0} of {due:.0} + {stolen:.0} stolen", self.samples),
            wanted: format!("± {:.0} %", 100.0 * DIFFERENCE),
            is_good: good.contains(&self.samples),
        }
    }
}

/// A figure and whether it is good.
struct Check {
    what: String,
    measured: String,
    wanted: String,
    is_good: bool,
}

/// All figures.
pub(super) struct Verdict(Vec<Check>);

impl Verdict {
    /// Judges a run, of which `metrics` are the last.
    pub(super) fn of(
        readings: &[Reading],
        profiles: &Profiles,
        accounts: &Accounts,
        metrics: &Metrics,
    ) -> Result<Self> {
        let mut checks = flat(readings);
        checks.push(accounts.samples_of_the_host());
        let taken = metrics.value("profiling_agent_samples_total")?;
        let lost = metrics.total(&SAMPLES_LOST)?;
        let in_profiles = float(profiles.samples);
        checks.push(Check {
            what: "samples in profiles and in counters of those taken".to_owned(),
            measured: format!("{in_profiles:.0} + {lost:.0} of {taken:.0}"),
            // The last ones are taken after the counter was read.
            wanted: "all".to_owned(),
            is_good: in_profiles + lost >= taken && in_profiles + lost <= taken * 1.01,
        });
        for name in LOSSES {
            let count = metrics.value(name)?;
            let most = if SAMPLES_LOST.contains(&name) {
                (taken * LOST).floor()
            } else {
                0.0
            };
            checks.push(Check {
                what: name.to_owned(),
                measured: format!("{count:.0}"),
                wanted: format!("≤ {most:.0}"),
                is_good: count <= most,
            });
        }
        let (service, used) = &accounts.steady;
        let (samples, due) = (
            float(profiles.of_service(service)),
            used.as_secs_f64() * f64::from(RATE_HZ),
        );
        checks.push(Check {
            what: format!("samples in the profiles of {service} of those due"),
            measured: format!("{samples:.0} of {due:.0}"),
            wanted: format!("≥ {:.0} %", 100.0 * COMPLETE),
            is_good: samples >= due * COMPLETE,
        });
        Ok(Self(checks))
    }

    /// Those that are not good.
    pub(super) fn failures(&self) -> Vec<String> {
        let failed = self.0.iter().filter(|check| !check.is_good);
        failed
            .map(|check| format!("{}: {}, not {}", check.what, check.measured, check.wanted))
            .collect()
    }
}

/// Compares the last third of the time with the one in the middle.
fn flat(readings: &[Reading]) -> Vec<Check> {
    let values: Vec<_> = readings
        .windows(2)
        .map(|pair| pair[1].since(&pair[0]))
        .collect();
    let is_long = readings.last().is_some_and(|last| last.at >= LONG);
    let third = values.len() / 3;
    let (middle, last) = (&values[third..2 * third], &values[2 * third..]);
    let quantities = values.first().into_iter().flat_map(BTreeMap::keys);
    quantities
        .map(|&quantity| {
            let (name, slack) = quantity.describe();
            let before = middle_of(middle, quantity);
            let after = middle_of(last, quantity);
            let limit = quantity.limit().filter(|_| !is_long);
            let most = limit.unwrap_or(before * GROWTH + slack);
            Check {
                what: name.to_owned(),
                measured: format!("{before:.1} → {after:.1}"),
                wanted: format!("≤ {most:.1}"),
                is_good: after <= most,
            }
        })
        .collect()
}

/// The median of a quantity; not a number where there is none, so that nothing is good about it.
fn middle_of(values: &[BTreeMap<Quantity, f64>], quantity: Quantity) -> f64 {
    let all = values.iter().filter_map(|values| values.get(&quantity));
    median(all.copied()).unwrap_or(f64::NAN)
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "| what | measured | wanted | |\n|---|---|---|---|")?;
        for check in &self.0 {
            let Check {
                what,
                measured,
                wanted,
                is_good,
            } = check;
            let word = if *is_good { "good" } else { "FAILED" };
            writeln!(out, "| {what} | {measured} | {wanted} | {word} |")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings of which each has a bit more of a quantity.
    fn readings(quantity: Quantity, more: f64) -> Vec<Reading> {
        let reading = |number: u32| {
            let value = 100.0 + more * f64::from(number);
            Reading::with(Duration::from_secs(number.into()), quantity, value)
        };
        (0..60).map(reading).collect()
    }

    fn is_flat(readings: &[Reading]) -> bool {
        flat(readings).iter().all(|check| check.is_good)
    }

    #[test]
    fn growth_is_found() {
        assert!(is_flat(&readings(Quantity::Memory, 0.0)));
        assert!(is_flat(&readings(Quantity::Memory, 0.1)));
        assert!(!is_flat(&readings(Quantity::Memory, 1.5)));
        assert!(!is_flat(&readings(Quantity::Threads, 1.5)));
    }

    #[test]
    fn what_is_bounded_may_grow_for_a_while() {
        assert!(is_flat(&readings(Quantity::CacheEntries, 1000.0)));
        assert!(!is_flat(&readings(Quantity::CacheEntries, 100_000.0)));
    }

    #[test]
    fn nothing_is_good_about_too_few_readings() {
        let readings = readings(Quantity::Memory, 0.0);
        assert!(!is_flat(&readings[..3]));
    }
}
