//! The thread that builds profiles: it symbolizes, encodes and compresses.
//!
//! Invariants: it does one thing after the other in the order in which it was sent, so that a window
//! comes after all that its samples refer to; what waits for it is bounded in bytes; it reads no
//! file and no process that others control: for that there are [`Workers`](crate::workers::Workers).

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use anyhow::{Context as _, Result};
use tokio::sync::oneshot;

use super::profiles::Profiles;
use crate::bpf::Records;
use crate::symbolize::LookupTotals;

/// Most bytes of records that wait.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// What the thread is doing, readable at any time.
#[derive(Debug, Default)]
pub struct BuilderStatus {
    /// Cached stacks, Python and native.
    stacks: AtomicUsize,
    /// Cached code objects.
    code_objects: AtomicUsize,
    /// Counts of look-ups in files.
    lookups: Mutex<LookupTotals>,
    /// Records dropped because too much was waiting.
    pub lost_records: AtomicU64,
    /// Things done.
    done: AtomicU64,
    /// Whether it is doing something.
    is_busy: AtomicBool,
    waiting_bytes: AtomicUsize,
    /// Whether records were dropped that the BPF programs have to send again.
    has_lost: AtomicBool,
}

impl BuilderStatus {
    /// Counts of look-ups in files.
    #[must_use]
    pub fn lookups(&self) -> LookupTotals {
        *self.lookups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cached stacks and cached code objects.
    #[must_use]
    pub fn cached(&self) -> (usize, usize) {
        (
            self.stacks.load(Ordering::Relaxed),
            self.code_objects.load(Ordering::Relaxed),
        )
    }
}

/// The thread; it ends when all of its senders are dropped.
#[derive(Clone)]
pub struct ProfileBuilder {
    sender: mpsc::Sender<Message>,
    status: Arc<BuilderStatus>,
    built: Arc<AtomicU64>,
}

/// Sends records to the thread, and never waits.
#[derive(Clone)]
pub(super) struct ReferenceSender(ProfileBuilder);

enum Message {
    Records(Records),
    Run(Box<dyn FnOnce(&mut Profiles) + Send>),
}

impl ProfileBuilder {
    pub(super) fn start(mut profiles: Profiles) -> Result<Self> {
        let (sender, inbox) = mpsc::channel();
        let status = Arc::new(BuilderStatus::default());
        let shared = Arc::clone(&status);
        let built = Arc::clone(&profiles.built);
        thread::Builder::new()
            .name("profiles".to_owned())
            .spawn(move || {
                for message in inbox {
                    shared.is_busy.store(true, Ordering::Relaxed);
                    match message {
                        Message::Records(records) => {
                            let waiting = &shared.waiting_bytes;
                            waiting.fetch_sub(records.bytes(), Ordering::Relaxed);
                            profiles.receive(&records);
                        }
                        Message::Run(run) => run(&mut profiles),
                    }
                    let stacks = profiles.catalog.cached_stacks();
                    shared.stacks.store(stacks, Ordering::Relaxed);
                    let code_objects = profiles.python.len();
                    shared.code_objects.store(code_objects, Ordering::Relaxed);
                    if let Some(native) = &profiles.native {
                        let lookups = shared.lookups.lock();
                        *lookups.unwrap_or_else(PoisonError::into_inner) = native.totals();
                    }
                    shared.done.fetch_add(1, Ordering::Relaxed);
                    shared.is_busy.store(false, Ordering::Relaxed);
                }
            })
            .context("cannot start a thread")?;
        Ok(Self {
            sender,
            status,
            built,
        })
    }

    /// Has the thread do something after all that it was sent before. The result is lost if nobody
    /// waits for it.
    pub fn run<T: Send + 'static>(
        &self,
        run: impl FnOnce(&mut Profiles) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (reply, answer) = oneshot::channel();
        let run = move |profiles: &mut Profiles| {
            let _ = reply.send(run(profiles));
        };
        // The thread ends after its last sender.
        let _ = self.sender.send(Message::Run(Box::new(run)));
        answer
    }

    /// What the thread is doing.
    #[must_use]
    pub fn status(&self) -> &Arc<BuilderStatus> {
        &self.status
    }

    /// A number that changes while the thread makes progress; [`None`] while it has nothing to do.
    #[must_use]
    pub fn progress(&self) -> Option<u64> {
        let done = self.status.done.load(Ordering::Relaxed);
        let built = self.built.load(Ordering::Relaxed);
        let is_busy = self.status.is_busy.load(Ordering::Relaxed);
        is_busy.then_some(done.wrapping_add(built))
    }

    pub(super) fn references(&self) -> ReferenceSender {
        ReferenceSender(self.clone())
    }

    /// Whether records were dropped since the last call.
    pub(super) fn take_lost(&self) -> bool {
        self.status.has_lost.swap(false, Ordering::Relaxed)
    }
}

impl ReferenceSender {
    pub(super) fn send(&self, records: Records) {
        let status = &self.0.status;
        let waiting = status.waiting_bytes.load(Ordering::Relaxed);
        if waiting + records.bytes() > MAX_WAITING_BYTES {
            let lost = &status.lost_records;
            lost.fetch_add(records.len() as u64, Ordering::Relaxed);
            status.has_lost.store(true, Ordering::Relaxed);
            return;
        }
        status
            .waiting_bytes
            .fetch_add(records.bytes(), Ordering::Relaxed);
        let _ = self.0.sender.send(Message::Records(records));
    }
}
