//! Native stacks that the BPF programs could not walk to their end, since the agent did not know the code yet: a library
//! that was just loaded, or a program that has just begun. They are walked on here, on a copy of the thread's
//! stack, when the mappings and unwind tables are loaded.
//!
//! ```text
//! drain ─► pages of stacks, positions of walks
//!            │
//!            ▼
//! thread   waiting ◄─ the BPF maps, whenever something was loaded
//!            │
//!            ▼
//! thread that builds profiles: the rest of the frames
//! ```
//!
//! Invariants: the copies take a bounded number of bytes, and wait for a bounded time; what is given up is counted,
//! and its sample says that code was not known. A stack is walked on in code that the process had mapped: the frame at
//! which its walk ended has to be where it was, and an address that was in no mapping is looked up in the next mappings that
//! are read, and those after them, no later. A process that has ended has the mappings that it had when it was looked at last.

mod stacks;
mod status;

use std::{
    io,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{self, Sender},
    },
    thread,
};

use agent_common::{decode::decode, decoded::Record, record::WantedTable};
use tokio::sync::{
    mpsc::{UnboundedReceiver, unbounded_channel},
    oneshot,
};

pub use self::{stacks::StackRest, status::UnfinishedTotals};
use self::{
    stacks::{Message, Stacks},
    status::UnfinishedStatus,
};
use super::sources::Lookups;
use crate::bpf::{Records, WalkMaps};

/// Most bytes of records that wait for the thread.
const MAX_SENT_BYTES: usize = 8 << 20;

/// The thread; it ends when this and all senders are dropped.
#[derive(Debug)]
pub struct UnfinishedStacks {
    sender: UnfinishedSender,
    wanted: UnboundedReceiver<WantedTable>,
}

/// Sends records to the thread, and never waits.
#[derive(Clone, Debug)]
pub struct UnfinishedSender {
    sender: Sender<Message>,
    status: Arc<UnfinishedStatus>,
}

impl UnfinishedSender {
    /// Sends pages and positions; they are dropped and counted when too much is waiting.
    pub fn send(&self, records: Records) {
        let bytes = records.bytes();
        let sent = self.status.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        if sent + bytes > MAX_SENT_BYTES {
            self.status.sent_bytes.fetch_sub(bytes, Ordering::Relaxed);
            let stacks = records.iter().filter_map(|record| decode(record).ok());
            let stacks = stacks.filter(|it| matches!(it, Record::UnfinishedStack(_)));
            self.status.given_up(stacks.count());
            return;
        }
        self.post(Message::Records(records));
    }

    fn post(&self, message: Message) {
        // The thread ends after its last sender.
        let _ = self.sender.send(message);
    }
}

impl UnfinishedStacks {
    /// Starts the thread, which looks code up in these maps; `deliver` gets the rest of each stack.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn start(
        maps: WalkMaps,
        deliver: impl FnMut(StackRest) + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, inbox) = mpsc::channel();
        let (requests, wanted) = unbounded_channel();
        let status = Arc::new(UnfinishedStatus::default());
        let shared = Arc::clone(&status);
        thread::Builder::new()
            .name("unwind".to_owned())
            .spawn(move || {
                let maps = Lookups::Bpf(Box::new(maps));
                Stacks::new(maps, shared, requests, deliver).run(&inbox);
            })?;
        Ok(Self {
            sender: UnfinishedSender { sender, status },
            wanted,
        })
    }

    /// Sends records to the thread.
    #[must_use]
    pub fn sender(&self) -> UnfinishedSender {
        self.sender.clone()
    }

    /// What has become of stacks so far.
    #[must_use]
    pub fn totals(&self) -> UnfinishedTotals {
        let status = &self.sender.status;
        UnfinishedTotals {
            finished: status.finished.load(Ordering::Relaxed),
            truncated: status.truncated.load(Ordering::Relaxed),
            given_up: status.given_up.load(Ordering::Relaxed),
        }
    }

    /// Has stacks walked on whose code may be known now.
    pub fn retry(&self) {
        let status = &self.sender.status;
        if status.waiting.load(Ordering::Relaxed) > 0
            && !status.has_news.swap(true, Ordering::AcqRel)
        {
            self.sender.post(Message::Retry);
        }
    }

    /// The next unwind table without which stacks cannot be walked on; cancel safe.
    pub async fn wanted(&mut self) -> WantedTable {
        match self.wanted.recv().await {
            Some(wanted) => wanted,
            None => std::future::pending().await,
        }
    }

    /// Such a table, if there is one already.
    pub fn waiting_wanted(&mut self) -> Option<WantedTable> {
        self.wanted.try_recv().ok()
    }

    /// Walks all on whose code is known, after all that was sent before. Returns how many wait for a table.
    pub async fn flush(&self) -> usize {
        let (reply, answer) = oneshot::channel();
        self.sender.post(Message::Flush(reply));
        // Without the thread none is walked on.
        let _ = answer.await;
        self.sender.status.without_table.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use agent_common::record::{RecordKind, UnfinishedStack};

    use super::*;

    #[test]
    fn what_comes_faster_than_it_is_read_is_dropped_and_counted() {
        let (sender, inbox) = mpsc::channel();
        let sender = UnfinishedSender {
            sender,
            status: Arc::default(),
        };
        let mut record = vec![0; size_of::<UnfinishedStack>()];
        record[..2].copy_from_slice(&RecordKind::UNFINISHED_STACK.0.to_ne_bytes());
        let bytes = u32::try_from(record.len()).unwrap();
        record[4..8].copy_from_slice(&bytes.to_ne_bytes());
        let most = MAX_SENT_BYTES / record.len();
        for _ in 0..most + 10 {
            let mut records = Records::default();
            records.push(&record);
            sender.send(records);
        }
        assert_eq!(sender.status.given_up.load(Ordering::Relaxed), 10);
        assert_eq!(inbox.try_iter().count(), most);
    }
}
