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

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use agent_common::{
    decode::decode,
    decoded::Record,
    limits::MAX_NATIVE_VISITED,
    maps::TrackedProcess,
    native::{NativeStep, NativeWalk, PythonFrames},
    record::{NativeFrame, NativeUnwindStatus, StackPage, UnfinishedStack, WantedTable},
    scratch::Scratch,
};
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    oneshot,
};

use super::{
    code::{Code, ProcessCode},
    sources::Lookups,
    stack_copy::StackCopy,
};
use crate::bpf::{Records, WalkMaps};

/// Most bytes of records that wait for the thread.
const MAX_SENT_BYTES: usize = 8 << 20;

/// Most bytes of copies that wait for code to become known.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// How long they wait: large files are compiled in less.
const LIFETIME: Duration = Duration::from_secs(5);

/// How often that is looked at.
const TICK: Duration = Duration::from_secs(1);

/// Most programs whose mappings are kept.
const MAX_PROGRAMS: usize = 64;

/// Most bytes of copies whose position has not come yet, which follows them.
const MAX_COPIED_BYTES: usize = 4 << 20;

/// In how many states of the mappings an address is looked up that was in none: the first may have been read before the
/// sample was taken.
const MAX_EPOCHS: u32 = 2;

/// Least time between two requests for a table.
const REQUEST_AGAIN: Duration = Duration::from_secs(1);

/// The rest of a native stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRest {
    /// Hash of the stack.
    pub stack: u64,
    /// Whether the first of the frames replaces the last one of the stack.
    pub replaces_last: bool,
    /// The frames, leaf first.
    pub frames: Vec<NativeFrame>,
    /// How the walk ended.
    pub status: NativeUnwindStatus,
}

/// What has become of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedTotals {
    /// Those that were walked to their end.
    pub finished: u64,
    /// Those that were walked to the end of the copy.
    pub truncated: u64,
    /// Those that were not walked on, since their code did not become known in time or too much was waiting.
    pub given_up: u64,
}

/// What the thread has done, readable at any time.
#[derive(Debug, Default)]
struct UnfinishedStatus {
    /// See [`UnfinishedTotals`].
    finished: AtomicU64,
    truncated: AtomicU64,
    given_up: AtomicU64,
    /// Stacks that wait.
    waiting: AtomicUsize,
    /// Those of them that wait for a table.
    without_table: AtomicUsize,
    sent_bytes: AtomicUsize,
    /// Whether the thread was told that something was loaded, and has not looked yet.
    has_news: AtomicBool,
}

enum Message {
    Records(Records),
    Retry,
    Flush(oneshot::Sender<()>),
}

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

impl UnfinishedStatus {
    fn given_up(&self, stacks: usize) {
        self.given_up.fetch_add(stacks as u64, Ordering::Relaxed);
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

/// A stack that waits.
struct Waiting {
    stack: Box<UnfinishedStack>,
    copy: StackCopy,
    since: Instant,
    /// The last state of the mappings in which it was walked, and how many there were after that of the sample.
    epoch: u64,
    epochs: u32,
    /// Whether it waits for a table.
    is_without_table: bool,
}

/// The code of a process while it runs one program.
struct ProgramCode {
    code: ProcessCode,
    used: Instant,
}

/// What the BPF programs know of a process.
#[derive(Clone, Copy)]
enum Tracked {
    /// The program that it runs.
    Known(TrackedProcess),
    /// It runs one that was not examined yet.
    Unknown,
    Ended,
}

impl Tracked {
    fn unknown(maps: &Lookups, tgid: u32) -> Self {
        if maps.has_process(tgid) {
            Self::Unknown
        } else {
            Self::Ended
        }
    }
}

/// Why the code of a stack is not known.
enum Unknown {
    Yet,
    /// Its program was never examined, and runs no more.
    ForEver,
}

/// The stacks, as the thread has them.
struct Stacks<F> {
    maps: Lookups,
    status: Arc<UnfinishedStatus>,
    /// Pages of stacks whose position has not come yet, by the hash of the stack.
    copies: HashMap<u64, StackCopy>,
    /// The hashes in the order in which they came.
    copied: VecDeque<u64>,
    /// The oldest first.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// Executables whose tables are missing, each with a process that has mapped it, that were not asked for yet.
    wanted: HashMap<u32, u32>,
    requests: UnboundedSender<WantedTable>,
    /// When tables were asked for, by the executable.
    requested: HashMap<u32, Instant>,
    /// By the ids of their processes, and when these began them.
    programs: HashMap<(u32, u64), ProgramCode>,
    /// What the BPF programs know of processes, as it was looked up for one message.
    tracked: HashMap<u32, Tracked>,
    walk: Box<NativeWalk>,
    scratch: Box<Scratch>,
    deliver: F,
}

impl<F: FnMut(StackRest)> Stacks<F> {
    fn new(
        maps: Lookups,
        status: Arc<UnfinishedStatus>,
        requests: UnboundedSender<WantedTable>,
        deliver: F,
    ) -> Self {
        Self {
            maps,
            status,
            copies: HashMap::new(),
            copied: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            wanted: HashMap::new(),
            requests,
            requested: HashMap::new(),
            programs: HashMap::new(),
            tracked: HashMap::new(),
            walk: Box::new(NativeWalk::new()),
            scratch: Box::default(),
            deliver,
        }
    }

    fn run(&mut self, inbox: &Receiver<Message>) {
        loop {
            let is_idle =
                self.waiting.is_empty() && self.programs.is_empty() && self.copied.is_empty();
            let message = if is_idle {
                inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                inbox.recv_timeout(TICK)
            };
            match message {
                Ok(Message::Records(records)) => {
                    let bytes = records.bytes();
                    self.receive(&records);
                    self.status.sent_bytes.fetch_sub(bytes, Ordering::Relaxed);
                }
                Ok(Message::Retry) => {
                    self.status.has_news.store(false, Ordering::Release);
                    self.retry();
                }
                Ok(Message::Flush(reply)) => {
                    self.retry();
                    // Nobody may wait for it any more.
                    let _ = reply.send(());
                }
                Err(RecvTimeoutError::Timeout) => {
                    // What was loaded while a stack came is no news any more.
                    self.retry();
                    // Their positions were lost.
                    self.copies.clear();
                    self.copied.clear();
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.tracked.clear();
            self.give_up();
        }
    }

    fn receive(&mut self, records: &Records) {
        for record in records.iter() {
            match decode(record) {
                Ok(Record::StackPage(page)) => self.add_page(page),
                Ok(Record::UnfinishedStack(stack)) => self.add(stack),
                _ => {}
            }
        }
        self.note_waiting();
        self.request_tables();
    }

    fn add_page(&mut self, page: &StackPage) {
        if !self.copies.contains_key(&page.stack) {
            self.copied.push_back(page.stack);
        }
        self.copies.entry(page.stack).or_default().add(page);
        // Where the ring buffer was full there is no position.
        while self.copies.values().map(StackCopy::bytes).sum::<usize>() > MAX_COPIED_BYTES {
            let oldest = self.copied.pop_front();
            oldest.map(|stack| self.copies.remove(&stack));
        }
    }

    fn add(&mut self, stack: &UnfinishedStack) {
        let copy = self.copies.remove(&stack.stack).unwrap_or_default();
        self.copied.retain(|copied| *copied != stack.stack);
        let waiting = Waiting {
            stack: Box::new(stack.clone()),
            copy,
            since: Instant::now(),
            epoch: stack.mappings_epoch,
            epochs: 0,
            is_without_table: false,
        };
        if let Some(waiting) = self.walk_on(waiting) {
            self.waiting_bytes += waiting.bytes();
            self.waiting.push_back(waiting);
        }
    }

    /// Walks all on that wait.
    fn retry(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            let bytes = waiting.bytes();
            match self.walk_on(waiting) {
                Some(waiting) => self.waiting.push_back(waiting),
                None => self.waiting_bytes -= bytes,
            }
        }
        self.note_waiting();
        self.request_tables();
    }

    /// Asks for the tables that are missing.
    fn request_tables(&mut self) {
        let now = Instant::now();
        self.requested
            .retain(|_, at| now.duration_since(*at) < REQUEST_AGAIN);
        for (executable, tgid) in self.wanted.drain() {
            if self.requested.contains_key(&executable) {
                continue;
            }
            self.requested.insert(executable, now);
            // The session may be about to end.
            let _ = self.requests.send(WantedTable::of(executable, tgid));
        }
    }

    fn note_waiting(&self) {
        let status = &self.status;
        status.waiting.store(self.waiting.len(), Ordering::Relaxed);
        let without_table = self.waiting.iter().filter(|it| it.is_without_table);
        status
            .without_table
            .store(without_table.count(), Ordering::Relaxed);
    }

    /// Gives up what has waited for too long, and the oldest where too much waits.
    fn give_up(&mut self) {
        let now = Instant::now();
        let is_over = |since: Instant| now.duration_since(since) >= LIFETIME;
        let mut given_up = 0;
        while let Some(oldest) = self.waiting.front()
            && (self.waiting_bytes > MAX_WAITING_BYTES || is_over(oldest.since))
        {
            self.waiting_bytes -= oldest.bytes();
            self.waiting.pop_front();
            given_up += 1;
        }
        self.status.given_up(given_up);
        self.note_waiting();
        self.programs.retain(|_, program| !is_over(program.used));
        while self.programs.len() > MAX_PROGRAMS {
            let oldest = self.programs.iter().min_by_key(|(_, program)| program.used);
            let Some((&oldest, _)) = oldest else {
                break;
            };
            self.programs.remove(&oldest);
        }
    }

    /// Walks a stack on; returns it if code is still not known.
    fn walk_on(&mut self, mut waiting: Waiting) -> Option<Waiting> {
        match self.update_program(&waiting.stack) {
            Ok(()) => {}
            Err(Unknown::Yet) => return Some(waiting),
            Err(Unknown::ForEver) => {
                self.status.given_up(1);
                return None;
            }
        }
        let stack = &waiting.stack;
        let program = self.programs.get_mut(&(stack.tgid, stack.program))?;
        let epoch = program.code.epoch();
        if epoch != waiting.epoch {
            waiting.epoch = epoch;
            waiting.epochs += 1;
        }
        let replaces_last = stack.status == NativeUnwindStatus::NO_TABLE;
        let mut wanted = Vec::new();
        let mut code = Code::new(&self.maps, &mut program.code, stack.tgid, &mut wanted);
        let python = PythonFrames {
            runs: &stack.runs,
            depth: stack.python_depth,
            style: stack.style,
        };
        let kept = stack.kept.saturating_sub(replaces_last.into());
        self.walk.resume(&stack.position, kept);
        waiting.copy.begin();
        let mut status = NativeUnwindStatus::TOO_DEEP;
        for _ in 0..MAX_NATIVE_VISITED {
            let (walk, scratch) = (&mut self.walk, &mut self.scratch);
            if let NativeStep::End(end) = walk.step(&waiting.copy, scratch, python, &mut code) {
                status = end;
                break;
            }
        }
        waiting.is_without_table = status == NativeUnwindStatus::NO_TABLE;
        if waiting.is_without_table {
            let wanted = wanted.into_iter();
            self.wanted
                .extend(wanted.map(|executable| (executable, stack.tgid)));
            return Some(waiting);
        }
        if status == NativeUnwindStatus::UNMAPPED {
            if waiting.epochs < MAX_EPOCHS {
                return Some(waiting);
            }
            self.status.given_up(1);
            return None;
        }
        if status == NativeUnwindStatus::FAULT || waiting.copy.is_too_short() {
            // With its code known at once, the walk would not have needed a copy, which ends there.
            status = stack.status;
            self.status.truncated.fetch_add(1, Ordering::Relaxed);
        } else {
            self.status.finished.fetch_add(1, Ordering::Relaxed);
        }
        self.walk.stack.push_pending_run();
        (self.deliver)(StackRest {
            stack: stack.stack,
            replaces_last,
            frames: self.walk.stack.entries().to_vec(),
            status,
        });
        None
    }

    /// Brings what is known of the code of the program that a stack is of up to date.
    fn update_program(&mut self, stack: &UnfinishedStack) -> Result<(), Unknown> {
        let maps = &self.maps;
        let tracked = *self.tracked.entry(stack.tgid).or_insert_with(|| {
            let tracked = maps.process(stack.tgid).map(|(tracked, _)| tracked);
            tracked.map_or_else(|| Tracked::unknown(maps, stack.tgid), Tracked::Known)
        });
        let now = Instant::now();
        let key = (stack.tgid, stack.program);
        if let Tracked::Known(process) = tracked
            && process.program == stack.program
        {
            let program = self.programs.entry(key).or_insert_with(|| ProgramCode {
                code: ProcessCode::default(),
                used: now,
            });
            program.code.update(maps, &process);
        }
        if let Some(program) = self.programs.get_mut(&key) {
            program.used = now;
            return Ok(());
        }
        Err(match tracked {
            Tracked::Unknown => Unknown::Yet,
            Tracked::Known(_) | Tracked::Ended => Unknown::ForEver,
        })
    }
}

impl Waiting {
    /// How much memory it takes, in bytes.
    fn bytes(&self) -> usize {
        size_of::<UnfinishedStack>() + self.copy.bytes()
    }
}
