//! Coverage-guided fuzzing of the agent's parsers with libFuzzer: builds `agent/fuzz` and runs its
//! targets.
//!
//! The compiler's own coverage counters are used, so that any stable toolchain will do. In CI only the
//! agent's own crates are instrumented, and all others are those of its release build, which takes a fifth
//! of the time. What a run adds to a corpus is in the target directory; `--keep` adds the smallest inputs
//! with new coverage to `agent/fuzz/corpus`, where CI starts.
//!
//! Invariants: overflow checks and debug assertions are on in what is instrumented; an input has limits of
//! time and memory.

use std::collections::VecDeque;
use std::env::consts::ARCH;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use xtask::paths;
use xtask::process::{cargo, run as run_command};

use super::setup;

/// Time of each target in CI.
const CHECK_TIME: Duration = Duration::from_secs(3);

/// Seeds of libFuzzer: in CI always the same, so that a change is not judged by what chance finds; by
/// hand another one each time.
const CHECK_SEED: u32 = 1;
const RANDOM_SEED: u32 = 0;

/// Most bytes of an input.
const MAX_BYTES: usize = 16 << 10;

/// Most time of an input, in seconds, and most memory of a run, in MiB: tables of a file may take 150.
const MAX_SECONDS: u32 = 10;
const MAX_MEMORY: u32 = 512;

/// Most bytes of a kept corpus that is added to.
const MAX_KEPT: u64 = 40 << 10;

/// Environment variable with the target that the program runs.
const VARIABLE: &str = "AGENT_FUZZ_TARGET";

/// What makes the compiler count coverage as libFuzzer reads it, and check.
const FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions=on",
    "-Coverflow-checks=on",
];

/// Of the check, which executes little: built in a quarter of the time.
const CHECK_OPTIMIZATION: [&str; 2] = ["-Copt-level=0", "-Cdebuginfo=0"];

/// Of a search: built twice as fast as with the level of a release.
const SEARCH_OPTIMIZATION: [&str; 1] = ["-Copt-level=1"];

/// The compiler that adds flags for the agent's own crates, which it takes from a variable.
const COMPILER: &str = "xtask/compilers/fuzzers";
const COMPILER_FLAGS: &str = "AGENT_FUZZ_FLAGS";

/// What to fuzz.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these targets: names of files in agent/fuzz/src/targets
    targets: Vec<String>,
    /// Time of each target
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    time: Duration,
    /// Add the smallest inputs with new coverage to agent/fuzz/corpus
    #[arg(long)]
    keep: bool,
}

/// Runs targets, as many at once as there are CPUs.
///
/// # Errors
///
/// When the program cannot be built, or an input was found that fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let all = targets()?;
    for target in &options.targets {
        ensure!(
            all.contains(target),
            "there is no target `{target}`: choose from {}",
            all.join(", ")
        );
    }
    let wanted = if options.targets.is_empty() {
        &all
    } else {
        &options.targets
    };
    let fuzzer = Fuzzer::for_search()?;
    fuzzer.run_all(wanted, options.time)?;
    if options.keep {
        for target in wanted {
            fuzzer.keep(target)?;
        }
    }
    Ok(())
}

/// The names of all targets.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(package().join("src/targets"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        names.extend(name.filter(|name| *name != "mod").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn package() -> PathBuf {
    paths::workspace().join("agent/fuzz")
}

/// Where corpora, inputs that fail and output are.
fn directory() -> PathBuf {
    paths::target().join("fuzz")
}

fn flags(optimization: &[&'static str]) -> Vec<&'static str> {
    [&FLAGS, optimization].concat()
}

fn build_command() -> Command {
    let mut command = cargo();
    command.args(["build", "--release", "--locked", "--package", "agent-fuzz"]);
    command
}

fn build(command: &mut Command) -> Result<()> {
    setup::bpf()?;
    setup::fuzzers()?;
    run_command(command)
}

/// The program with all targets.
pub(crate) struct Fuzzer {
    program: PathBuf,
    directory: PathBuf,
    seed: u32,
}

impl Fuzzer {
    /// The program for [`Self::check`], of which the agent's own crates are instrumented.
    ///
    /// # Errors
    ///
    /// When it cannot be built.
    pub(crate) fn for_check() -> Result<Self> {
        build(
            build_command()
                .env("RUSTC_WORKSPACE_WRAPPER", paths::workspace().join(COMPILER))
                .env(COMPILER_FLAGS, flags(&CHECK_OPTIMIZATION).join(" ")),
        )?;
        Ok(Self {
            program: paths::target().join("release/agent-fuzz"),
            directory: directory(),
            seed: CHECK_SEED,
        })
    }

    /// The program for long runs, all of which is instrumented.
    fn for_search() -> Result<Self> {
        let target = format!("{ARCH}-unknown-linux-gnu");
        build(
            build_command()
                // With a target, flags are not those of build scripts.
                .args(["--target", &target])
                .env(
                    "CARGO_ENCODED_RUSTFLAGS",
                    flags(&SEARCH_OPTIMIZATION).join("\u{1f}"),
                )
                .env("CARGO_TARGET_DIR", directory()),
        )?;
        Ok(Self {
            program: directory().join(target).join("release/agent-fuzz"),
            directory: directory(),
            seed: RANDOM_SEED,
        })
    }

    /// Runs each target for some seconds from the kept corpus.
    ///
    /// # Errors
    ///
    /// When an input was found that fails.
    pub(crate) fn check(&self) -> Result<()> {
        self.run_all(&targets()?, CHECK_TIME)
    }

    /// Runs targets and prints the executions of each; all of them run, also after a failure.
    fn run_all(&self, targets: &[String], time: Duration) -> Result<()> {
        let left = Mutex::new(targets.iter().collect::<VecDeque<_>>());
        let failed = Mutex::new(Vec::new());
        let next = || left.lock().ok()?.pop_front();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(target) = next() {
                        match self.run(target, time) {
                            Ok(executions) => println!("{target}: {executions} executions"),
                            Err(error) => {
                                println!("{target}: FAILED: {error:#}");
                                if let Ok(mut failed) = failed.lock() {
                                    failed.push(target.as_str());
                                }
                            }
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner().unwrap_or_default();
        ensure!(failed.is_empty(), "inputs fail: {}", failed.join(", "));
        Ok(())
    }

    /// Runs a target and returns the number of executions.
    fn run(&self, target: &str, time: Duration) -> Result<u64> {
        let corpus = self.folder("corpus", target)?;
        let kept = package().join("corpus").join(target);
        ensure!(kept.is_dir(), "there is no corpus {}", kept.display());
        let artifacts = self.folder("artifacts", target)?;
        let output = self.directory.join(format!("{target}.log"));
        let mut command = self.command(target, &output)?;
        command
            .arg(format!("-max_total_time={}", time.as_secs().max(1)))
            .arg(format!("-seed={}", self.seed))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg("-print_final_stats=1")
            .args([corpus, kept]);
        let is_success = command.status()?.success();
        let log = fs::read(&output)?;
        let log = String::from_utf8_lossy(&log);
        if !is_success {
            let reason = log.lines().find(|line| is_reason(line));
            let reason = reason.unwrap_or("it ended without a reason");
            bail!(
                "{reason}; see {} and {}",
                output.display(),
                artifacts.display()
            );
        }
        executions(&log).with_context(|| format!("no executions are in {}", output.display()))
    }

    /// Adds what has other coverage than the kept corpus to it, the smallest inputs first.
    fn keep(&self, target: &str) -> Result<()> {
        let kept = package().join("corpus").join(target);
        let merged = self.directory.join("merged").join(target);
        if merged.exists() {
            fs::remove_dir_all(&merged)?;
        }
        fs::create_dir_all(&merged)?;
        let mut total = 0;
        for (bytes, path) in files(&kept)? {
            total += bytes;
            fs::copy(&path, merged.join(name(&path)))?;
        }
        let output = self.directory.join(format!("{target}.merge.log"));
        run_command(
            self.command(target, &output)?
                .arg("-merge=1")
                .args([&merged, &self.folder("corpus", target)?]),
        )
        .with_context(|| format!("see {}", output.display()))?;
        for (bytes, path) in files(&merged)? {
            let to = kept.join(name(&path));
            if to.exists() {
                continue;
            }
            total += bytes;
            if total > MAX_KEPT {
                break;
            }
            fs::copy(&path, to)?;
        }
        Ok(())
    }

    /// The program with the limits of an input, and its output in a file.
    fn command(&self, target: &str, output: &Path) -> Result<Command> {
        let log = File::create(output)?;
        let mut command = Command::new(&self.program);
        command
            .env(VARIABLE, target)
            .arg(format!("-max_len={MAX_BYTES}"))
            .arg(format!("-timeout={MAX_SECONDS}"))
            .arg(format!("-rss_limit_mb={MAX_MEMORY}"))
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }

    fn folder(&self, kind: &str, target: &str) -> Result<PathBuf> {
        let folder = self.directory.join(kind).join(target);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }
}

/// The files of a folder with their sizes, the smallest first.
fn files(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.len(), entry.path()));
    }
    files.sort();
    Ok(files)
}

fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// Whether a line of libFuzzer's output says why it ended early.
fn is_reason(line: &str) -> bool {
    line.contains("panicked at") || line.contains("ERROR: libFuzzer:")
}

/// The number of executions in libFuzzer's output.
fn executions(log: &str) -> Option<u64> {
    let line = log
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_in_the_statistics() {
        let log = "#4\tDONE\nstat::number_of_executed_units: 1234\nstat::peak_rss_mb:  40\n";
        assert_eq!(executions(log), Some(1234));
        assert_eq!(executions("Done 4 runs"), None);
    }

    #[test]
    fn every_target_has_a_corpus() {
        let targets = targets().unwrap();
        assert!(!targets.is_empty());
        for target in targets {
            let corpus = package().join("corpus").join(&target);
            assert!(fs::read_dir(&corpus).unwrap().next().is_some(), "{target}");
        }
    }
}
