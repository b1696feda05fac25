//! A capture by the agent, observed from outside: what its BPF programs cost and count.
//!
//! Invariant: the agent is an ordinary release build with nothing for the benchmark in it; everything
//! is read from `/proc` and from the kernel.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use agent_common::counter::Counter;
use anyhow::Result;

use super::bpf::PerCpuNumbers;
use crate::commands::observe::child::{Running, Usage};
use crate::commands::observe::proc::{self, ProgramRuns};

/// Time limit of the first sample.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Time limit of the agent's end after the capture.
const END_LIMIT: Duration = Duration::from_secs(20);

/// A capture that has taken its first sample.
#[derive(Debug)]
pub(super) struct Capture {
    running: Running,
    probe: Probe,
    duration: Duration,
    first_sample_after: Duration,
    target_cpu: Duration,
    map_bytes: u64,
}

/// Where the costs and counts of an agent's BPF programs are.
#[derive(Debug)]
pub(super) struct Probe {
    program: PathBuf,
    counters: PerCpuNumbers,
}

impl Probe {
    /// Waits until the clock of an agent has ticked for the first time.
    pub(super) fn wait_for(agent: &mut Running) -> Result<Self> {
        let pid = agent.pid();
        let program = agent.wait_until("first sample", START_LIMIT, || {
            // The loader tries out the kernel with other programs first, which never run.
            let has_run =
                |program: &PathBuf| proc::program_runs(program).is_some_and(|runs| runs.count != 0);
            proc::programs(pid).into_iter().find(has_run)
        })?;
        let maps: Vec<_> = proc::maps(pid)?.into_keys().collect();
        Ok(Self {
            program,
            counters: PerCpuNumbers::find(&maps, "COUNTERS")?,
        })
    }

    /// What the BPF programs have done so far; nothing when the sampling is over.
    pub(super) fn reading(&mut self) -> Result<Option<Reading>> {
        let Some(runs) = proc::program_runs(&self.program) else {
            return Ok(None);
        };
        Ok(Some(Reading {
            runs,
            samples: self.counters.sum(Counter::SAMPLES.0)?,
            lost: self.counters.sum(Counter::LOST_SAMPLES.0)?,
        }))
    }
}

/// What the BPF programs have done so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) runs: ProgramRuns,
    /// Runs that were for a thread of the target.
    pub(super) samples: u64,
    /// Samples that were lost because the ring buffer was full.
    pub(super) lost: u64,
}

/// What the agent used until its end.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) usage: Usage,
    /// From the end of the sampling to the end of the agent.
    pub(super) finish: Duration,
}

/// Which frames the agent takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stacks {
    /// Python frames only.
    Python,
    /// Python, native and kernel frames.
    Whole,
}

impl Stacks {
    pub(super) fn flag(self) -> &'static str {
        match self {
            Self::Python => "--no-native",
            Self::Whole => "--native",
        }
    }

    /// The same for `agent run`, where native frames are the default.
    pub(super) fn host_flag(self) -> Option<&'static str> {
        (self == Self::Python).then_some(self.flag())
    }
}

impl Capture {
    /// Starts the agent and waits until the clock has ticked for the first time, which is when the
    /// first sample is taken of a target that is at work.
    pub(super) fn start(
        agent: &Path,
        pid: u32,
        rate_hz: u32,
        duration: Duration,
        output: &Path,
        stacks: Stacks,
    ) -> Result<Self> {
        let mut command = Command::new(agent);
        command
            .arg(stacks.flag())
            .args(["--pid", &pid.to_string()])
            .args(["--rate", &rate_hz.to_string()])
            .args(["--duration", &format!("{}ms", duration.as_millis())])
            .arg("--output")
            .arg(output);
        let mut running = Running::start(&mut command)?;
        let probe = Probe::wait_for(&mut running)?;
        let first_sample_after = running.started().elapsed();
        let target_cpu = proc::cpu_time(pid)?;
        let map_bytes = proc::maps(running.pid())?.values().sum();
        Ok(Self {
            running,
            probe,
            duration,
            first_sample_after,
            target_cpu,
            map_bytes,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.running.pid()
    }

    pub(super) fn duration(&self) -> Duration {
        self.duration
    }

    /// From the start of the agent to the first tick of its clock.
    pub(super) fn first_sample_after(&self) -> Duration {
        self.first_sample_after
    }

    /// CPU time of the target at that first tick.
    pub(super) fn target_cpu_at_start(&self) -> Duration {
        self.target_cpu
    }

    /// Memory of the BPF maps.
    pub(super) fn map_bytes(&self) -> u64 {
        self.map_bytes
    }

    /// What the BPF programs have done so far; nothing when the sampling is over.
    pub(super) fn reading(&mut self) -> Result<Option<Reading>> {
        self.probe.reading()
    }

    /// Waits for the end of the sampling; `observe` is called often until then, at last just
    /// before it.
    pub(super) fn wait_for_stop(&self, mut observe: impl FnMut() -> Result<()>) -> Result<()> {
        while proc::program_runs(&self.probe.program).is_some() {
            observe()?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Waits for the agent's end.
    pub(super) fn finish(self) -> Result<Ended> {
        self.wait_for_stop(|| Ok(()))?;
        let sampled = self.running.started().elapsed();
        let usage = self.running.finish(sampled + self.duration + END_LIMIT)?;
        Ok(Ended {
            usage,
            finish: usage.wall.saturating_sub(sampled),
        })
    }
}
