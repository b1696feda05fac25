//! `cargo xtask soak`: the agent of a host on which everything that can come and go does so all the time.
//!
//! Programs that nobody has seen before, interpreters in new containers and cgroups, forks, threads, new
//! functions, code that is mapped and unmapped, a series for each process, and a collector that is not
//! there ([`churn`]). Meanwhile the agent is read from outside ([`reading`]). In the end what it holds
//! must be no more than it was in the middle, and each sample must be in a profile or in a counter
//! ([`verdict`]).
//!
//! Invariants: what is compared are two parts of one run, and counts of one run with each other, so that
//! the speed of the machine does not matter.

mod churn;
mod reading;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use xtask::paths;
use xtask::process::is_root;

use super::observe::daemon::Daemon;
use super::{Results, build};
use churn::Churn;
use reading::{Profiles, Reading};
use verdict::{Accounts, Verdict};

/// The sampling rate.
const RATE_HZ: u32 = 97;

/// The time of one profile, and of one reading.
const WINDOW: Duration = Duration::from_secs(5);

/// Its time in CI.
const CHECK_TIME: Duration = Duration::from_secs(60);

/// From the end of the churn until all that it left behind is in profiles.
const QUIET: Duration = Duration::from_secs(12);

/// Most time of the agent's end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// A collector that is not there.
const UNREACHABLE: &str = "away: {type: pyroscope, url: 'http://127.0.0.1:9'}";

/// How long, and with what.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long; a third of it is not judged
    #[arg(long, default_value = "4m", value_parser = humantime::parse_duration)]
    time: Duration,
    /// Run this agent instead of building one
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
}

/// Runs it and prints what was read.
///
/// # Errors
///
/// When something could not be started, or the agent has failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let agent = options.agent.clone().map_or_else(build::agent, Ok)?;
    soak(&agent, options.time)
}

/// Runs it for a minute, as a check.
pub(crate) fn check(results: &mut Results, agent: &Path) {
    results.check("soak", || soak(agent, CHECK_TIME));
}

fn soak(agent: &Path, time: Duration) -> Result<()> {
    if !is_root() {
        bail!("the agent of a host needs root: run it as root");
    }
    let directory = paths::target().join("soak");
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let mut churn = Churn::prepare(&directory.join("programs"))?;
    let window = format!("{}s", WINDOW.as_secs());
    let rate = RATE_HZ.to_string();
    let arguments = ["--rate", &rate, "--window", &window, "--per-process"];
    let arguments = arguments.map(str::to_owned);
    let daemon = Daemon::start_with(agent, &directory, UNREACHABLE, &arguments)?;
    churn.start()?;
    let mut profiles = Profiles::default();
    let mut readings: Vec<Reading> = Vec::new();
    let began = Instant::now();
    let accounts = Accounts::begin(&daemon, &churn)?;
    while began.elapsed() < time {
        thread::sleep(WINDOW);
        profiles.read(daemon.folder())?;
        let reading = Reading::take(&daemon, began.elapsed(), churn.programs())?;
        eprintln!("{reading}");
        readings.push(reading);
    }
    let accounts = accounts.end(&daemon, &churn)?;
    let counts = churn.stop()?;
    thread::sleep(QUIET);
    let metrics = daemon.metrics()?;
    let folder = daemon.folder().to_owned();
    daemon.stop(END_LIMIT)?;
    profiles.read_all(&folder)?;

    println!("{counts}\n");
    let verdict = Verdict::of(&readings, &profiles, &accounts, &metrics)?;
    println!("{verdict}");
    let log = directory.join("host.log");
    let failures = verdict.failures();
    ensure!(
        failures.is_empty(),
        "{}; the agent's log is {}",
        failures.join("; "),
        log.display()
    );
    Ok(())
}
