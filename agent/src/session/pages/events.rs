//! What happens to the memory of processes, on its way from the thread that drains the ring buffer.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
    mpsc::{self, Receiver, SyncSender},
};

use agent_common::record::{GonePage, MovedMemory, NewPage};

use crate::profile::Kind;

/// Most events that wait; what finds no room is lost.
const MAX_WAITING: usize = 1 << 16;

/// What has happened to the memory of a process, in its order.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) enum PageEvent {
    /// It has grown.
    New(NewPage),
    /// A page is gone in whose place it has grown again.
    Gone(GonePage),
    /// Its memory has been moved.
    Moved(MovedMemory),
    /// The process with this id was forked, or runs another program.
    Began(u32),
    /// It has ended.
    Ended(u32),
}

/// Sends events to the thread, and never waits.
#[derive(Clone, Debug)]
pub(in crate::session) struct PageSender {
    sender: SyncSender<PageEvent>,
    lost: Arc<AtomicU64>,
    /// Whether what has grown is wanted too, wherever it is now.
    pub(in crate::session) wants_growth: bool,
}

/// What the thread gets.
#[derive(Debug)]
pub(in crate::session) struct PageEvents {
    pub(super) inbox: Receiver<PageEvent>,
    /// Events for which there was no room.
    pub(super) lost: Arc<AtomicU64>,
}

impl PageSender {
    /// Sends an event; where there is no room it is counted.
    pub(in crate::session) fn send(&self, event: PageEvent) {
        if self.sender.try_send(event).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The sender of events for kinds that are about pages, and what gets them; [`None`] where no kind is.
pub(in crate::session) fn channel(kinds: &[&'static Kind]) -> Option<(PageSender, PageEvents)> {
    kinds.iter().find(|kind| kind.pages().is_some())?;
    let (sender, inbox) = mpsc::sync_channel(MAX_WAITING);
    let lost = Arc::<AtomicU64>::default();
    let sender = PageSender {
        sender,
        lost: Arc::clone(&lost),
        wants_growth: kinds.iter().any(|kind| kind.is_growth()),
    };
    Some((sender, PageEvents { inbox, lost }))
}
