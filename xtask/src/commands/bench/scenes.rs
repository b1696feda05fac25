//! What `agent run` costs with many processes, and while programs start all the time.
//!
//! Figures come from the agent's own metrics and from `/proc`. They do not include the start of the
//! agent: it has inspected all processes before the measured time begins.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use xtask::interpreters::Interpreter;
use xtask::paths;

use super::budget;
use super::figure::{Figures, Topic};
use super::workload::directory;
use crate::commands::observe::child::Running;
use crate::commands::observe::daemon::Daemon;
use crate::commands::observe::proc;
use crate::commands::observe::stats::float;

/// How long the agent runs before anything is measured: by then it has read what the processes run,
/// and the first window is over.
const WARM_UP: Duration = Duration::from_secs(16);

/// What happens on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scene {
    /// Processes that sleep, and Python processes that are busy.
    Crowd { processes: u32, busy: u32 },
    /// Programs that start and end at once.
    Starts { per_second: u32 },
}

impl Scene {
    pub(super) fn name(self) -> String {
        match self {
            Self::Crowd { processes, busy } => {
                format!("{processes} processes, {busy} of them busy with Python")
            }
            Self::Starts { per_second } => format!("{per_second} starts per second"),
        }
    }
}

/// The processes of a scene, which end when it is dropped.
struct Processes {
    _processes: Vec<Running>,
}

impl Processes {
    fn start(scene: Scene, python: &Interpreter) -> Result<Self> {
        let workload = |name: &str, argument: Option<u32>| {
            let mut command = Command::new(&python.path);
            command
                .arg("-B")
                .arg(paths::workspace().join("xtask/bench").join(name))
                .arg("600")
                .args(argument.map(|argument| argument.to_string()));
            Running::start(&mut command)
        };
        let mut processes = Vec::new();
        match scene {
            Scene::Crowd {
                processes: all,
                busy,
            } => {
                for _ in 0..busy {
                    processes.push(workload("short_calls.py", None)?);
                }
                for _ in busy..all {
                    processes.push(Running::start(Command::new("sleep").arg("600"))?);
                }
            }
            Scene::Starts { per_second } => {
                processes.push(workload("starts.py", Some(per_second))?);
            }
        }
        Ok(Self {
            _processes: processes,
        })
    }
}

/// Measures the agent in a scene for so long.
pub(super) fn measure(
    agent: &Path,
    python: &Interpreter,
    scene: Scene,
    duration: Duration,
    figures: &mut Figures,
) -> Result<()> {
    let processes = Processes::start(scene, python)?;
    let daemon = Daemon::start(agent, &directory()?, &[])?;
    thread::sleep(WARM_UP);
    let pid = daemon.pid();
    let reading = || -> Result<_> { Ok((Instant::now(), proc::cpu_time(pid)?, daemon.metrics()?)) };
    let (starts_before, (began, cpu_before, before)) = (proc::forks()?, reading()?);
    thread::sleep(duration);
    let (starts_after, (ended, cpu_after, after)) = (proc::forks()?, reading()?);
    let memory = proc::peak_memory_bytes(pid)?;
    drop(processes);

    let wall = (ended - began).as_secs_f64();
    let gained = |name: &str| after.gained(&before, name);
    let case = &scene.name();
    let own = figures.of(Topic::OwnCpu, case);
    own.agent = Some(100.0 * cpu_after.saturating_sub(cpu_before).as_secs_f64() / wall);
    figures.of(Topic::KernelCpu, case).agent =
        Some(100.0 * gained("profiling_agent_bpf_program_seconds_total")? / wall);
    let peak = figures.of(Topic::Memory, case);
    peak.agent = Some(float(memory) / 1e6);
    peak.budget = Some(budget::HOST_MEMORY_MB);
    let lost = figures.of(Topic::Lost, case);
    lost.agent = Some(after.lost()?);
    lost.budget = Some(budget::LOST);
    figures.of(Topic::Starts, case).agent = Some(float(starts_after - starts_before) / wall);
    figures.of(Topic::HostProfileSize, case).agent =
        Some(gained("profiling_agent_profile_bytes_total")? / 1e3 * 60.0 / wall);
    Ok(())
}
