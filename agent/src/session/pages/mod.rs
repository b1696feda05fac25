//! Pages by which processes have grown: which of them are resident when sampling ends, and which were when most were.
//!
//! ```text
//! drain ─► pages that are new, those in whose place there is a new one, and memory that was moved
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
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use tracing::warn;

use self::ledger::Ledger;
use crate::{
    bpf::SampledPages,
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

/// How long a page that is absent may turn out to have been moved: several times as long as records wait for the drain.
const ABSENCE: Duration = Duration::from_secs(1);

/// How long one may do so that is absent at the last look: several times as long as urgent records wait.
const LAST_ABSENCE: Duration = Duration::from_millis(50);

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
        sampled: SampledPages,
        send: impl FnOnce(Batch) + Send + 'static,
    ) -> Result<Self> {
        let kinds: Vec<_> = kinds
            .iter()
            .filter_map(|kind| Some((kind.pages()?, kind.number)))
            .collect();
        let lost = Arc::clone(&events.lost);
        let thread = StoppableThread::start("pages", move |stopped| {
            let ledger = watch(&events.inbox, sampled, stopped);
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
fn watch(inbox: &Receiver<PageEvent>, sampled: SampledPages, stopped: &Receiver<()>) -> Ledger {
    let mut watched = Watched {
        ledger: Ledger::default(),
        sampled,
    };
    let mut sizes = Sizes::default();
    let mut credit = BURST;
    let mut last = Instant::now();
    loop {
        let is_last = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
        let has_news = watched.receive(inbox);
        let began = Instant::now();
        credit = (credit + (began - last) / PARTS).min(BURST);
        last = began;
        if is_last || credit > Duration::ZERO && (has_news | sizes.have_changed(&watched.ledger)) {
            watched.look();
            credit = credit.saturating_sub(began.elapsed());
        }
        if is_last {
            if watched.ledger.has_absent() {
                thread::sleep(LAST_ABSENCE);
                watched.receive(inbox);
            }
            return watched.ledger;
        }
    }
}

/// The pages that are looked at.
struct Watched {
    ledger: Ledger,
    sampled: SampledPages,
}

impl Watched {
    /// Acts on the events that have come; returns whether there are any.
    fn receive(&mut self, inbox: &Receiver<PageEvent>) -> bool {
        let mut has_news = false;
        for event in inbox.try_iter() {
            for page in self.ledger.add(event) {
                self.sampled.relocate(page.tgid, page.from, page.to);
            }
            has_news = true;
        }
        has_news
    }

    /// Looks at all pages.
    fn look(&mut self) {
        let now = Instant::now();
        let processes: Vec<_> = self.ledger.processes().collect();
        for tgid in processes {
            // One that has ended meanwhile keeps what it had.
            if let Ok(pages) = PageMap::open(tgid) {
                let is_resident = |address| pages.is_resident(address).ok();
                self.ledger.look(tgid, now, &is_resident);
            }
        }
        if let Some(since) = now.checked_sub(ABSENCE) {
            self.ledger.forget_absent(since);
        }
        self.ledger.note_peak();
    }
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
