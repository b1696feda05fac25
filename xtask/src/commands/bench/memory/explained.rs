//! What profilers explain of the growth of a program: the sum of their profile against what the kernel
//! says that the program's resident memory has grown by.
//!
//! A profiler in the program makes it larger. What it explains is compared with the growth of the
//! program without it, and by how much the program grows with it is printed too.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use xtask::process::capture;

use super::super::profiler::Folded;
use super::super::workload::Workload;
use super::contender::{Contender, Tools, output};
use crate::commands::observe::proc;

/// The ways to grow, in the order of the program.
pub(super) const WAYS: [&str; 5] = [
    "small objects",
    "0.6 to 100 KB",
    "10 MB blocks",
    "eight threads",
    "parsed JSON",
];

/// Time limit of the growth, and of the end.
const LIMIT: Duration = Duration::from_secs(60);

/// What the numbers of the program are.
const TOLD: usize = 1;
const TRACED: usize = 2;
const HAS_GROWN: usize = 3;

/// What it is told.
const GROW: u64 = 1;
const END: u64 = 2;

/// Both events of the agent in one run.
const EVENTS: &str = "growth,in-use";

/// What was measured of one way to grow.
#[derive(Debug)]
pub(super) struct Growth {
    pub(super) way: &'static str,
    /// By how much the program grows.
    pub(super) bytes: u64,
    pub(super) rows: Vec<(&'static str, Result<Explained>)>,
}

/// What a profiler has found, and by how much the program has grown with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Explained {
    pub(super) found: u64,
    pub(super) grown: u64,
}

/// Lets a program grow with each profiler.
pub(super) fn measure(tools: &Tools, nth: u32, way: &'static str) -> Result<Growth> {
    let mut program = Program::start(tools, nth, Contender::Agent(EVENTS))?;
    let profile = output("folded")?;
    let attached = Contender::Agent(EVENTS).attach(tools, program.workload.pid(), &profile)?;
    program.grow()?;
    attached.finish()?;
    let bytes = program.grown;
    let of_event = |event: &str| {
        Ok(Explained {
            found: Folded::read(&output(&format!("{event}.folded"))?)?.total(),
            grown: bytes,
        })
    };
    let rows = vec![
        ("agent growth", of_event("growth")),
        ("agent in-use", of_event("in-use")),
        ("perf trace -F all", perf(tools, nth)),
        ("tracemalloc", tracemalloc(tools, nth)),
        ("memray run", memray(tools, nth)),
    ];
    Ok(Growth { way, bytes, rows })
}

fn perf(tools: &Tools, nth: u32) -> Result<Explained> {
    let mut program = Program::start(tools, nth, Contender::PerfTrace)?;
    let text = output("perf")?;
    let attached = Contender::PerfTrace.attach(tools, program.workload.pid(), &text)?;
    program.grow()?;
    attached.finish()?;
    let text = fs::read(&text).with_context(|| format!("cannot read {}", text.display()))?;
    // Of a huge page it says as much as of another one.
    let faults = String::from_utf8_lossy(&text).matches("fault [").count();
    Ok(Explained {
        found: u64::try_from(faults)? * page_bytes()?,
        grown: program.grown,
    })
}

fn tracemalloc(tools: &Tools, nth: u32) -> Result<Explained> {
    let mut program = Program::start(tools, nth, Contender::Tracemalloc(1))?;
    program.grow()?;
    Ok(Explained {
        found: program.workload.counts()?[TRACED],
        grown: program.grown,
    })
}

fn memray(tools: &Tools, nth: u32) -> Result<Explained> {
    let mut program = Program::start(tools, nth, Contender::Memray)?;
    program.grow()?;
    let grown = program.grown;
    program.workload.set_count(TOLD, END)?;
    program.workload.finish(LIMIT)?;
    // What there is at the end is the most that there was.
    let script = "import memray, sys
print(memray.FileReader(sys.argv[1]).metadata.peak_memory)";
    let mut python = Command::new(&tools.python.path);
    python.args(["-c", script]).arg(output("bin")?);
    let found = capture(&mut python)?;
    Ok(Explained {
        found: found.parse().context("memray has no number")?,
        grown,
    })
}

/// The program that grows when it is told to.
struct Program {
    workload: Workload,
    grown: u64,
}

impl Program {
    fn start(tools: &Tools, nth: u32, contender: Contender) -> Result<Self> {
        let options = contender.options(tools, &output("bin")?)?;
        let workload = Workload::start_with(&tools.python, &options, "growing", Some(nth))?;
        Ok(Self { workload, grown: 0 })
    }

    fn grow(&mut self) -> Result<()> {
        let pid = self.workload.pid();
        let before = proc::memory_bytes(pid)?;
        self.workload.set_count(TOLD, GROW)?;
        let began = Instant::now();
        while self.workload.counts()?[HAS_GROWN] == 0 {
            if proc::has_ended(pid) || began.elapsed() > LIMIT {
                bail!("the program does not grow");
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.grown = proc::memory_bytes(pid)?.saturating_sub(before);
        Ok(())
    }
}

fn page_bytes() -> Result<u64> {
    // SAFETY: the call takes a number only.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).context("the kernel has no pages")
}
