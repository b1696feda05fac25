//! The minutes of the scenario as a table.

use std::fmt;
use std::time::Duration;

use crate::commands::observe::stats::float;

/// What the agent had used at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// Since the start of the agent.
    pub(super) at: Duration,
    pub(super) cpu: Duration,
    pub(super) memory_bytes: u64,
    pub(super) peak_bytes: u64,
    pub(super) lost: f64,
}

/// Frames of native code.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frames {
    pub(super) all: u64,
    pub(super) named: u64,
    pub(super) with_line: u64,
}

/// The profiles of a minute.
#[derive(Debug, Clone, Copy)]
pub(super) struct Profiles {
    pub(super) samples: u64,
    /// Samples that the CPU time of the programs makes at the configured rate.
    pub(super) due: f64,
    pub(super) frames: Frames,
    /// The least and the highest sampling rate.
    pub(super) rates: Option<(f64, f64)>,
}

impl Default for Profiles {
    fn default() -> Self {
        Self {
            samples: 0,
            due: 0.0,
            frames: Frames::default(),
            rates: None,
        }
    }
}

impl Profiles {
    /// Adds a rate.
    pub(super) fn has_rate(&mut self, rate_hz: f64) {
        let (least, highest) = self.rates.unwrap_or((rate_hz, rate_hz));
        self.rates = Some((least.min(rate_hz), highest.max(rate_hz)));
    }
}

/// All minutes.
#[derive(Debug)]
pub(super) struct Minutes {
    /// At the start and at the end of each minute.
    pub(super) usage: Vec<Usage>,
    /// One for each minute.
    pub(super) profiles: Vec<Profiles>,
}

impl Minutes {
    /// CPU time of the agent until that many minutes.
    pub(super) fn cpu_until(&self, minutes: usize) -> Option<Duration> {
        self.usage.get(minutes).map(|usage| usage.cpu)
    }

    /// CPU of the agent after that many minutes, in percent of a processor.
    pub(super) fn percent_after(&self, minutes: usize) -> Option<f64> {
        let (start, end) = (self.usage.get(minutes)?, self.usage.last()?);
        (end.at > start.at).then(|| percent(start, end))
    }

    pub(super) fn peak_bytes(&self) -> u64 {
        self.usage.last().map_or(0, |usage| usage.peak_bytes)
    }

    pub(super) fn lost(&self) -> f64 {
        self.usage.last().map_or(0.0, |usage| usage.lost)
    }

    /// The least and the highest sampling rate of all.
    pub(super) fn rates(&self) -> Option<(f64, f64)> {
        let mut all = Profiles::default();
        for (least, highest) in self.profiles.iter().filter_map(|minute| minute.rates) {
            all.has_rate(least);
            all.has_rate(highest);
        }
        all.rates
    }
}

fn percent(start: &Usage, end: &Usage) -> f64 {
    let cpu = end.cpu.saturating_sub(start.cpu).as_secs_f64();
    100.0 * cpu / end.at.saturating_sub(start.at).as_secs_f64()
}

/// A share in percent, or a dash of nothing.
fn share(part: f64, all: f64) -> String {
    if all > 0.0 {
        format!("{:.1} %", 100.0 * part / all)
    } else {
        "–".to_owned()
    }
}

impl fmt::Display for Minutes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "| minute | own CPU | of a core | RSS | peak | samples | due | taken | lost | rate | \
             native frames with a name | with a line |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|"
        )?;
        for (number, (pair, profiles)) in (1..).zip(self.usage.windows(2).zip(&self.profiles)) {
            let [start, end] = [pair[0], pair[1]];
            let frames = profiles.frames;
            let rate = match profiles.rates {
                Some((least, highest)) if highest - least < 0.5 => format!("{least:.0}"),
                Some((least, highest)) => format!("{least:.0}–{highest:.0}"),
                None => "–".to_owned(),
            };
            writeln!(
                out,
                "| {number} | {:.2} s | {:.2} % | {:.1} MB | {:.1} MB | {} | {:.0} | {} | {:.0} | \
                 {rate} Hz | {} | {} |",
                end.cpu.saturating_sub(start.cpu).as_secs_f64(),
                percent(&start, &end),
                float(end.memory_bytes) / 1e6,
                float(end.peak_bytes) / 1e6,
                profiles.samples,
                profiles.due,
                share(float(profiles.samples), profiles.due),
                end.lost - start.lost,
                share(float(frames.named), float(frames.all)),
                share(float(frames.with_line), float(frames.all)),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes() -> Minutes {
        let usage = |minute: u64, cpu| Usage {
            at: Duration::from_secs(60 * minute),
            cpu: Duration::from_millis(cpu),
            memory_bytes: 40_000_000,
            peak_bytes: 50_000_000 + minute,
            lost: 0.0,
        };
        let mut first = Profiles {
            samples: 90,
            due: 100.0,
            frames: Frames {
                all: 200,
                named: 150,
                with_line: 50,
            },
            rates: None,
        };
        first.has_rate(97.0);
        let mut second = Profiles::default();
        second.has_rate(97.0);
        second.has_rate(48.5);
        Minutes {
            usage: vec![
                usage(0, 100),
                usage(1, 1600),
                usage(2, 1900),
                usage(3, 2200),
            ],
            profiles: vec![first, second, Profiles::default()],
        }
    }

    #[test]
    fn use_is_that_between_two_moments() {
        let minutes = minutes();
        assert_eq!(minutes.cpu_until(2), Some(Duration::from_millis(1900)));
        assert_eq!(minutes.cpu_until(9), None);
        assert!((minutes.percent_after(2).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(minutes.percent_after(3), None);
        assert_eq!(minutes.peak_bytes(), 50_000_003);
        assert_eq!(minutes.rates(), Some((48.5, 97.0)));
    }

    #[test]
    fn a_minute_is_a_row() {
        let text = minutes().to_string();
        let rows: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| 1 | 1.50 s | 2.50 % | 40.0 MB | 50.0 MB | 90 | 100 | 90.0 % | 0 | 97 Hz | \
                 75.0 % | 25.0 % |",
                "| 2 | 0.30 s | 0.50 % | 40.0 MB | 50.0 MB | 0 | 0 | – | 0 | 48–97 Hz | – | – |",
                "| 3 | 0.30 s | 0.50 % | 40.0 MB | 50.0 MB | 0 | 0 | – | 0 | – Hz | – | – |",
            ]
        );
    }
}
