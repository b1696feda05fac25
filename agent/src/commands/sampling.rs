//! Samples what one process waits for, for a table on the terminal.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use anyhow::{Result, bail};

use super::{cli::WaitOptions, progress::Progress, record::SYMBOL_BYTES};
use crate::{
    aggregate::Filter,
    bpf,
    profile::{Kind, Periods, Profile, RecordedExceptions},
    session::{
        End, EndReason, Examinations, Observer, SampleTimes, Scope, Session, Settings, Signals,
        memory,
    },
    targets::examiner::Finding,
    threads::WaitRecords,
};

/// The profiles of these kinds of a process, in their order; what `check` does not like is an error.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn sample(
    options: &WaitOptions,
    pid: u32,
    kinds: Vec<&'static Kind>,
    records: WaitRecords,
    check: impl FnOnce(&Finding) -> Result<()>,
) -> Result<Vec<Profile>> {
    memory::limit_arenas();
    bpf::check_requirements()?;
    let examinations = Examinations::new(true);
    let finding = examinations.examine(pid).await?;
    check(&finding)?;
    let mut signals = Signals::to_end()?;
    let settings = Settings {
        kinds,
        periods: Periods::new(options.rate, None),
        native: true,
        gil: true,
        wait_identities: true,
        trace_switches: false,
        exceptions: RecordedExceptions::default(),
        times: SampleTimes::Dropped,
        records,
        symbol_bytes: SYMBOL_BYTES,
    };
    let scope = Scope::of(vec![finding], false);
    let mut session = Session::open(&settings, examinations, scope, &mut signals, &mut ()).await?;
    let mut end = End::new(&[pid], Some(options.duration), signals)?;
    let began = session.start()?;
    let mut progress = Line(Progress::new(options.duration));
    let reason = session.run(&began, &mut end, None, &mut progress).await?;
    progress.0.finish();
    let filter = Filter {
        idle: true,
        ..Filter::default()
    };
    let profiles = session
        .finish(&began, settings.periods, &filter, reason, &mut end, None)
        .await?;
    if profiles
        .first()
        .is_none_or(|first| first.samples.is_empty())
    {
        bail!("no thread of process {pid} was seen: sample it for longer with --duration");
    }
    if reason == EndReason::ProcessEnded {
        writeln!(io::stderr(), "The process ended before the time was over.").ok();
    }
    Ok(profiles)
}

/// The line of progress.
struct Line(Progress);

impl Observer for Line {
    fn on_progress(&mut self, elapsed: Duration, samples: u64) {
        self.0.update(elapsed, samples);
    }
}
