//! Profiles a small Python program, and prints where the results are.
//!
//! Invariant: the workload ends when the command does, also after an error.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use xtask::paths;
use xtask::process::{as_root, find_program, run};

use super::build;

/// The files to write, and their formats.
const RESULTS: [(&str, &str); 3] = [
    ("profile.pb.gz", "pprof"),
    ("flame.svg", "flame graph"),
    ("profile.folded", "folded stacks"),
];

/// Builds the agent, profiles a workload three times for five seconds, and prints the results.
///
/// # Errors
///
/// When the agent cannot be built or fails, or there is no Python.
pub(crate) fn profile_workload() -> Result<()> {
    let agent = build::agent()?;
    // Without root it fails here, before anything is started.
    as_root(&agent, false)?;
    let python = find_program("python3").context("python3 is missing: install it")?;
    let workload = Workload::start(&python)?;
    let directory = paths::target().join("demo");
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;

    println!(
        "profiling process {} three times, for 5 seconds each",
        workload.child.id()
    );
    for (nth, (file, _)) in RESULTS.into_iter().enumerate() {
        let mut command = as_root(&agent, false)?;
        command
            .args(["--pid", &workload.child.id().to_string()])
            .args(["--duration", "5s", "-o"])
            .arg(directory.join(file));
        if nth > 0 {
            // The summary would be the same.
            command.stderr(Stdio::null());
        }
        run(&mut command)?;
    }
    drop(workload);

    if let Some(go) = find_program("go") {
        run(Command::new(go)
            .args(["tool", "pprof", "-top", "-nodecount=15"])
            .arg(directory.join("profile.pb.gz")))?;
    }
    for (file, what) in RESULTS {
        println!("{what}: {}", directory.join(file).display());
    }
    Ok(())
}

/// A running workload, ended when dropped.
struct Workload {
    child: Child,
}

impl Workload {
    /// Starts it and waits until it is at work.
    fn start(python: &Path) -> Result<Self> {
        let mut child = Command::new(python)
            .arg(paths::workspace().join("xtask/demo/workload.py"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", python.display()))?;
        let stdout = child.stdout.take();
        let workload = Self { child };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        if line.trim() != "ready" {
            bail!("the workload does not start: run xtask/demo/workload.py to see why");
        }
        Ok(workload)
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // An error means that it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
