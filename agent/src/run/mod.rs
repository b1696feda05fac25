//! Wires the rooms: one capture of one process or program, from its options to the written
//! profile.

mod capture;
mod code;
mod end;
mod host;
mod kept;
mod memory;
mod names;
mod sample;
mod signals;
mod time;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::Result;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::{
    aggregate::About,
    cli::{Options, Output, Target},
    discover::{Discovery, Finding},
    encode::encode,
    kernel::{self, Kernel, Settings},
    launch::Waiting,
    process, python,
    report::Summary,
};
use capture::Capture;
use end::{End, Why};
pub use host::run_host;
pub use kept::report_kept;
pub use sample::sample;
use signals::Signals;
use time::Began;

/// Samples a process, or a program from its start to its end, and writes its profile.
///
/// Gives the status to exit with, which is the program's own if one was started.
///
/// # Errors
///
/// One sentence that says what to do.
pub async fn run(options: &Options) -> Result<ExitCode> {
    memory::keep_memory_small();
    // First: without these even the process id could be misunderstood.
    kernel::check_requirements()?;
    let mut discovery = Discovery::default();
    let (pid, waiting) = match &options.target {
        Target::Process(pid) => (*pid, None),
        Target::Program { program, arguments } => {
            let waiting = Waiting::new(program, arguments)?;
            (waiting.pid(), Some(waiting))
        }
    };
    let first = if waiting.is_some() {
        discovery.add_unknown(pid);
        None
    } else {
        Some(look_at_first(&mut discovery, pid, options)?)
    };
    // From here on a signal ends the capture in order, and nothing half-done is left behind.
    let signals = match waiting {
        Some(_) => Signals::to_pass_on()?,
        None => Signals::to_end()?,
    };
    let output = Output::prepare(&options.destination, options.format, pid)?;

    let period = Duration::from_secs(1) / options.rate;
    let with_native = options.native;
    let mut kernel = Kernel::load(&Settings {
        period,
        hash_seed: random_seed(),
        with_native,
        whole_host: false,
    })?;
    let mut capture = Capture::new(discovery, options.filter.gil_only, with_native);
    kernel.add_process(pid, None, options.children)?;
    if let Some(finding) = first {
        capture.apply(&mut kernel, finding)?;
    }
    if options.children {
        // What it starts from now on the kernel half sees by itself.
        for descendant in process::descendants(pid) {
            capture.add(&mut kernel, descendant)?;
        }
    }

    capture.prepare(&mut kernel).await?;

    let mut end = End::new(pid, options.duration, signals)?;
    let began = Began::now();
    kernel.start()?;
    let mut program = waiting.map(Waiting::release).transpose()?;
    let why = capture
        .follow(
            &mut kernel,
            &mut end,
            program.as_ref(),
            began.at,
            options.duration,
        )
        .await?;
    kernel.stop()?;
    let about = began.about(period);
    capture.drain(&mut kernel)?;
    let result = write_profile(capture, &about, options, &kernel, output, why);
    drop(kernel);
    match &mut program {
        Some(program) => {
            let status = end.outlast(program).await?;
            result.map(|()| status)
        }
        None => result.map(|()| ExitCode::SUCCESS),
    }
}

/// Looks at the process that a capture is of.
fn look_at_first(discovery: &mut Discovery, pid: u32, options: &Options) -> Result<Finding> {
    let (finding, obstacle) = discovery.add(pid)?;
    match obstacle {
        // It has native frames, or may start others that are Python.
        Some(python::Error::NotPython { .. }) if options.native || options.children => {}
        Some(error) if options.native || options.children => {
            let _ = writeln!(io::stderr(), "There are no Python frames: {error}");
        }
        Some(error) => return Err(error.into()),
        None => {}
    }
    Ok(finding)
}

/// Makes the profile, writes it, and says so.
fn write_profile(
    capture: Capture,
    about: &About,
    options: &Options,
    kernel: &Kernel,
    output: Output,
    why: Why,
) -> Result<()> {
    let profile = capture.profile(about, &options.filter, &kernel.counters()?)?;
    let mut bytes = Vec::new();
    encode(&profile, options.format, &options.encoding(), &mut bytes)?;
    let written = output.commit(&bytes)?;

    let mut stderr = io::stderr().lock();
    // Standard error may be closed; the profile is written all the same.
    let _ = write!(stderr, "{}", Summary::new(&profile));
    if why == Why::ProcessEnded && matches!(options.target, Target::Process(_)) {
        let _ = writeln!(stderr, "The process ended before the time was over.");
    }
    if let Some(path) = written {
        let _ = writeln!(stderr, "Written to {}", path.display());
    }
    Ok(())
}

/// A seed that nobody knows beforehand.
fn random_seed() -> u64 {
    let mut seed = [0_u8; 8];
    // Without randomness the seed is 0: hashes are then as good, but can be foreseen.
    let _ = getrandom(&mut seed, GetRandomFlags::empty());
    u64::from_ne_bytes(seed)
}
