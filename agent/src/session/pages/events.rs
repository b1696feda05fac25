//! What happens to the memory of processes, on its way from the thread that drains the ring buffer.

use std::sync::mpsc::{self, Receiver, SyncSender};

use agent_common::record::{GonePage, NewPage};

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
    /// The process with this id runs another program.
    Executed(u32),
}

/// Sends events to the thread, and never waits.
#[derive(Clone, Debug)]
pub(in crate::session) struct PageSender {
    sender: SyncSender<PageEvent>,
    /// Whether what has grown is wanted too, wherever it is now.
    pub(in crate::session) wants_growth: bool,
}

impl PageSender {
    /// Sends an event; [`false`] where there is no room.
    pub(in crate::session) fn send(&self, event: PageEvent) -> bool {
        self.sender.try_send(event).is_ok()
    }
}

/// The sender of events for kinds that are about pages, and their receiver; [`None`] where no kind is.
pub(in crate::session) fn channel(
    kinds: &[&'static Kind],
) -> Option<(PageSender, Receiver<PageEvent>)> {
    kinds.iter().find(|kind| kind.pages().is_some())?;
    let (sender, inbox) = mpsc::sync_channel(MAX_WAITING);
    let wants_growth = kinds.iter().any(|kind| kind.is_growth());
    let sender = PageSender {
        sender,
        wants_growth,
    };
    Some((sender, inbox))
}
