//! Shows the agent at work: profiles a small Python program and says where the results are.
//!
//! Invariant: the workload ends with the demonstration, however that ends.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use xtask::paths;
use xtask::process::{as_root, find_program, run};

use super::build;

/// The files to write, by what each is.
const RESULTS: [(&str, &str); 3] = [
    ("profile.pb.gz", "pprof"),
    ("flame.svg", "flame graph"),
    ("profile.folded", "folded stacks"),
];

/// Builds the agent, profiles a workload for five seconds, and prints where the time went.
///
/// # Errors
///
/// When the agent cannot be built or fails, or there is no Python.
pub(crate) fn profile_workload() -> Result<()> {
    let agent = build::agent()?;
    // Fails here if we are not root and cannot become it, before anything else is started.
    as_root(&agent, false)?;
    let python = find_program("python3").context("the demonstration needs python3: install it")?;
    let workload = Workload::start(&python)?;
    let directory = paths::target().join("demo");
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;

    println!(
        "sampling process {} for 5 seconds, thrice",
        workload.child.id()
    );
    for (nth, (file, _)) in RESULTS.into_iter().enumerate() {
        let mut command = as_root(&agent, false)?;
        command
            .args(["--pid", &workload.child.id().to_string()])
            .args(["--duration", "5s", "-o"])
            .arg(directory.join(file));
        if nth > 0 {
            // The summary is the same as that of the first.
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
            bail!("the workload of the demonstration does not start");
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
