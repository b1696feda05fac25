//! What comes and goes.
//!
//! Invariants: all of it ends when [`Churn`] is dropped; nothing stays in the file system but the folder
//! of programs.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use xtask::interpreters::{self, Interpreter};
use xtask::tools::GCC;

use crate::commands::observe::child::Running;
use crate::commands::observe::proc;

/// A program of some milliseconds.
const SPIN: &str = include_str!("../../../soak/spin.c");

/// What Python programs do.
const SCRIPT: &str = include_str!("../../../soak/churn.py");

/// The long-lived programs, by what they do.
const LONG_LIVED: [&str; 5] = ["code", "forks", "jit", "threads", STEADY];

/// The program that does the same all the time.
const STEADY: &str = "steady";

/// Milliseconds of CPU time of a short program.
const SPIN_MS: &str = "4";

/// Pause after a short program.
const PAUSE: Duration = Duration::from_millis(10);

/// Where version 2 of the control groups is mounted.
const MOUNTS: &str = "/proc/self/mounts";

/// The time in which a short program must end.
const SHORT: Duration = Duration::from_secs(60);

/// The programs.
pub(super) struct Churn {
    folder: PathBuf,
    script: PathBuf,
    spin: Vec<u8>,
    interpreters: Vec<Interpreter>,
    cgroups: PathBuf,
    long_lived: Vec<(&'static str, Running)>,
    threads: Vec<JoinHandle<Result<()>>>,
    shared: Arc<Shared>,
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    programs: AtomicU64,
    containers: AtomicU64,
    /// Locked while a program is written or started: a process that is forked while a program is open for
    /// writing has it open until it executes its own, and meanwhile the program cannot be executed.
    starting: Mutex<()>,
}

impl Shared {
    fn start(&self, command: &mut Command) -> Result<Running> {
        let _starting = self.starting();
        Running::start(command)
    }

    fn starting(&self) -> MutexGuard<'_, ()> {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many there were.
pub(super) struct Counts {
    programs: u64,
    containers: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            programs,
            containers,
        } = self;
        write!(
            out,
            "{programs} different programs, {containers} interpreters, each in a container and a \
             control group of its own"
        )
    }
}

impl Churn {
    /// Compiles the programs; `folder` is theirs alone.
    pub(super) fn prepare(folder: &Path) -> Result<Self> {
        // Missing at the first time.
        drop(fs::remove_dir_all(folder));
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let script = folder.join("churn.py");
        fs::write(&script, SCRIPT)?;
        let (source, program) = (folder.join("spin.c"), folder.join("spin"));
        fs::write(&source, SPIN)?;
        GCC.ensure()?;
        let compiled = GCC
            .command()
            .args(["-O1", "-g", "-o"])
            .args([&program, &source])
            .status()?;
        ensure!(compiled.success(), "cannot compile {}", source.display());
        Ok(Self {
            folder: folder.to_owned(),
            script,
            spin: fs::read(&program)?,
            interpreters: interpreters::representatives()?,
            cgroups: control_groups()?,
            long_lived: Vec::new(),
            threads: Vec::new(),
            shared: Arc::default(),
        })
    }

    /// Starts all of it.
    pub(super) fn start(&mut self) -> Result<()> {
        let python = interpreters::distribution()?;
        for what in LONG_LIVED {
            let mut command = Command::new(&python.path);
            command
                .args(["-B", &self.script.display().to_string(), what])
                .env("OTEL_SERVICE_NAME", service(what));
            self.long_lived.push((what, Running::start(&mut command)?));
        }
        let (folder, spin) = (self.folder.clone(), self.spin.clone());
        self.repeat(move |shared| {
            let number = shared.programs.fetch_add(1, Ordering::Relaxed);
            run_program(shared, &folder, &spin, number)
        });
        let (script, cgroups) = (self.script.clone(), self.cgroups.clone());
        let interpreters = self.interpreters.clone();
        self.repeat(move |shared| {
            let number = shared.containers.fetch_add(1, Ordering::Relaxed);
            let turn = usize::try_from(number)? % interpreters.len();
            run_container(shared, &cgroups, &interpreters[turn].path, &script, number)
        });
        Ok(())
    }

    /// Repeats `once` in a thread of its own until it is over.
    fn repeat(&mut self, once: impl Fn(&Shared) -> Result<()> + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        self.threads.push(thread::spawn(move || {
            while !shared.is_over.load(Ordering::Relaxed) {
                once(&shared)?;
                thread::sleep(PAUSE);
            }
            Ok(())
        }));
    }

    /// The service and the CPU time of the program that does the same all the time.
    pub(super) fn steady(&self) -> Result<(String, Duration)> {
        let found = self.long_lived.iter().find(|(what, _)| *what == STEADY);
        let (what, running) = found.context("nothing is running")?;
        Ok((service(what), proc::cpu_time(running.pid())?))
    }

    /// Programs that were started so far, in containers or not.
    pub(super) fn programs(&self) -> u64 {
        let Shared {
            programs,
            containers,
            ..
        } = &*self.shared;
        programs.load(Ordering::Relaxed) + containers.load(Ordering::Relaxed)
    }

    /// Ends all of it.
    pub(super) fn stop(&mut self) -> Result<Counts> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(result) => result?,
                Err(_) => bail!("a thread panicked"),
            }
        }
        for (what, running) in &self.long_lived {
            ensure!(!proc::has_ended(running.pid()), "`{what}` has ended early");
        }
        self.end_long_lived();
        Ok(Counts {
            programs: self.shared.programs.load(Ordering::Relaxed),
            containers: self.shared.containers.load(Ordering::Relaxed),
        })
    }

    fn end_long_lived(&mut self) {
        for (_, running) in self.long_lived.drain(..) {
            let pid = running.pid();
            drop(running);
            // Of one of them only.
            let _ = fs::remove_file(format!("/tmp/perf-{pid}.map"));
        }
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It is over anyway.
            drop(thread.join());
        }
        self.end_long_lived();
    }
}

fn service(what: &str) -> String {
    format!("soak-{what}")
}

/// Runs a program that was never there before.
fn run_program(shared: &Shared, folder: &Path, spin: &[u8], number: u64) -> Result<()> {
    let path = folder.join(number.to_string());
    let starting = shared.starting();
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o755);
    let program = [spin, &number.to_ne_bytes()].concat();
    options.open(&path)?.write_all(&program)?;
    drop(starting);
    let run = shared.start(Command::new(&path).arg(SPIN_MS));
    let ended = run.and_then(|run| run.finish(SHORT));
    fs::remove_file(&path)?;
    ended.map(drop)
}

/// Runs an interpreter in a PID namespace and a control group of its own, under the name of a container
/// of a pod.
fn run_container(
    shared: &Shared,
    cgroups: &Path,
    python: &Path,
    script: &Path,
    number: u64,
) -> Result<()> {
    let pod = cgroups.join(format!("kubepods/pod00000000-0000-4000-8000-{number:012x}"));
    let container = pod.join(format!("{number:064x}"));
    fs::create_dir_all(&container)
        .with_context(|| format!("cannot make {}", container.display()))?;
    let enter =
        "echo $$ > \"$0/cgroup.procs\"; exec unshare --pid --mount --fork --mount-proc \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", enter])
        .arg(&container)
        .arg(python)
        .args(["-B", &script.display().to_string(), "once"])
        .stdin(Stdio::null());
    let ended = shared.start(&mut command).and_then(|run| run.finish(SHORT));
    for group in [container, pod] {
        fs::remove_dir(&group).with_context(|| format!("cannot remove {}", group.display()))?;
    }
    ended.map(drop)
}

/// A folder of the control groups of version 2.
fn control_groups() -> Result<PathBuf> {
    let mounts = fs::read_to_string(MOUNTS).with_context(|| format!("cannot read {MOUNTS}"))?;
    let found = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    });
    found.context("no control groups of version 2 are mounted: mount -t cgroup2 none /mnt")
}
