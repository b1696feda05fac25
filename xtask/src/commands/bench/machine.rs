//! The machine of a measurement, and its load.

use std::fmt;
use std::fs;
use std::thread;

use anyhow::{Context as _, Result};

use crate::commands::observe::stats::float;
use xtask::processors;

/// What the figures depend on.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) cpu: String,
    pub(super) cpus: usize,
    /// Load average of the last minute when the measurements began.
    pub(super) load_at_start: f64,
    /// The same when they ended.
    pub(super) load_at_end: f64,
    /// Processor time that the hypervisor gave to other machines, in percent.
    pub(super) stolen: f64,
    ticks_at_start: (u64, u64),
}

impl Machine {
    pub(super) fn before() -> Result<Self> {
        let cpus = thread::available_parallelism().context("the processors cannot be counted")?;
        let load = load()?;
        Ok(Self {
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cpu: cpu_model(&read("/proc/cpuinfo")?)
                .unwrap_or(std::env::consts::ARCH)
                .to_owned(),
            cpus: cpus.get(),
            load_at_start: load,
            load_at_end: load,
            stolen: 0.0,
            ticks_at_start: processors::ticks()?,
        })
    }

    /// Adds what is known when the measurements have ended.
    pub(super) fn after(&mut self) -> Result<()> {
        self.load_at_end = load()?;
        let (all, stolen) = processors::ticks()?;
        let (all_before, stolen_before) = self.ticks_at_start;
        self.stolen = 100.0 * float(stolen - stolen_before) / float((all - all_before).max(1));
        Ok(())
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Linux {}, {} processors ({}), load average {:.2} at the start and {:.2} at the end, \
             {:.1} % of the processor time stolen",
            self.kernel, self.cpus, self.cpu, self.load_at_start, self.load_at_end, self.stolen
        )
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}

fn load() -> Result<f64> {
    let text = read("/proc/loadavg")?;
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().context("/proc/loadavg is malformed")
}

/// The processor's name for itself, which not every architecture has.
fn cpu_model(cpuinfo: &str) -> Option<&str> {
    cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, model)| model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_a_line_of_its_own() {
        let text = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n";
        assert_eq!(cpu_model(text), Some("AMD EPYC"));
        assert_eq!(cpu_model("processor\t: 0\n"), None);
    }
}
