//! One capture of a process or a program: from its options to the written profile.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::Result;

use super::{
    cli::{RecordOptions, Target},
    output::{Output, OutputError},
    progress::Progress,
    summary::Summary,
};
use crate::{
    bpf,
    formats::encode,
    profile::{Periods, Profile},
    python,
    session::{End, EndReason, Examinations, Observer, Scope, Session, Settings, Signals, memory},
    targets::{examiner::Finding, launch::PausedChild},
    threads::WaitRecords,
};

/// Most bytes that the symbols of files take.
pub(super) const SYMBOL_BYTES: usize = 64 << 20;

/// Samples a process, or a program from its start to its end, and writes its profile.
///
/// Returns the exit status, which is the program's own if one was started.
///
/// # Errors
///
/// One sentence that says what to do.
pub async fn run(options: &RecordOptions) -> Result<ExitCode> {
    memory::limit_arenas();
    // First: without these even the process id could be misunderstood.
    bpf::check_requirements()?;
    let examinations = Examinations::new(options.native);
    let (pid, waiting) = match &options.target {
        Target::Process(pid) => (*pid, None),
        Target::Program {
            program,
            arguments,
            user,
        } => {
            let waiting = PausedChild::new(program, arguments, *user)?;
            (waiting.pid(), Some(waiting))
        }
    };
    let finding = match waiting {
        Some(_) => None,
        None => Some(examine(&examinations, pid, options.native || options.children).await?),
    };
    // From here on a signal ends the capture in order, and nothing half-done is left behind.
    let mut signals = match waiting {
        Some(_) => Signals::to_pass_on()?,
        None => Signals::to_end()?,
    };
    let outputs = outputs(options, pid)?;

    let settings = Settings {
        kinds: options.kinds.clone(),
        periods: Periods::new(options.rate, options.wait_rate),
        native: options.native,
        gil: options.filter.gil_only,
        wait_identities: true,
        records: WaitRecords::default(),
        symbol_bytes: SYMBOL_BYTES,
    };
    let scope = Scope::Process {
        pid,
        finding: finding.map(Box::new),
        children: options.children,
    };
    let mut session = Session::open(&settings, examinations, scope, &mut signals, &mut ()).await?;
    let mut end = End::new(pid, options.duration, signals)?;
    let began = session.start()?;
    let mut program = waiting.map(PausedChild::release).transpose()?;
    let mut progress = ProgressLine::new(program.is_some(), options.duration);
    let reason = session
        .run(&began, &mut end, program.as_ref(), &mut progress)
        .await?;
    progress.finish();
    let profiles = session
        .finish(
            &began,
            settings.periods,
            &options.filter,
            reason,
            &mut end,
            program.as_ref(),
        )
        .await;
    drop(session);
    let result = profiles.and_then(|profiles| write_profiles(&profiles, options, outputs, reason));
    match &mut program {
        Some(program) => {
            let status = end.outlast(program).await?;
            result.map(|()| status)
        }
        None => result.map(|()| ExitCode::SUCCESS),
    }
}

/// Examines the process that a capture is of, which has `others` than its own Python frames or has to be Python.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn examine(
    examinations: &Examinations,
    pid: u32,
    others: bool,
) -> Result<Finding> {
    let finding = examinations.examine(pid).await?;
    match finding.interpreter {
        // It has native frames, or may start others that are Python.
        Err(python::Error::NotPython { .. }) if others => {}
        Err(ref error) if others => {
            let _ = writeln!(io::stderr(), "There are no Python frames: {error}");
        }
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    Ok(finding)
}

/// The line of progress, where there is one: a program has the terminal for itself.
struct ProgressLine(Option<Progress>);

impl ProgressLine {
    fn new(has_program: bool, duration: Option<Duration>) -> Self {
        let duration = duration.filter(|_| !has_program);
        Self(duration.map(Progress::new))
    }

    fn finish(self) {
        if let Some(progress) = self.0 {
            progress.finish();
        }
    }
}

impl Observer for ProgressLine {
    fn on_progress(&mut self, elapsed: Duration, samples: u64) {
        if let Some(progress) = &self.0 {
            progress.update(elapsed, samples);
        }
    }
}

/// An output for each kind; where there are several, each has its name.
fn outputs(options: &RecordOptions, pid: u32) -> Result<Vec<Output>, OutputError> {
    let kinds = options.kinds.iter();
    let outputs = kinds.map(|kind| {
        let word = (options.kinds.len() > 1).then_some(kind.name);
        Output::prepare(&options.destination, options.format, pid, word)
    });
    outputs.collect()
}

/// Encodes and writes the profiles, and prints their summaries.
fn write_profiles(
    profiles: &[Profile],
    options: &RecordOptions,
    outputs: Vec<Output>,
    reason: EndReason,
) -> Result<()> {
    let mut written = Vec::new();
    for (profile, output) in profiles.iter().zip(outputs) {
        let mut bytes = Vec::new();
        encode(profile, options.format, options.encoding(), &mut bytes)?;
        written.extend(output.commit(&bytes)?);
    }

    let mut stderr = io::stderr().lock();
    // Standard error may be closed; the profiles are written all the same.
    for (nth, profile) in profiles.iter().enumerate() {
        let before = if nth == 0 { "" } else { "\n" };
        let _ = write!(
            stderr,
            "{before}{}",
            Summary::new(profile, options.internals)
        );
    }
    if reason == EndReason::ProcessEnded && matches!(options.target, Target::Process(_)) {
        let _ = writeln!(stderr, "The process ended before the time was over.");
    }
    for path in written {
        let _ = writeln!(stderr, "Written to {}", path.display());
    }
    Ok(())
}
