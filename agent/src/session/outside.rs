//! A snapshot without the BPF programs, for those who may read processes but not load programs.
//!
//! Passes from outside find the stacks of threads that do not run, with Python frames alone. All else is as in a
//! [`Session`](super::Session): the same samples, records and profiles.
//!
//! Invariants: nothing is loaded into the kernel; processes that start meanwhile are not looked at.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use tokio::time::{interval, timeout_at};

use super::{
    START_LIMIT, TICK,
    clock::Began,
    counting::{Counting, Received},
    end::{End, EndReason},
    examinations::Examinations,
    observer::{Observer, Origin},
    profiles::Profiles,
    seed::random_seed,
    settings::{Settings, counting_of, passes_of},
};
use crate::{
    aggregate::Filter,
    bpf::Records,
    process,
    profile::Profile,
    targets::examiner::Finding,
    threads::{self, OutsideProcesses, Passes, ProcessLocation, ProcessLocations, Snapshot},
};

/// Most bytes of records of a snapshot: code objects, stacks and names.
const MAX_BYTES: usize = 64 << 20;

/// A session that loads no programs.
pub struct OutsideSession {
    began: Began,
    passes: Passes,
    profiles: Profiles,
    received: Arc<Mutex<ReceivedRecords>>,
}

/// What passes have found.
#[derive(Default)]
struct ReceivedRecords {
    counting: Counting,
    records: Vec<Records>,
    bytes: usize,
}

impl OutsideSession {
    /// Begins passes over the threads of some processes, and of their descendants where `children` says so.
    ///
    /// # Errors
    ///
    /// When the thread that makes them cannot be started.
    pub async fn open<O: Observer>(
        settings: &Settings,
        examinations: &Examinations,
        mut found: Vec<Finding>,
        children: bool,
        observer: &mut O,
    ) -> Result<Self> {
        if children {
            let descendants = examine_descendants(examinations, &found).await;
            found.extend(descendants);
        }
        let locations = ProcessLocations::default();
        let mut processes = OutsideProcesses::default();
        let mut profiles = Profiles::new(None, examinations.executables.clone());
        for finding in found {
            let interpreter = finding.interpreter.as_ref().ok();
            if let Some(interpreter) = interpreter {
                let location = ProcessLocation {
                    gil: interpreter.gil,
                    tasks: None,
                };
                locations.set(finding.process.pid, location);
            }
            processes.add(finding.opened, interpreter.map(|it| &**it));
            observer.on_process(
                &finding.process,
                Origin::Examined(finding.metadata.as_ref()),
            );
            profiles.catalog.add_process(finding.process);
        }
        let received = Arc::new(Mutex::new(ReceivedRecords {
            counting: counting_of(settings),
            ..ReceivedRecords::default()
        }));
        let shared = Arc::clone(&received);
        let pass_settings = threads::Settings {
            traced: None,
            with_native: false,
            ..passes_of(settings, random_seed())
        };
        let began = Began::now();
        let workers = examinations.workers.clone();
        let passes = Passes::start(pass_settings, processes, locations, workers, move |batch| {
            let mut into = Received::default();
            let mut received = lock(&shared);
            received.counting.receive_batch(&batch, &mut into);
            let bytes = into.references.bytes();
            if received.bytes.saturating_add(bytes) <= MAX_BYTES {
                received.bytes += bytes;
                received.records.push(into.references);
            }
        })?;
        Ok(Self {
            began,
            passes,
            profiles,
            received,
        })
    }

    /// Goes on until each thread has its stack in the snapshot, for `limit`, or until `end`.
    ///
    /// # Errors
    ///
    /// When passes cannot go on.
    pub async fn take_snapshot(
        &mut self,
        snapshot: &Snapshot,
        limit: Duration,
        end: &mut End,
    ) -> Result<EndReason> {
        let deadline = self.began.at + limit;
        let mut ticks = interval(TICK);
        loop {
            tokio::select! {
                reason = end.wait(None) => return Ok(reason),
                complete = timeout_at(deadline.into(), snapshot.complete()) => {
                    // In time, or not.
                    drop(complete);
                    return Ok(EndReason::TimeOver);
                }
                _ = ticks.tick() => self.passes.supervise()?,
            }
        }
    }

    /// For how long stacks were taken.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.at.elapsed()
    }

    /// Ends the passes and returns the profile of the first kind.
    ///
    /// # Errors
    ///
    /// When there is no kind.
    pub fn finish(mut self, settings: &Settings, filter: &Filter) -> Result<Profile> {
        self.passes.stop();
        let mut received = lock(&self.received);
        for records in std::mem::take(&mut received.records) {
            self.profiles.receive(&records);
        }
        received.counting.end_window();
        let mut window = received.counting.windows.take();
        window.set_start(self.began.monotonic_ns);
        let kind = settings.kinds.first().context("nothing is recorded")?;
        let about = self.began.about(settings.periods).of_kind(kind);
        Ok(self.profiles.profile_of(&window, &about, filter))
    }
}

/// What is found out about the descendants of processes, as far as it is there within a while.
pub async fn examine_descendants(examinations: &Examinations, found: &[Finding]) -> Vec<Finding> {
    let deadline = Instant::now() + START_LIMIT;
    let pids: Vec<u32> = found.iter().map(|one| one.process.pid).collect();
    let descendants = process::descendants(&pids).into_iter();
    let pending: Vec<_> = descendants
        .filter(|one| !pids.contains(&one.pid))
        .map(|one| examinations.submit(one.pid, Some(one.parent)).result())
        .collect();
    let mut found = Vec::new();
    for pending in pending {
        // Those that have ended or may not be read are left out.
        if let Ok(Ok(Ok(finding))) = timeout_at(deadline.into(), pending).await {
            found.push(finding);
        }
    }
    found
}

fn lock(received: &Mutex<ReceivedRecords>) -> MutexGuard<'_, ReceivedRecords> {
    // It is consistent after every statement, so also after a panic.
    received.lock().unwrap_or_else(PoisonError::into_inner)
}
