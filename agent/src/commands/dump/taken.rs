//! What a dump has taken: the stacks of all threads, and what is known of their processes.

use std::{collections::HashMap, time::Duration};

use anyhow::{Result, bail};

use super::variables;
use crate::{
    aggregate::Filter,
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

/// What stacks were taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakenFrom {
    /// Processes that run.
    Processes,
    /// A core dump: its ids of processes and threads are those of others by now.
    CoreDump {
        /// The thread that has received the signal for which it was written.
        crashed: Option<u32>,
    },
}

/// What was taken.
pub(super) struct Capture {
    pub(super) from: TakenFrom,
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
    /// Whether there is a GIL; of a core dump, whether it is known too who held it.
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

/// The processes of a dump before it is taken.
pub(super) struct Subjects {
    pub(super) examinations: Examinations,
    pub(super) found: Vec<Finding>,
    pub(super) settings: Settings,
    pub(super) taking: Taking,
}

/// What is filled while a dump is taken.
pub(super) struct Taking {
    pub(super) pids: Vec<u32>,
    pub(super) snapshot: Snapshot,
    interpreters: HashMap<u32, Interpreter>,
    has_gil: bool,
    deadlocks: Deadlocks,
}

/// A dump of which no more stacks are taken.
pub(super) struct Ended<'a> {
    taking: &'a Taking,
    variables: HashMap<(u32, u32), Result<Vec<FrameVariables>, String>>,
    duration: Duration,
    reason: EndReason,
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
        let found = examine(&examinations, &options.processes, others)
            .await?
            .found;
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
            trace_switches: false,
            exceptions: RecordedExceptions::default(),
            times: SampleTimes::Dropped,
            records: WaitRecords {
                deadlocks: Some(deadlocks.clone()),
                snapshot: Some(snapshot.clone()),
                ..WaitRecords::default()
            },
            symbol_bytes: SYMBOL_BYTES,
        };
        let taking = Taking {
            pids: examine::pids(&found),
            snapshot,
            interpreters,
            has_gil,
            deadlocks,
        };
        Ok(Self {
            examinations,
            found,
            settings,
            taking,
        })
    }
}

impl Taking {
    /// Ends it: variables, if they are wanted, are read now.
    pub(super) fn end(
        &self,
        options: &DumpOptions,
        duration: Duration,
        reason: EndReason,
    ) -> Ended<'_> {
        let variables = match options.locals {
            Some(characters) => {
                variables::read(&self.snapshot.threads(), &self.interpreters, characters)
            }
            None => HashMap::new(),
        };
        Ended {
            taking: self,
            variables,
            duration,
            reason,
        }
    }
}

impl Ended<'_> {
    /// What was taken, with its profile.
    ///
    /// # Errors
    ///
    /// One sentence, when no thread was seen.
    pub(super) fn with(
        self,
        profile: Profile,
        processes: &Processes,
        note: Option<String>,
    ) -> Result<Capture> {
        let Taking {
            pids,
            snapshot,
            has_gil,
            deadlocks,
            ..
        } = self.taking;
        Ok(Capture {
            from: TakenFrom::Processes,
            threads: threads_of(snapshot, pids, self.reason)?,
            profile,
            deadlocks: deadlocks.all(),
            processes: processes.0.clone(),
            variables: self.variables,
            duration: self.duration,
            has_gil: *has_gil,
            note,
        })
    }
}

/// Which stacks are shown: also those of threads that wait for work.
pub(super) fn shown() -> Filter {
    Filter {
        idle: true,
        ..Filter::default()
    }
}

/// All threads of a snapshot.
///
/// # Errors
///
/// One sentence, when there is none.
fn threads_of(snapshot: &Snapshot, pids: &[u32], reason: EndReason) -> Result<Vec<SnapshotThread>> {
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
pub(super) struct Processes(HashMap<u32, FoundProcess>);

impl Processes {
    /// How many there are, with those that have ended.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

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
