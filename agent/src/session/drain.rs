//! The thread that drains the ring buffer.
//!
//! It reads records, counts samples and passes the rest on: what samples refer to goes to the thread
//! that builds profiles, events go to the session.
//!
//! Invariants: it waits for nothing but the ring buffer and its commands: the channels that it sends
//! to take what they are sent, or it is dropped and counted; it reads no file and no process; its
//! lock-free state says when it was last alive.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result};
use rustix::{
    event::{EventfdFlags, eventfd},
    fd::OwnedFd,
};
use tokio::sync::{mpsc as events, oneshot};
use tracing::error;

use super::{
    counting::{Counting, Events, Received},
    profile_builder::ReferenceSender,
};
use crate::{
    aggregate::Window,
    bpf::{Ring, monotonic_ns},
    threads::{Batch, UnfinishedSender},
    workers::thread_cpu_time,
};

/// How often the ring buffer is read when no wake-up comes.
const DRAIN_INTERVAL: Duration = Duration::from_millis(200);

/// Most records that are read before commands are looked at and the rest is passed on.
const MAX_RECORDS: usize = 1 << 16;

/// Most events that wait for the session.
const MAX_EVENTS: usize = 1 << 17;

/// What the thread is doing, readable at any time.
#[derive(Debug, Default)]
pub struct DrainStatus {
    /// Sampling periods in the window that is always open.
    pub samples: AtomicU64,
    /// How often the ring buffer was read.
    pub drains: AtomicU64,
    /// Records read.
    pub records: AtomicU64,
    /// Events dropped because the session did not take them.
    pub lost_events: AtomicU64,
    /// The longest time that a sample was in the ring buffer, in nanoseconds.
    pub longest_delay_ns: AtomicU64,
    /// Processor time that the thread has used, in nanoseconds.
    pub cpu_ns: AtomicU64,
    /// Events that wait for the session.
    waiting_events: AtomicUsize,
}

/// The thread, as the session has it. It ends when this is dropped.
pub(super) struct Drain {
    commands: mpsc::Sender<Command>,
    waker: Arc<OwnedFd>,
    events: events::UnboundedReceiver<Events>,
    status: Arc<DrainStatus>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread does after it has read all that was there.
enum Command {
    Read(oneshot::Sender<()>),
    TakeWindow(oneshot::Sender<Window>),
    OpenWindow(oneshot::Sender<u64>),
    CloseWindow(u64, oneshot::Sender<Option<Window>>),
    Count(Box<Batch>),
    End,
}

impl Drain {
    pub(super) fn start(
        ring: Ring,
        references: ReferenceSender,
        unfinished: Option<UnfinishedSender>,
        counting: Counting,
    ) -> Result<Self> {
        let counting = counting.with_continued_walks(unfinished.is_some());
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let waker = Arc::new(waker.context("cannot start to read the ring buffer")?);
        ring.add_waker(&*waker)?;
        let (commands, inbox) = mpsc::channel();
        let (sender, events) = events::unbounded_channel();
        let status = Arc::new(DrainStatus::default());
        let reader = Reader {
            ring,
            waker: Arc::clone(&waker),
            commands: inbox,
            counting,
            references,
            unfinished,
            events: sender,
            status: Arc::clone(&status),
        };
        let thread = thread::Builder::new()
            .name("drain".to_owned())
            .spawn(|| reader.run())
            .context("cannot start a thread")?;
        Ok(Self {
            commands,
            waker,
            events,
            status,
            thread: Some(thread),
        })
    }

    pub(super) fn status(&self) -> &Arc<DrainStatus> {
        &self.status
    }

    /// The next events; cancel safe.
    pub(super) async fn events(&mut self) -> Events {
        match self.events.recv().await {
            Some(events) => self.taken(events),
            None => std::future::pending().await,
        }
    }

    /// Events that wait already.
    pub(super) fn waiting_events(&mut self) -> Option<Events> {
        let events = self.events.try_recv().ok()?;
        Some(self.taken(events))
    }

    fn taken(&self, events: Events) -> Events {
        let waiting = &self.status.waiting_events;
        waiting.fetch_sub(events.len(), Ordering::Relaxed);
        events
    }

    /// Reads all that is there.
    pub(super) async fn read(&self) -> Result<()> {
        self.ask(Command::Read).await
    }

    /// Reads all that is there, then closes the window that is always open and starts the next.
    pub(super) async fn take_window(&self) -> Result<Window> {
        self.ask(Command::TakeWindow).await
    }

    /// Opens another window and returns its number.
    pub(super) async fn open_window(&self) -> Result<u64> {
        self.ask(Command::OpenWindow).await
    }

    /// Reads all that is there, then closes a window.
    pub(super) async fn close_window(&self, number: u64) -> Result<Option<Window>> {
        self.ask(|reply| Command::CloseWindow(number, reply)).await
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply));
        answer.await.context("the ring buffer is no longer read")
    }

    fn send(&self, command: Command) {
        send(&self.commands, &self.waker, command);
    }

    /// Sends what passes have found to the thread; never waits.
    pub(super) fn batches(&self) -> impl Fn(Batch) + Send + Sync + 'static {
        let (commands, waker) = (self.commands.clone(), Arc::clone(&self.waker));
        move |batch| send(&commands, &waker, Command::Count(Box::new(batch)))
    }
}

fn send(commands: &mpsc::Sender<Command>, waker: &OwnedFd, command: Command) {
    // Without its receiver the thread has ended, and nobody answers.
    let _ = commands.send(command);
    // The counter of an eventfd does not overflow by ones.
    let _ = rustix::io::write(waker, &1_u64.to_ne_bytes());
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.send(Command::End);
        if let Some(thread) = self.thread.take() {
            // It has panicked: that was printed.
            let _ = thread.join();
        }
    }
}

/// The thread's own side.
struct Reader {
    ring: Ring,
    waker: Arc<OwnedFd>,
    commands: mpsc::Receiver<Command>,
    counting: Counting,
    references: ReferenceSender,
    unfinished: Option<UnfinishedSender>,
    events: events::UnboundedSender<Events>,
    status: Arc<DrainStatus>,
}

impl Reader {
    fn run(mut self) {
        loop {
            if let Err(error) = self.ring.wait(DRAIN_INTERVAL) {
                error!("{error}: nothing is sampled any more");
                return;
            }
            // It may not have been written to.
            let _ = rustix::io::read(&*self.waker, &mut [0; 8]);
            let commands: Vec<_> = self.commands.try_iter().collect();
            self.drain();
            for command in commands {
                // Nobody may wait for the answer any more.
                match command {
                    Command::Count(batch) => {
                        let mut received = Received::default();
                        self.counting.receive_batch(&batch, &mut received);
                        self.pass_on(received);
                    }
                    Command::Read(reply) => {
                        let _ = reply.send(());
                    }
                    Command::TakeWindow(reply) => {
                        self.counting.end_window();
                        let _ = reply.send(self.counting.windows.take());
                    }
                    Command::OpenWindow(reply) => {
                        self.counting.end_window();
                        let _ = reply.send(self.counting.windows.open());
                    }
                    Command::CloseWindow(number, reply) => {
                        self.counting.end_window();
                        let _ = reply.send(self.counting.windows.close(number));
                    }
                    Command::End => return,
                }
            }
            let samples = self.counting.windows.samples();
            self.status.samples.store(samples, Ordering::Relaxed);
            let cpu_ns = u64::try_from(thread_cpu_time().as_nanos()).unwrap_or(u64::MAX);
            self.status.cpu_ns.store(cpu_ns, Ordering::Relaxed);
            self.status.drains.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reads what is there.
    fn drain(&mut self) {
        let mut delay = None;
        loop {
            let mut received = Received::default();
            let counting = &mut self.counting;
            self.ring.drain(|record| {
                counting.receive(record, &mut received);
                received.records < MAX_RECORDS
            });
            if delay.is_none() {
                delay = received.first_sample_ns.map(nanoseconds_since);
            }
            let records = received.records;
            self.pass_on(received);
            self.status
                .records
                .fetch_add(records as u64, Ordering::Relaxed);
            if records < MAX_RECORDS {
                break;
            }
        }
        if let Some(delay) = delay {
            self.status
                .longest_delay_ns
                .fetch_max(delay, Ordering::Relaxed);
        }
    }

    fn pass_on(&self, received: Received) {
        if !received.references.is_empty() {
            self.references.send(received.references);
        }
        // After the stacks that they are about.
        if let Some(unfinished) = &self.unfinished
            && !received.unfinished.is_empty()
        {
            unfinished.send(received.unfinished);
        }
        let events = received.events.len();
        if events == 0 {
            return;
        }
        let waiting = &self.status.waiting_events;
        if waiting.load(Ordering::Relaxed) + events > MAX_EVENTS {
            let lost = &self.status.lost_events;
            lost.fetch_add(events as u64, Ordering::Relaxed);
            return;
        }
        waiting.fetch_add(events, Ordering::Relaxed);
        // The session may be about to end.
        let _ = self.events.send(received.events);
    }
}

/// The time since then on the clock that the BPF programs read.
fn nanoseconds_since(then: u64) -> u64 {
    monotonic_ns().saturating_sub(then)
}
