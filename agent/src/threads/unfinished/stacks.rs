//! The stacks that wait, and how they are walked on.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
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
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use super::status::UnfinishedStatus;
use crate::{
    bpf::Records,
    threads::{
        code::{Code, ProcessCode},
        sources::Lookups,
        stack_copy::StackCopy,
    },
};

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

/// What the thread is sent.
pub(super) enum Message {
    Records(Records),
    Retry,
    Flush(oneshot::Sender<()>),
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
pub(super) struct Stacks<F> {
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
    pub(super) fn new(
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

    pub(super) fn run(&mut self, inbox: &Receiver<Message>) {
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

#[cfg(test)]
mod tests;
