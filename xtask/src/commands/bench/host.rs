//! What `agent run` costs with many processes, and while programs start all the time.
//!
//! Figures come from the agent's own metrics and from `/proc`. They do not include the start of the
//! agent: it has inspected all processes before the measured time begins.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use xtask::interpreters::Interpreter;
use xtask::paths;

use super::child::Running;
use super::figure::{Figures, Topic};
use super::stats::float;
use super::workload::directory;
use super::{budget, proc};

/// Time limit of the agent's start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How long the agent runs before anything is measured: by then it has read what the processes run,
/// and the first window is over.
const WARM_UP: Duration = Duration::from_secs(16);

/// What the agent must never lose, by the names of its metrics.
const LOSSES: [&str; 5] = [
    "profiling_agent_samples_lost_total",
    "profiling_agent_window_lost_samples_total",
    "profiling_agent_unknown_process_samples_total",
    "profiling_agent_process_events_lost_total",
    "profiling_agent_untracked_processes_total",
];

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

/// The agent of a host.
struct Host {
    running: Running,
    address: SocketAddr,
}

impl Host {
    fn start(agent: &Path) -> Result<Self> {
        let folder = directory()?.join("host");
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let exporters = format!("{{local: {{type: file, folder: '{}'}}}}", folder.display());
        let mut command = Command::new(agent);
        command
            .args(["run", "--exporters", &exporters])
            .args(["--listen", &address.to_string()]);
        let mut running = Running::start(&mut command)?;
        running.wait_until("response", START_LIMIT, || get(address, "/readyz").ok())?;
        Ok(Self { running, address })
    }

    /// Its metrics.
    fn metrics(&self) -> Result<Metrics> {
        get(self.address, "/metrics").map(Metrics)
    }
}

/// The response of the agent to a request of `path`.
fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if !answer.starts_with("HTTP/1.1 200 ") {
        bail!("unexpected response to {path}: {answer:?}");
    }
    Ok(answer)
}

/// The text of metrics.
struct Metrics(String);

impl Metrics {
    /// The value of a metric that has no labels; of one that is not there 0.
    fn value(&self, name: &str) -> f64 {
        let mut lines = self.0.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.and_then(|value| value.parse().ok()).unwrap_or(0.0)
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
    let host = Host::start(agent)?;
    thread::sleep(WARM_UP);
    let pid = host.running.pid();
    let reading = || -> Result<_> { Ok((Instant::now(), proc::cpu_time(pid)?, host.metrics()?)) };
    let (starts_before, (began, cpu_before, before)) = (proc::forks()?, reading()?);
    thread::sleep(duration);
    let (starts_after, (ended, cpu_after, after)) = (proc::forks()?, reading()?);
    let memory = proc::peak_memory_bytes(pid)?;
    drop(processes);

    let wall = (ended - began).as_secs_f64();
    let gained = |name: &str| after.value(name) - before.value(name);
    let case = &scene.name();
    let own = figures.of(Topic::OwnCpu, case);
    own.agent = Some(100.0 * cpu_after.saturating_sub(cpu_before).as_secs_f64() / wall);
    figures.of(Topic::KernelCpu, case).agent =
        Some(100.0 * gained("profiling_agent_bpf_program_seconds_total") / wall);
    let peak = figures.of(Topic::Memory, case);
    peak.agent = Some(float(memory) / 1e6);
    peak.budget = Some(budget::HOST_MEMORY_MB);
    let lost = figures.of(Topic::Lost, case);
    lost.agent = Some(LOSSES.iter().map(|name| after.value(name)).sum());
    lost.budget = Some(budget::LOST);
    figures.of(Topic::Starts, case).agent = Some(float(starts_after - starts_before) / wall);
    figures.of(Topic::HostProfileSize, case).agent =
        Some(gained("profiling_agent_profile_bytes_total") / 1e3 * 60.0 / wall);
    Ok(())
}
