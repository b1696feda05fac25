//! The measured figures and their budgets.

use crate::commands::observe::stats::{least, median};

/// What a figure measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    KernelTime,
    Frames,
    FrameTime,
    KernelCpu,
    OwnCpu,
    TotalCpu,
    SlowdownByCpu,
    SlowdownByWall,
    ClockAlone,
    FirstSample,
    Finish,
    Memory,
    Maps,
    ProfileSize,
    Lost,
    Split,
    CpuSeconds,
    Starts,
    HostProfileSize,
}

impl Topic {
    /// All of them, in the order in which they are shown.
    pub(super) const ALL: [Self; 19] = [
        Self::KernelTime,
        Self::Frames,
        Self::FrameTime,
        Self::Lost,
        Self::KernelCpu,
        Self::OwnCpu,
        Self::TotalCpu,
        Self::SlowdownByCpu,
        Self::SlowdownByWall,
        Self::ClockAlone,
        Self::CpuSeconds,
        Self::Split,
        Self::FirstSample,
        Self::Finish,
        Self::Memory,
        Self::Maps,
        Self::ProfileSize,
        Self::Starts,
        Self::HostProfileSize,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::KernelTime => "Kernel time of a sample of the target",
            Self::Frames => "Kernel time of a sample by depth of the stack, 4999 Hz",
            Self::FrameTime => "Kernel time of each further frame",
            Self::KernelCpu => "CPU of the BPF programs on all processors, of one",
            Self::OwnCpu => "CPU of the profiler while it samples, of one processor",
            Self::TotalCpu => "CPU of the profiler from its start to its end",
            Self::SlowdownByCpu => "Slowdown of the target, by CPU time (without pauses)",
            Self::SlowdownByWall => {
                "Slowdown of the target, by wall time less the wait for a processor"
            }
            Self::ClockAlone => "Slowdown by CPU time while the agent samples a sleeping process",
            Self::FirstSample => "First sample after start",
            Self::Finish => "End after last sample",
            Self::Memory => "Peak memory of the profiler",
            Self::Maps => "Memory of the BPF maps",
            Self::ProfileSize => "Size of the pprof file, short_calls at 99 Hz",
            Self::Lost => "Samples lost",
            Self::Starts => "Processes and threads that started, per second",
            Self::HostProfileSize => "Size of all pprof files of a minute of a host",
            Self::Split => "Error of the CPU split, of all CPU time",
            Self::CpuSeconds => "Error of the CPU seconds, against the scheduler's account",
        }
    }

    /// The unit and the decimals that are worth showing.
    pub(super) fn unit(self) -> (&'static str, usize) {
        match self {
            Self::KernelTime | Self::Frames => ("µs", 2),
            Self::FrameTime => ("ns", 1),
            Self::KernelCpu | Self::OwnCpu => ("%", 3),
            Self::SlowdownByCpu
            | Self::SlowdownByWall
            | Self::ClockAlone
            | Self::Split
            | Self::CpuSeconds => ("%", 2),
            Self::TotalCpu | Self::FirstSample | Self::Finish => ("ms", 0),
            Self::Memory | Self::Maps => ("MB", 1),
            Self::ProfileSize | Self::HostProfileSize => ("KB", 1),
            Self::Lost | Self::Starts => ("", 0),
        }
    }
}

/// All figures of one interpreter.
#[derive(Debug, Default)]
pub(super) struct Figures(pub(super) Vec<Figure>);

impl Figures {
    /// The figure of this topic and case, inserted if it is missing.
    pub(super) fn of(&mut self, topic: Topic, case: &str) -> &mut Figure {
        let is_it = |figure: &Figure| figure.topic == topic && figure.case == case;
        let index = self.0.iter().position(is_it).unwrap_or_else(|| {
            self.0.push(Figure::new(topic, case));
            self.0.len() - 1
        });
        &mut self.0[index]
    }
}

/// A figure of one interpreter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    pub(super) topic: Topic,
    /// Workload, rate and whatever else it depends on.
    pub(super) case: String,
    /// The agent's value; the median of several.
    pub(super) agent: Option<f64>,
    /// The agent's best of several values, where other load can only make them worse.
    pub(super) best: Option<f64>,
    pub(super) budget: Option<f64>,
    /// What the figure may be off by on this machine, about a standard deviation.
    pub(super) noise: Option<f64>,
    pub(super) py_spy: Option<f64>,
}

impl Figure {
    pub(super) fn new(topic: Topic, case: impl Into<String>) -> Self {
        Self {
            topic,
            case: case.into(),
            agent: None,
            best: None,
            budget: None,
            noise: None,
            py_spy: None,
        }
    }

    /// Sets the agent's value from several that other load can only make worse.
    pub(super) fn agent_of(&mut self, values: impl Iterator<Item = f64> + Clone) -> &mut Self {
        self.agent = median(values.clone());
        self.best = least(values);
        self
    }

    /// Sets the agent's value if this one is farther from zero.
    pub(super) fn agent_worst(&mut self, value: f64) {
        let is_worse = self.agent.is_none_or(|agent| agent.abs() < value.abs());
        if is_worse {
            self.agent = Some(value);
        }
    }

    /// Whether it has a value.
    pub(super) fn is_known(&self) -> bool {
        self.agent.is_some() || self.py_spy.is_some()
    }

    /// How it compares to its budget, if it has one.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        let is_within = |value: f64, budget: f64| value.abs() <= budget;
        let (agent, budget) = (self.agent?, self.budget?);
        let is_met = |value: Option<f64>| value.is_some_and(|value| is_within(value, budget));
        Some(if is_met(Some(agent)) {
            Verdict::Met
        } else if is_met(self.best) {
            Verdict::MetAtBest
        } else if self.noise.is_some_and(|noise| agent <= 2.0 * noise) {
            // A negative one too: nobody becomes faster by being profiled.
            Verdict::Noise
        } else {
            Verdict::Missed
        })
    }
}

/// How a figure compares to its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Within.
    Met,
    /// Only the best of several values is within.
    MetAtBest,
    /// The difference is within the noise of this machine.
    Noise,
    /// Beyond.
    Missed,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::MetAtBest => "met at best",
            Self::Noise => "within noise",
            Self::Missed => "MISSED",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(agent: f64, best: Option<f64>, noise: Option<f64>) -> Option<Verdict> {
        Figure {
            agent: Some(agent),
            best,
            noise,
            budget: Some(2.0),
            ..Figure::new(Topic::CpuSeconds, "")
        }
        .verdict()
    }

    #[test]
    fn a_figure_is_found_again() {
        let mut figures = Figures::default();
        figures.of(Topic::Lost, "a").agent = Some(1.0);
        figures.of(Topic::Lost, "b").agent = Some(2.0);
        figures.of(Topic::Lost, "a").py_spy = Some(3.0);
        assert_eq!(figures.0.len(), 2);
        assert_eq!(figures.0[0].agent, Some(1.0));
        assert_eq!(figures.0[0].py_spy, Some(3.0));
    }

    #[test]
    fn a_figure_compares_to_its_budget_in_one_of_four_ways() {
        assert_eq!(verdict(2.0, None, None), Some(Verdict::Met));
        assert_eq!(verdict(2.1, Some(1.9), None), Some(Verdict::MetAtBest));
        assert_eq!(verdict(2.1, Some(2.1), None), Some(Verdict::Missed));
        assert_eq!(verdict(2.1, None, Some(1.1)), Some(Verdict::Noise));
        assert_eq!(verdict(-9.0, None, Some(1.0)), Some(Verdict::Noise));
        // An error is one in both directions.
        assert_eq!(verdict(-2.1, None, None), Some(Verdict::Missed));
    }

    #[test]
    fn without_a_budget_there_is_no_verdict() {
        let mut figure = Figure::new(Topic::Finish, "");
        figure.agent = Some(1.0);
        assert_eq!(figure.verdict(), None);
    }
}
