//! What a dump has taken: the stacks of all threads, and what is known of their processes.

use std::{collections::HashMap, time::Duration};

use anyhow::{Result, bail};

use crate::{
    commands::{
        cli::DumpOptions,
        examine::{self, examine},
        record::SYMBOL_BYTES,
    },
    profile::{
        self, Periods, Profile, RecordedExceptions,
        kinds::{gil, lock, wall},
    },
    python::{Interpreter, remote::locals::FrameVariables},
    session::{EndReason, Examinations, Observer, Origin, SampleTimes, Settings},
    targets::{examiner::Finding, labels::metadata::MetadataOptions},
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
    /// What all stacks lack, and why, if they do.
    pub(super) note: Option<String>,
}

/// A process.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundProcess {
    pub(super) process: profile::Process,
    pub(super) command_line: Option<String>,
}

/// The processes of a dump before it is taken, and what it fills.
pub(super) struct Subjects {
    pub(super) examinations: Examinations,
    pub(super) found: Vec<Finding>,
    pub(super) pids: Vec<u32>,
    pub(super) interpreters: HashMap<u32, Interpreter>,
    pub(super) has_gil: bool,
    pub(super) snapshot: Snapshot,
    pub(super) deadlocks: Deadlocks,
    pub(super) settings: Settings,
}

impl Subjects {
    /// Examines the processes.
    ///
    /// # Errors
    ///
    /// One sentence that says what to do.
    pub(super) async fn examine(options: &DumpOptions, native: bool) -> Result<Self> {
        let examinations = Examinations::new(native);
        examinations.set_metadata(MetadataOptions {
            command_line: true,
            without_environment: true,
        });
        let others = native || options.children;
        let found = examine(&examinations, &options.processes, others).await?;
        let mut interpreters = found.iter().filter_map(|one| one.interpreter.as_ref().ok());
        let has_gil = interpreters.any(|it| !it.flavour.is_free_threaded);
        let interpreters = found.iter().filter_map(|one| {
            let interpreter = one.interpreter.as_ref().ok()?;
            Some((one.process.pid, (**interpreter).clone()))
        });
        let interpreters = interpreters.collect();
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
        Ok(Self {
            pids: examine::pids(&found),
            examinations,
            found,
            interpreters,
            has_gil,
            snapshot,
            deadlocks,
            settings,
        })
    }
}

/// All threads of a snapshot.
///
/// # Errors
///
/// One sentence, when there is none.
pub(super) fn threads_of(
    snapshot: &Snapshot,
    pids: &[u32],
    reason: EndReason,
) -> Result<Vec<SnapshotThread>> {
    let threads = snapshot.threads();
    if threads.is_empty() {
        match reason {
            EndReason::ProcessEnded => {
                bail!("{} ended before a thread was seen", examine::subject(pids))
            }
            _ => bail!(
                "no thread of {} was seen: try again with a longer --timeout",
                examine::subject(pids)
            ),
        }
    }
    Ok(threads)
}

/// The processes that a session has found.
#[derive(Default)]
pub(super) struct Processes(pub(super) HashMap<u32, FoundProcess>);

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
