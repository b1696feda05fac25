//! What selects a running process: its names, and what its control groups say.
//!
//! Everything here is chosen by the processes and their owners: names are compared, and never trusted with more.

use std::{fs, process};

use crate::{
    process::{Process, cgroup::Cgroup, file_name},
    targets::MAX_PROCESSES,
};

/// A running process.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningProcess {
    pub(super) pid: u32,
    /// Its comm, the names of its executable and in its command line, and its script or module.
    pub(super) names: Vec<String>,
    pub(super) cgroup: Cgroup,
}

/// The processes that run, without the agent, kernel threads and those that may not be read; at most
/// [`MAX_PROCESSES`].
pub(super) fn running() -> Vec<RunningProcess> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut pids: Vec<u32> = pids.collect();
    pids.sort_unstable();
    let others = pids.into_iter().filter(|&pid| pid != process::id());
    let read = others.filter_map(|pid| Some(RunningProcess::of(&Process::open(pid).ok()?)));
    read.take(MAX_PROCESSES).collect()
}

impl RunningProcess {
    pub(super) fn of(process: &Process) -> Self {
        let mut running = Self {
            pid: process.pid(),
            cgroup: process.cgroup().unwrap_or_default(),
            ..Self::default()
        };
        let executable = process.executable();
        running.add_name(process.comm());
        running.add_name(&String::from_utf8_lossy(file_name(executable)));
        if let Ok(command) = process.command_line() {
            running.add_name(&command.title());
            running.add_name(&process.script(&command).unwrap_or_default());
        }
        running
    }

    fn add_name(&mut self, name: &str) {
        if !name.is_empty() && !self.names.iter().any(|other| other == name) {
            self.names.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_read_with_their_names() {
        let mut child = process::Command::new("sleep").arg("60").spawn().unwrap();
        let all = running();
        let found = all.iter().find(|it| it.pid == child.id()).cloned();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.unwrap().names.contains(&"sleep".to_owned()));
        assert!(all.iter().all(|it| it.pid != process::id()));
    }
}
