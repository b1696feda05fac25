//! Pages by which processes have grown: which of them are resident when sampling ends, and which were when most were.
//!
//! ```text
//! drain ─► pages that are new, and those in whose place there is a new one
//!            │
//!            ▼
//! thread   ledger ◄─ /proc/PID/pagemap, again and again
//!            │
//!            ▼
//! drain    samples, when sampling ends
//! ```
//!
//! Looking at pages waits for the lock of the memory of each process: nobody else waits for this thread, but for a moment
//! at the end of a session.

mod events;
mod ledger;

pub(super) use self::events::{PageEvent, PageSender, channel};

use std::{
    collections::HashMap,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use anyhow::Result;

use self::ledger::{Ended, Ledger};
use crate::{
    process::Process,
    profile::{Kind, PagesOf},
    threads::Batch,
    workers::StoppableThread,
};

/// Least time between two looks: a peak that is shorter may be missed.
const INTERVAL: Duration = Duration::from_millis(20);

/// The longest time.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// Of so much time a look takes one part at most.
const PARTS: u32 = 100;

/// Most time for the last look when the session ends.
const LIMIT: Duration = Duration::from_secs(2);

/// Most processes whose pages are looked at; those of others count as resident.
const MAX_PROCESSES: usize = 512;

/// Looks at pages until this is dropped.
pub(super) struct Pages {
    thread: Option<StoppableThread>,
}

impl Pages {
    /// Starts to look at pages; `send` gets the samples of these kinds when that is stopped.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(super) fn start(
        kinds: &[&'static Kind],
        inbox: Receiver<PageEvent>,
        send: impl FnOnce(Batch) + Send + 'static,
    ) -> Result<Self> {
        let kinds: Vec<_> = kinds
            .iter()
            .filter_map(|kind| Some((kind.pages()?, kind.number)))
            .collect();
        let thread = StoppableThread::start("pages", move |stopped| {
            let ledger = watch(&inbox, stopped);
            let mut batch = Batch::default();
            for (of, number) in kinds {
                match of {
                    PagesOf::End => batch.samples.extend(ledger.resident(number)),
                    PagesOf::Peak => batch.samples.extend(ledger.at_peak(number)),
                }
            }
            send(batch);
        })?;
        Ok(Self {
            thread: Some(thread),
        })
    }

    /// Looks at the pages once more and sends the samples. All events must have been sent.
    pub(super) fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.stop(LIMIT);
        }
    }
}

/// Looks at pages until it is told to stop.
fn watch(inbox: &Receiver<PageEvent>, stopped: &Receiver<()>) -> Ledger {
    let mut ledger = Ledger::default();
    let mut memory = Memories::default();
    let mut interval = INTERVAL;
    loop {
        let is_last = stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout);
        for event in inbox.try_iter() {
            if let PageEvent::Executed(tgid) = event {
                memory.close(tgid);
            }
            ledger.add(event);
        }
        let began = Instant::now();
        ledger.look(|tgid, address| memory.is_resident(tgid, address));
        if is_last {
            return ledger;
        }
        interval = (began.elapsed() * PARTS).clamp(INTERVAL, MAX_INTERVAL);
    }
}

/// The memory of processes, opened when it is needed first.
#[derive(Default)]
struct Memories(HashMap<u32, Option<Process>>);

impl Memories {
    fn is_resident(&mut self, tgid: u32, address: u64) -> Result<bool, Ended> {
        if self.0.len() >= MAX_PROCESSES && !self.0.contains_key(&tgid) {
            return Err(Ended);
        }
        let process = self.0.entry(tgid);
        let process = process.or_insert_with(|| Process::open(tgid).ok());
        let memory = process.as_ref().and_then(|process| process.memory().ok());
        let found = memory.ok_or(Ended)?.is_page_resident(address);
        found.map_err(|_| {
            // Its descriptors are of no more use.
            *process = None;
            Ended
        })
    }

    fn close(&mut self, tgid: u32) {
        self.0.remove(&tgid);
    }
}
