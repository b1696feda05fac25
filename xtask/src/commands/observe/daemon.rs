//! `agent run` as a child process, and its metrics.
//!
//! Invariant: its profiles and its log are below one directory, those of the last start only.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::child::Running;

/// Time limit of the agent's start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// What the agent must never lose, by the names of its metrics.
pub(in crate::commands) const LOSSES: [&str; 5] = [
    "profiling_agent_samples_lost_total",
    "profiling_agent_window_lost_samples_total",
    "profiling_agent_unknown_process_samples_total",
    "profiling_agent_process_events_lost_total",
    "profiling_agent_untracked_processes_total",
];

/// The agent of a host; it ends when it is dropped.
#[derive(Debug)]
pub(in crate::commands) struct Daemon {
    running: Running,
    address: SocketAddr,
    folder: PathBuf,
    log: PathBuf,
}

impl Daemon {
    /// Starts it with these options besides, and waits until it is ready. It writes below `directory`.
    pub(in crate::commands) fn start(
        agent: &Path,
        directory: &Path,
        options: &[String],
    ) -> Result<Self> {
        Self::start_with(agent, directory, "", options)
    }

    /// The same with more exporters, as in the configuration.
    pub(in crate::commands) fn start_with(
        agent: &Path,
        directory: &Path,
        exporters: &str,
        options: &[String],
    ) -> Result<Self> {
        let folder = directory.join("host");
        // Missing at the first start.
        drop(fs::remove_dir_all(&folder));
        let log = directory.join("host.log");
        let messages =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let local = format!("local: {{type: file, folder: '{}'}}", folder.display());
        let exporters = format!("{{{local}, {exporters}}}");
        let mut command = Command::new(agent);
        command
            .args(["run", "--exporters", &exporters])
            .args(["--listen", &address.to_string()])
            // A variable that an older agent ignores.
            .env("AGENT_SOCKET", "off")
            .args(options);
        let mut running = Running::start_logging(&mut command, messages)?;
        running
            .wait_until("response", START_LIMIT, || get(address, "/readyz").ok())
            .with_context(|| format!("see {}", log.display()))?;
        Ok(Self {
            running,
            address,
            folder,
            log,
        })
    }

    pub(in crate::commands) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Its process.
    pub(in crate::commands) fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    /// Where its profiles are.
    pub(in crate::commands) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its log.
    pub(in crate::commands) fn log(&self) -> &Path {
        &self.log
    }

    /// Its metrics.
    pub(in crate::commands) fn metrics(&self) -> Result<Metrics> {
        get(self.address, "/metrics").map(Metrics)
    }

    /// Ends it as a service manager does, so that it writes its last profiles.
    pub(in crate::commands) fn stop(self, limit: Duration) -> Result<()> {
        self.running.terminate(limit)
    }
}

/// The body of the agent's response to a request of `path`.
fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    match response.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
        _ => bail!("unexpected response to {path}: {response:?}"),
    }
}

/// The text of metrics.
#[derive(Debug)]
pub(in crate::commands) struct Metrics(String);

impl Metrics {
    /// The value of a metric that has no labels.
    pub(in crate::commands) fn value(&self, name: &str) -> Result<f64> {
        let mut lines = self.0.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found
            .and_then(|value| value.parse().ok())
            .with_context(|| format!("the agent has no metric {name}"))
    }

    /// The sum of a metric over all of its labels.
    pub(in crate::commands) fn sum(&self, name: &str) -> f64 {
        let of = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let is_it = series == name || series.strip_prefix(name)?.starts_with('{');
            is_it.then(|| value.parse::<f64>().ok())?
        };
        self.0.lines().filter_map(of).sum()
    }

    /// How many series there are.
    pub(in crate::commands) fn series(&self) -> usize {
        let is_series = |line: &&str| !line.is_empty() && !line.starts_with('#');
        self.0.lines().filter(is_series).count()
    }

    /// What was added to a metric since others were read.
    pub(in crate::commands) fn gained(&self, before: &Self, name: &str) -> Result<f64> {
        Ok(self.value(name)? - before.value(name)?)
    }

    /// The sum of some metrics.
    pub(in crate::commands) fn total(&self, names: &[&str]) -> Result<f64> {
        names.iter().map(|name| self.value(name)).sum()
    }

    /// The sum of [`LOSSES`].
    pub(in crate::commands) fn lost(&self) -> Result<f64> {
        self.total(&LOSSES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let metrics = Metrics("a_total 3\na_total_b 4\n# HELP c d\nc 0.5\n".to_owned());
        assert!((metrics.value("a_total").unwrap() - 3.0).abs() < 1e-9);
        assert!((metrics.value("c").unwrap() - 0.5).abs() < 1e-9);
        let error = metrics.value("a").unwrap_err().to_string();
        assert_eq!(error, "the agent has no metric a");
        assert!(metrics.lost().is_err());
    }

    #[test]
    fn a_metric_with_labels_is_summed() {
        let text = "# HELP a b\na{c=\"d e\"} 3\na{c=\"f\"} 4\na_b 7\na_c 1\n";
        let metrics = Metrics(text.to_owned());
        assert!((metrics.sum("a") - 7.0).abs() < 1e-9);
        assert!((metrics.sum("a_b") - 7.0).abs() < 1e-9);
        assert_eq!(metrics.series(), 4);
    }
}
