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

pub(super) use self::events::{PageEvent, PageEvents, PageSender, channel};

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use tracing::warn;

use self::ledger::Ledger;
use crate::{
    process::{PageMap, resident_pages},
    profile::{Kind, PagesOf},
    threads::Batch,
    workers::StoppableThread,
};

/// Least time between two looks: a peak that is shorter may be missed.
const INTERVAL: Duration = Duration::from_millis(20);

/// Of so much time looks take one part at most.
const PARTS: u32 = 100;

/// What they may take at once, of the time in which there was nothing to look at.
const BURST: Duration = Duration::from_millis(200);

/// Most time for the last look when the session ends.
const LIMIT: Duration = Duration::from_secs(1);

/// Looks at pages until this is dropped.
pub(super) struct Pages {
    thread: Option<StoppableThread>,
    lost: Arc<AtomicU64>,
}

impl Pages {
    /// Starts to look at pages; `send` gets the samples of these kinds when that is stopped.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(super) fn start(
        kinds: &[&'static Kind],
        events: PageEvents,
        send: impl FnOnce(Batch) + Send + 'static,
    ) -> Result<Self> {
        let kinds: Vec<_> = kinds
            .iter()
            .filter_map(|kind| Some((kind.pages()?, kind.number)))
            .collect();
        let lost = Arc::clone(&events.lost);
        let thread = StoppableThread::start("pages", move |stopped| {
            let ledger = watch(&events.inbox, stopped);
            events.lost.fetch_add(ledger.lost(), Ordering::Relaxed);
            let mut batch = Batch::default();
            for (of, number) in kinds {
                match of {
                    PagesOf::End => batch.samples.extend(ledger.in_use(number)),
                    PagesOf::Peak => batch.samples.extend(ledger.at_peak(number)),
                }
            }
            send(batch);
        })?;
        Ok(Self {
            thread: Some(thread),
            lost,
        })
    }

    /// Looks at the pages once more and sends the samples. All events must have been sent.
    pub(super) fn stop(&mut self) {
        if let Some(thread) = self.thread.take()
            && !thread.stop(LIMIT)
        {
            warn!(
                "the memory of a process could not be looked at in time: \
                 there are no profiles of what is in use"
            );
        }
    }

    /// Samples of which it is not known where their memory was.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Looks at pages until it is told to stop.
fn watch(inbox: &Receiver<PageEvent>, stopped: &Receiver<()>) -> Ledger {
    let mut ledger = Ledger::default();
    let mut sizes = Sizes::default();
    let mut credit = BURST;
    let mut last = Instant::now();
    loop {
        let is_last = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
        let mut has_news = false;
        for event in inbox.try_iter() {
            ledger.add(event);
            has_news = true;
        }
        let began = Instant::now();
        credit = (credit + (began - last) / PARTS).min(BURST);
        last = began;
        if is_last || credit > Duration::ZERO && (has_news | sizes.have_changed(&ledger)) {
            look(&mut ledger);
            credit = credit.saturating_sub(began.elapsed());
        }
        if is_last {
            return ledger;
        }
    }
}

/// Looks at all pages.
fn look(ledger: &mut Ledger) {
    let processes: Vec<_> = ledger.processes().collect();
    for tgid in processes {
        // One that has ended meanwhile keeps what it had.
        if let Ok(pages) = PageMap::open(tgid) {
            ledger.look(tgid, &|address| pages.is_resident(address).ok());
        }
    }
    ledger.note_peak();
}

/// The sizes of processes at the last look: where none has changed there is nothing to look at.
#[derive(Default)]
struct Sizes(HashMap<u32, Option<u64>>);

impl Sizes {
    fn have_changed(&mut self, ledger: &Ledger) -> bool {
        let sizes = ledger.processes().map(|tgid| (tgid, resident_pages(tgid)));
        let sizes = sizes.collect();
        let have_changed = self.0 != sizes;
        self.0 = sizes;
        have_changed
    }
}
