//! `agent gil`: which threads of a process hold the GIL, which wait for it, and where.

mod profiles;
mod table;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use self::{profiles::Profiles, table::Table};
use super::{cli::GilOptions, progress::Progress, record::SYMBOL_BYTES};
use crate::{
    aggregate::Filter,
    bpf,
    profile::kinds::{gil, gil_held, wall},
    session::{End, EndReason, Examinations, Observer, Scope, Session, Settings, Signals, memory},
    threads::GilTimes,
};

/// Samples a process and prints the table.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn run(options: &GilOptions) -> Result<ExitCode> {
    memory::limit_arenas();
    bpf::check_requirements()?;
    let pid = options.pid;
    let examinations = Examinations::new(true);
    let finding = examinations.examine(pid).await?;
    let interpreter = finding.interpreter.as_ref();
    let has_gil = interpreter.is_ok_and(|it| !it.flavour.is_free_threaded);
    if let Err(error) = finding.interpreter {
        return Err(error.into());
    }
    let mut signals = Signals::to_end()?;
    let times = GilTimes::default();
    let settings = Settings {
        kinds: vec![&wall::KIND, &gil::KIND, &gil_held::KIND],
        period: Duration::from_secs(1) / options.rate,
        native: true,
        gil: true,
        blocked_threads: true,
        gil_times: Some(times.clone()),
        symbol_bytes: SYMBOL_BYTES,
    };
    let scope = Scope::Process {
        pid,
        finding: Some(Box::new(finding)),
        children: false,
    };
    let mut session = Session::open(&settings, examinations, scope, &mut signals, &mut ()).await?;
    let mut end = End::new(pid, Some(options.duration), signals)?;
    let began = session.start()?;
    let mut progress = Line(Progress::new(options.duration));
    let reason = session.run(&began, &mut end, None, &mut progress).await?;
    progress.0.finish();
    let filter = Filter {
        idle: true,
        ..Filter::default()
    };
    let profiles = session
        .finish(&began, settings.period, &filter, reason, &mut end, None)
        .await?;
    let profiles = Profiles::new(profiles)?;
    if profiles.elapsed.samples.is_empty() {
        bail!("no thread of process {pid} was seen: sample it for longer with --duration");
    }
    if !has_gil && profiles.blamed.samples.is_empty() {
        // It can be switched on when such a program runs.
        bail!(
            "process {pid} runs without a GIL, as this build of Python does: `agent --pid {pid} --event \
             wall` shows what its threads wait for"
        );
    }
    let mut output = io::stdout().lock();
    write!(output, "{}", Table::new(&profiles, &times)).context("cannot write the table")?;
    if reason == EndReason::ProcessEnded {
        writeln!(io::stderr(), "The process ended before the time was over.").ok();
    }
    Ok(ExitCode::SUCCESS)
}

/// The line of progress.
struct Line(Progress);

impl Observer for Line {
    fn on_progress(&mut self, elapsed: Duration, samples: u64) {
        self.0.update(elapsed, samples);
    }
}
