//! Takes the stacks of all threads of a process, by a session that ends as soon as it has them.

use std::{collections::HashMap, time::Duration};

use anyhow::{Context as _, Result, bail};

use super::variables;
use crate::{
    aggregate::Filter,
    bpf,
    commands::{
        cli::{DumpOptions, ShownFrames},
        examine::{self, examine},
        record::SYMBOL_BYTES,
    },
    profile::{
        self, Periods, Profile, RecordedExceptions,
        kinds::{gil, lock, wall},
    },
    python::{Interpreter, remote::locals::FrameVariables},
    session::{
        End, EndReason, Examinations, Observer, Origin, SampleTimes, Scope, Session, Settings,
        Signals, memory,
    },
    symbolize::{CpuShare, CpuShares, NativeSymbolizer},
    targets::labels::metadata::MetadataOptions,
    threads::{DeadlockedThread, Deadlocks, Snapshot, SnapshotThread, WaitRecords},
};

/// Samples per second of a thread that runs.
const RATE: u32 = 1000;

/// What was taken.
pub(super) struct Capture {
    /// Each stack once, with what its thread waited for.
    pub(super) profile: Profile,
    /// All threads, also those without a stack.
    pub(super) threads: Vec<SnapshotThread>,
    pub(super) deadlocks: Vec<Vec<DeadlockedThread>>,
    pub(super) processes: HashMap<u32, FoundProcess>,
    /// The variables of threads, or why there are none, by process and thread; with `--locals`.
    pub(super) variables: HashMap<(u32, u32), Result<Vec<FrameVariables>, String>>,
    /// For how long stacks were taken.
    pub(super) duration: Duration,
    /// Whether there is a GIL.
    pub(super) has_gil: bool,
}

/// A process.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundProcess {
    pub(super) process: profile::Process,
    pub(super) command_line: Option<String>,
}

/// Takes the stack of each thread of the processes.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn take(options: &DumpOptions) -> Result<Capture> {
    memory::limit_arenas();
    bpf::check_requirements()?;
    let native = options.native;
    let examinations = Examinations::new(native);
    examinations.set_metadata(MetadataOptions {
        command_line: true,
        without_environment: true,
    });
    let others = native || options.children;
    let found = examine(&examinations, &options.processes, others).await?;
    let pids = examine::pids(&found);
    let mut interpreters = found.iter().filter_map(|one| one.interpreter.as_ref().ok());
    let has_gil = interpreters.any(|it| !it.flavour.is_free_threaded);
    let interpreters = found.iter().filter_map(|one| {
        let interpreter = one.interpreter.as_ref().ok()?;
        Some((one.process.pid, (**interpreter).clone()))
    });
    let interpreters: HashMap<u32, Interpreter> = interpreters.collect();
    let mut signals = Signals::to_end()?;
    let snapshot = Snapshot::default();
    let deadlocks = Deadlocks::default();
    let settings = Settings {
        kinds: vec![&wall::KIND, &gil::KIND, &lock::KIND],
        periods: Periods::new(RATE, None),
        native,
        gil: true,
        wait_identities: true,
        exceptions: RecordedExceptions::default(),
        times: SampleTimes::Dropped,
        records: WaitRecords {
            deadlocks: Some(deadlocks.clone()),
            snapshot: Some(snapshot.clone()),
            ..WaitRecords::default()
        },
        symbol_bytes: SYMBOL_BYTES,
    };
    let scope = Scope::of(found, options.children);
    let mut found = Processes::default();
    let opened = Session::open(&settings, examinations, scope, &mut signals, &mut found);
    let mut session = opened.await?;
    let mut end = End::new(&pids, None, signals)?;
    let frames = options.frames;
    // The result is nothing.
    drop(session.profiles.run(move |profiles| {
        if let Some(native) = &mut profiles.native {
            limit_look_ups(native, frames);
        }
    }));
    let began = session.start()?;
    let taken = session.take_snapshot(&began, &snapshot, options.timeout, &mut end, &mut found);
    let reason = taken.await?;
    let duration = began.at.elapsed();
    let variables = match options.locals {
        Some(characters) => variables::read(&snapshot.threads(), interpreters, characters),
        None => HashMap::new(),
    };
    let filter = Filter {
        idle: true,
        ..Filter::default()
    };
    let finished = session.finish(&began, settings.periods, &filter, reason, &mut end, None);
    let profile = finished.await?.into_iter().next();
    let threads = snapshot.threads();
    if threads.is_empty() {
        match reason {
            EndReason::ProcessEnded => {
                bail!("{} ended before a thread was seen", examine::subject(&pids))
            }
            _ => bail!(
                "no thread of {} was seen: try again with a longer --timeout",
                examine::subject(&pids)
            ),
        }
    }
    Ok(Capture {
        profile: profile.context("there is no profile")?,
        threads,
        deadlocks: deadlocks.all(),
        processes: found.0,
        variables,
        duration,
        has_gil,
    })
}

/// Leaves out what is not shown, and takes longer to look up than all else takes.
fn limit_look_ups(native: &mut NativeSymbolizer, frames: ShownFrames) {
    if !frames.kernel {
        native.leave_out_kernel();
    }
    if !frames.inlined {
        let nothing = CpuShare {
            burst: Duration::ZERO,
            per_second: Duration::ZERO,
        };
        native.limit_cpu(CpuShares {
            opening: nothing,
            look_ups: nothing,
        });
    }
}

/// The processes that a session has found.
#[derive(Default)]
struct Processes(HashMap<u32, FoundProcess>);

impl Observer for Processes {
    fn on_process(&mut self, process: &profile::Process, origin: Origin) -> Option<bool> {
        let command_line = match origin {
            Origin::Examined(Some(metadata)) => metadata.command_line.clone(),
            Origin::Examined(None) | Origin::Forked => None,
        };
        let found = FoundProcess {
            process: process.clone(),
            command_line,
        };
        self.0.insert(process.pid, found);
        None
    }
}
