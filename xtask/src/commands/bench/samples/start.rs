//! What the start of the agent costs: time, memory, maps and the verifier's work.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::super::agent::{Capture, Stacks};
use super::super::bpf;
use super::super::workload::{Workload, directory};
use super::case::Scope;
use crate::commands::observe::child::Running;
use crate::commands::observe::daemon::Daemon;
use crate::commands::observe::proc;
use crate::commands::observe::stats::{float, median};

/// The duration of a short capture.
const SHORT: Duration = Duration::from_millis(100);

/// Short captures of each kind.
const CAPTURES: usize = 11;

/// Time limit of a short capture.
const LIMIT: Duration = Duration::from_secs(30);

/// What the agent of a host is given before its memory is read.
const IDLE: Duration = Duration::from_secs(2);

/// A process id that no process has: the agent of a host then has none to profile.
const NOBODY: u32 = (1 << 22) - 1;

/// In one mode.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) scope: Scope,
    pub(super) stacks: Stacks,
    /// Wall time of a short capture less its duration, in seconds.
    pub(super) capture_seconds: Option<f64>,
    /// Peak of the memory of a short capture, memory of the idle agent of a host.
    pub(super) memory_bytes: f64,
    /// Memory of the maps by their names.
    pub(super) maps: BTreeMap<String, u64>,
    /// Verified instructions by the names of the programs.
    pub(super) verified: BTreeMap<String, u64>,
}

/// Measures all modes.
pub(super) fn measure(agent: &Path, workload: &Workload) -> Result<Vec<Start>> {
    let mut all = Vec::new();
    for stacks in [Stacks::Python, Stacks::Whole] {
        all.push(capture(agent, workload, stacks)?);
    }
    for stacks in [Stacks::Python, Stacks::Whole] {
        all.push(host(agent, stacks)?);
    }
    Ok(all)
}

fn capture(agent: &Path, workload: &Workload, stacks: Stacks) -> Result<Start> {
    let output = directory()?.join("short.pb.gz");
    let mut seconds = Vec::new();
    let mut peaks = Vec::new();
    for _ in 0..CAPTURES {
        let mut command = Command::new(agent);
        command
            .arg(stacks.flag())
            .args(["--pid", &workload.pid().to_string()])
            .args(["--duration", &format!("{}ms", SHORT.as_millis())])
            .arg("--output")
            .arg(&output);
        let usage = Running::start(&mut command)?.finish(LIMIT)?;
        seconds.push(usage.wall.saturating_sub(SHORT).as_secs_f64());
        peaks.push(float(usage.peak_memory_bytes));
    }
    let running = Capture::start(agent, workload.pid(), 97, 10 * SHORT, &output, stacks)?;
    let (maps, verified) = objects(running.pid())?;
    Ok(Start {
        scope: Scope::Process,
        stacks,
        capture_seconds: median(seconds),
        memory_bytes: median(peaks).unwrap_or(0.0),
        maps,
        verified,
    })
}

fn host(agent: &Path, stacks: Stacks) -> Result<Start> {
    let mut options = vec!["--include".to_owned(), format!("[{{pid: {NOBODY}}}]")];
    options.extend(stacks.host_flag().map(str::to_owned));
    let daemon = Daemon::start(agent, &directory()?, &options)?;
    thread::sleep(IDLE);
    let (maps, verified) = objects(daemon.pid())?;
    Ok(Start {
        scope: Scope::Host,
        stacks,
        capture_seconds: None,
        memory_bytes: float(proc::memory_bytes(daemon.pid())?),
        maps,
        verified,
    })
}

/// The maps and the programs of an agent.
fn objects(pid: u32) -> Result<(BTreeMap<String, u64>, BTreeMap<String, u64>)> {
    let maps = by_name(proc::maps(pid)?, bpf::map_name)?;
    let verified = by_name(proc::verified_instructions(pid)?, bpf::program_name)?;
    Ok((maps, verified))
}

/// Numbers of objects with the same name are added up.
fn by_name(
    objects: BTreeMap<u32, u64>,
    name: impl Fn(u32) -> Result<String>,
) -> Result<BTreeMap<String, u64>> {
    let mut named = BTreeMap::new();
    for (id, number) in objects {
        *named.entry(name(id)?).or_default() += number;
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_name_are_added_up() {
        let objects = BTreeMap::from([(1, 10), (2, 5), (3, 7)]);
        let name = |id| Ok(if id == 2 { "b" } else { "a" }.to_owned());
        let named = by_name(objects, name).unwrap();
        assert_eq!(
            named,
            BTreeMap::from([("a".to_owned(), 17), ("b".to_owned(), 5)])
        );
    }
}
