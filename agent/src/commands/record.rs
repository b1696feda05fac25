//! One capture of processes or a program: from its options to the written profile.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    cli::{RecordOptions, Target},
    examine::{self, Examined, check_probes, examine},
    outputs::Outputs,
    progress::Progress,
    summary::Summary,
};
use crate::{
    bpf,
    formats::Format,
    process::thread_comm,
    profile::{Periods, Profile},
    session::{
        End, EndReason, Examinations, Followed, Observer, SampleTimes, Scope, Session, Settings,
        Signals, memory,
    },
    targets::launch::PausedChild,
    text::{plural, printable},
    threads::WaitRecords,
};

/// Most bytes that the symbols of files take.
pub(super) const SYMBOL_BYTES: usize = 64 << 20;

/// Samples processes, or a program from its start to its end, and writes its profile.
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
    let children = options.children;
    let mut follows = false;
    let (pids, scope, waiting) = match &options.target {
        Target::Processes(selection) => {
            let others = options.native || children;
            let Examined { found, follow } = examine(&examinations, selection, others).await?;
            follows = follow.is_some();
            if !children && !follows {
                check_probes(&found, &options.kinds)?;
            }
            let pids = examine::pids(&found);
            let scope = Scope::of(found, children).following(follow);
            (pids, scope, None)
        }
        Target::Program {
            program,
            arguments,
            user,
        } => {
            let waiting = PausedChild::new(program, arguments, user.as_ref())?;
            let pid = waiting.pid();
            let scope = Scope::Unstarted { pid, children };
            (vec![pid], scope, Some(waiting))
        }
    };
    // From here on a signal ends the capture in order, and nothing half-done is left behind.
    let mut signals = match waiting {
        Some(_) => Signals::to_pass_on()?,
        None => Signals::to_end()?,
    };
    let words: Vec<_> = options.kinds.iter().map(|kind| kind.name).collect();
    let first = pids.first().copied().unwrap_or_default();
    let outputs = Outputs::prepare_several(&options.outputs, first, &words)?;

    let settings = Settings {
        kinds: options.kinds.clone(),
        periods: Periods::new(options.rate, options.wait_rate),
        native: options.native,
        gil: options.filter.gil_only,
        wait_identities: true,
        trace_switches: options.trace_switches,
        exceptions: options.exceptions,
        records: WaitRecords::default(),
        times: sample_times(options),
        symbol_bytes: SYMBOL_BYTES,
    };
    let mut session = Session::open(&settings, examinations, scope, &mut signals, &mut ()).await?;
    let mut end = if follows {
        End::of_time(options.duration, signals)
    } else {
        End::new(&pids, options.duration, signals)?
    };
    let began = session.start()?;
    let mut program = waiting.map(PausedChild::release).transpose()?;
    let mut progress = ProgressLine::new(program.is_some(), options.duration);
    let mut reason = session
        .run(&began, &mut end, program.as_ref(), &mut progress)
        .await?;
    if reason == EndReason::ProcessEnded && children && !end.is_interrupted() {
        reason = session
            .run_remaining(&began, &mut end, &mut progress)
            .await?;
    }
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
    let notes = match session.followed() {
        Some(followed) => followed_text(&followed),
        None => ended_text(reason, options, &pids).to_owned(),
    };
    drop(session);
    let result = profiles.and_then(|profiles| write_profiles(&profiles, options, outputs, &notes));
    match &mut program {
        Some(program) => {
            let status = end.outlast(program).await?;
            result.map(|()| status)
        }
        None => result.map(|()| ExitCode::SUCCESS),
    }
}

/// Says that the processes have ended, if that has ended the capture.
fn ended_text(reason: EndReason, options: &RecordOptions, pids: &[u32]) -> &'static str {
    match (reason, &options.target) {
        (EndReason::ProcessEnded, Target::Processes(_)) => match pids {
            [_] => "The process ended before the time was over.\n",
            _ => "All processes ended before the time was over.\n",
        },
        _ => "",
    }
}

/// Says what became of processes that started later, in up to three lines.
fn followed_text(followed: &Followed) -> String {
    let mut text = String::new();
    let counts = [
        (followed.started, "started meanwhile"),
        (
            followed.left_out as u64,
            "started meanwhile and not sampled: too many were running",
        ),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        let processes = plural(count, "process", "processes");
        // Writing to a string does not fail.
        let _ = writeln!(text, "{count} {processes} {what}.");
    }
    if followed.running == 0 {
        text += "No matching process ran at the end.\n";
    }
    text
}

/// For how long nothing runs before that is said: what is restarted comes soon.
const NOTHING_AFTER: Duration = Duration::from_secs(1);

/// The line of progress, where there is one: a program has the terminal for itself.
struct ProgressLine {
    line: Option<Progress>,
    /// Since when no process runs that is to be sampled.
    nothing_since: Option<Instant>,
    /// Whether it was said why the capture goes on.
    is_said: bool,
}

impl ProgressLine {
    fn new(has_program: bool, duration: Option<Duration>) -> Self {
        let duration = duration.filter(|_| !has_program);
        Self {
            line: duration.map(Progress::new),
            nothing_since: None,
            is_said: false,
        }
    }

    fn finish(self) {
        if let Some(line) = self.line {
            line.finish();
        }
    }
}

impl Observer for ProgressLine {
    fn on_progress(&mut self, elapsed: Duration, samples: u64) {
        if let Some(line) = &self.line {
            line.update(elapsed, samples);
        }
    }

    fn on_followed(&mut self, followed: &Followed) {
        if followed.running > 0 {
            self.nothing_since = None;
            return;
        }
        let since = *self.nothing_since.get_or_insert_with(Instant::now);
        if since.elapsed() < NOTHING_AFTER || self.is_said {
            return;
        }
        // Once: what runs and ends every few seconds would fill the terminal.
        self.is_said = true;
        if let Some(line) = &self.line {
            line.say("No matching process runs any more: the capture goes on, and takes those that start");
        }
    }

    fn on_remaining(&mut self, pids: &[u32]) {
        let Some(&first) = pids.first().filter(|_| !self.is_said) else {
            return;
        };
        self.is_said = true;
        let name = thread_comm(first, first).unwrap_or_default();
        let text = remaining_text(pids.len() as u64, &name, first);
        match &self.line {
            Some(line) => line.say(&text),
            None => {
                // Standard error may be closed.
                let _ = writeln!(io::stderr(), "{text}");
            }
        }
    }
}

/// Says that the capture goes on with so many processes, of which one has this name and id.
fn remaining_text(count: u64, name: &str, pid: u32) -> String {
    let name = printable(name);
    if count == 1 {
        format!("{name} ({pid}) still runs: the capture ends with it, or by Ctrl-C")
    } else {
        format!(
            "{count} processes still run, as {name} ({pid}): the capture ends with the last of them, or by Ctrl-C"
        )
    }
}

/// Times are kept where one of the formats shows them.
fn sample_times(options: &RecordOptions) -> SampleTimes {
    let mut formats = options.outputs.iter().map(|output| output.format);
    if formats.any(Format::has_times) {
        SampleTimes::Kept
    } else {
        SampleTimes::Dropped
    }
}

/// Encodes and writes the profiles, and prints their summaries.
fn write_profiles(
    profiles: &[Profile],
    options: &RecordOptions,
    outputs: Outputs,
    notes: &str,
) -> Result<()> {
    let written = outputs.write(profiles, options.encoding);
    let mut stderr = io::stderr().lock();
    // Standard error may be closed; the profiles are written all the same.
    for (nth, profile) in profiles.iter().enumerate() {
        let before = if nth == 0 { "" } else { "\n" };
        let _ = write!(
            stderr,
            "{before}{}",
            Summary::new(profile, options.encoding)
        );
    }
    let _ = write!(stderr, "{notes}");
    written.print(&mut stderr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_capture_goes_on_with_is_named() {
        assert_eq!(
            remaining_text(1, "sleep", 7),
            "sleep (7) still runs: the capture ends with it, or by Ctrl-C"
        );
        assert_eq!(
            remaining_text(3, "a\u{1b}b", 7),
            "3 processes still run, as a\\u{1b}b (7): the capture ends with the last of them, or by Ctrl-C"
        );
    }
}
