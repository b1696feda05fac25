//! What the agent holds at a moment, and the profiles that it has written.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};

use crate::commands::observe::daemon::Daemon;
use crate::commands::observe::pprof::Profile;
use crate::commands::observe::proc;
use crate::commands::observe::stats::float;

/// A profile may be removed when it was not written for so long.
const SETTLED: Duration = Duration::from_secs(2);

/// A quantity that must stay what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Quantity {
    Memory,
    Maps,
    Descriptors,
    Threads,
    Executables,
    CacheEntries,
    Processes,
    Waiting,
    Series,
    Cpu,
}

impl Quantity {
    /// Most of it, where it grows for as long as a part of a short run takes, or longer, until the oldest
    /// is dropped.
    pub(super) fn limit(self) -> Option<f64> {
        match self {
            // They are forgotten at the end of a window in which a quarter of 2,048 open ones had no
            // process; until the next end as many more come as programs were started.
            Self::Executables => Some(1200.0),
            Self::Descriptors => Some(1300.0),
            // A generation of the caches ends after ten minutes, or when there are 200,000.
            Self::CacheEntries => Some(220_000.0),
            // Those of the lanes, the drain, the profiles and the supervisor, and all that may block on a
            // disk: how many of these there are in a minute is chance.
            Self::Threads => Some(28.0),
            _ => None,
        }
    }

    /// Its name, and how much more of it there may be without being growth, besides a tenth.
    pub(super) fn describe(self) -> (&'static str, f64) {
        match self {
            Self::Memory => ("RSS, MB", 3.0),
            Self::Maps => ("BPF maps, MB", 0.5),
            Self::Descriptors => ("descriptors", 50.0),
            Self::Threads => ("threads", 2.0),
            Self::Executables => ("executables", 100.0),
            Self::CacheEntries => ("cache entries", 1000.0),
            Self::Processes => ("processes", 50.0),
            Self::Waiting => ("batches waiting", 10.0),
            Self::Series => ("metric series", 10.0),
            Self::Cpu => ("CPU, ms per program", 1.0),
        }
    }
}

/// All quantities at a moment.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) at: Duration,
    pub(super) values: BTreeMap<Quantity, f64>,
    /// CPU time so far.
    cpu: Duration,
    /// Programs that were started so far: what the agent does grows with them, and how many there are in a
    /// second depends on the machine.
    programs: u64,
}

impl Reading {
    /// Reads the agent.
    pub(super) fn take(daemon: &Daemon, at: Duration, programs: u64) -> Result<Self> {
        let pid = daemon.pid();
        let metrics = daemon.metrics()?;
        let count = |folder: &str| -> Result<f64> {
            Ok(float(
                fs::read_dir(format!("/proc/{pid}/{folder}"))?.count() as u64,
            ))
        };
        let maps: u64 = proc::maps(pid)?.values().sum();
        let values = [
            (Quantity::Memory, float(proc::memory_bytes(pid)?) / 1e6),
            (Quantity::Maps, float(maps) / 1e6),
            (Quantity::Descriptors, count("fd")?),
            (Quantity::Threads, count("task")?),
            (
                Quantity::Executables,
                metrics.sum("profiling_agent_executables"),
            ),
            (
                Quantity::CacheEntries,
                metrics.sum("profiling_agent_cache_entries"),
            ),
            (
                Quantity::Processes,
                metrics.sum("profiling_agent_processes"),
            ),
            (
                Quantity::Waiting,
                metrics.sum("profiling_agent_export_queue_length"),
            ),
            (Quantity::Series, float(metrics.series() as u64)),
        ];
        Ok(Self {
            at,
            values: values.into(),
            cpu: proc::cpu_time(pid)?,
            programs,
        })
    }

    #[cfg(test)]
    pub(super) fn with(at: Duration, quantity: Quantity, value: f64) -> Self {
        Self {
            at,
            values: [(quantity, value)].into(),
            cpu: Duration::ZERO,
            programs: 0,
        }
    }

    /// The values, with the CPU time for each program since an earlier reading.
    pub(super) fn since(&self, before: &Self) -> BTreeMap<Quantity, f64> {
        let programs = self.programs.saturating_sub(before.programs).max(1);
        let cpu = self.cpu.saturating_sub(before.cpu).as_secs_f64();
        let mut values = self.values.clone();
        values.insert(Quantity::Cpu, 1000.0 * cpu / float(programs));
        values
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:>5} s", self.at.as_secs())?;
        for (quantity, value) in &self.values {
            write!(out, "  {}: {value:.1}", quantity.describe().0)?;
        }
        write!(out, "  CPU: {:.2} s", self.cpu.as_secs_f64())
    }
}

/// What was in profiles, by service; profiles that were read are removed, so that there is no end to
/// the time.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    /// Samples of all.
    pub(super) samples: u64,
    /// Files.
    pub(super) files: u64,
    services: BTreeMap<String, u64>,
}

impl Profiles {
    /// The samples of a service.
    pub(super) fn of_service(&self, service: &str) -> u64 {
        self.services.get(service).copied().unwrap_or(0)
    }

    /// Reads and removes the profiles that are complete.
    pub(super) fn read(&mut self, folder: &Path) -> Result<()> {
        let until = SystemTime::now().checked_sub(SETTLED);
        self.read_until(folder, until.context("it is 1970")?)
    }

    /// Reads and removes all, when the agent has ended.
    pub(super) fn read_all(&mut self, folder: &Path) -> Result<()> {
        self.read_until(folder, SystemTime::now())
    }

    fn read_until(&mut self, folder: &Path, until: SystemTime) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            // A file that is being written, and gone at the next look.
            if name.to_string_lossy().starts_with('.') || entry.metadata()?.modified()? > until {
                continue;
            }
            let profile = Profile::read(&entry.path())?;
            self.files += 1;
            self.samples += profile.count();
            if let Some(service) = profile.label("service_name") {
                *self.services.entry(service.to_owned()).or_default() += profile.count();
            }
            fs::remove_file(entry.path())?;
        }
        // Those of short programs are many.
        self.services
            .retain(|service, _| service.starts_with("soak-"));
        Ok(())
    }
}
