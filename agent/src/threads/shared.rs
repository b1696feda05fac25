//! What the thread that makes passes shares with those who supervise it, and with the one that takes its
//! place when a process holds it up.
//!
//! Invariant: no lock is held while a process is read.

use std::{
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Instant,
};

use super::{
    batch::Batch,
    process_locations::ProcessLocations,
    sources::{Lookups, PassSources, Visits},
    status::PassStatus,
};
use crate::{
    bpf::{LockWaits, PassClocks},
    workers::{Subject, Workers},
};

/// What passes need.
pub(super) struct Shared {
    visits: Mutex<Visits>,
    /// Waits for locks whose ends are recorded, if any are.
    lock_waits: Option<Mutex<LockWaits>>,
    /// Samples threads that run, where that can be done.
    clocks: Option<Mutex<PassClocks>>,
    pub(super) maps: Lookups,
    pub(super) locations: ProcessLocations,
    pub(super) workers: Workers,
    pub(super) status: PassStatus,
    /// When the session ends, if that is known.
    end: OnceLock<Instant>,
    /// Gets what each pass has found.
    pub(super) send: Box<dyn Fn(Batch) + Send + Sync>,
    /// The number of the thread that makes passes: those before have been given up.
    turn: AtomicU32,
    /// The process that is being read, 0 for none, and how many reads there were.
    reading: AtomicU32,
    reads: AtomicU64,
    /// Threads that were given up and whose read has not ended.
    held: AtomicU32,
}

/// A thread was given up while a process held it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GivenUp;

impl Shared {
    pub(super) fn new(
        sources: PassSources,
        locations: ProcessLocations,
        workers: Workers,
        send: Box<dyn Fn(Batch) + Send + Sync>,
    ) -> Self {
        Self {
            visits: Mutex::new(sources.visits),
            lock_waits: sources.lock_waits.map(Mutex::new),
            clocks: sources.clocks.map(Mutex::new),
            maps: sources.maps,
            locations,
            workers,
            status: PassStatus::default(),
            end: OnceLock::new(),
            send,
            turn: AtomicU32::new(0),
            reading: AtomicU32::new(0),
            reads: AtomicU64::new(0),
            held: AtomicU32::new(0),
        }
    }

    /// When the session ends, if that is known.
    pub(super) fn end(&self) -> Option<Instant> {
        self.end.get().copied()
    }

    /// Says when the session ends, once.
    pub(super) fn set_end(&self, end: Instant) {
        let _ = self.end.set(end);
    }

    /// What visits threads.
    pub(super) fn visits(&self) -> MutexGuard<'_, Visits> {
        // It is consistent after every statement, so also after a panic.
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for locks whose ends are recorded, if any are.
    pub(super) fn lock_waits(&self) -> Option<MutexGuard<'_, LockWaits>> {
        let waits = self.lock_waits.as_ref()?;
        Some(waits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Samples threads that run, where that can be done.
    pub(super) fn clocks(&self) -> Option<MutexGuard<'_, PassClocks>> {
        let clocks = self.clocks.as_ref()?;
        Some(clocks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads a process, which may hold up the thread that has this turn.
    pub(super) fn read<T>(
        &self,
        turn: u32,
        tgid: u32,
        read: impl FnOnce() -> T,
    ) -> Result<T, GivenUp> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.reading.store(tgid, Ordering::Relaxed);
        let result = read();
        if self.is_given_up(turn) {
            self.held.fetch_sub(1, Ordering::Relaxed);
            return Err(GivenUp);
        }
        self.reading.store(0, Ordering::Relaxed);
        Ok(result)
    }

    /// The read that goes on, if any: its process, and its number.
    pub(super) fn present_read(&self) -> Option<(u32, u64)> {
        let reads = self.reads.load(Ordering::Relaxed);
        let reading = self.reading.load(Ordering::Relaxed);
        (reading != 0).then_some((reading, reads))
    }

    /// Threads that were given up and whose read has not ended.
    pub(super) fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether another thread has taken the place of the one that has this turn.
    pub(super) fn is_given_up(&self, turn: u32) -> bool {
        self.turn.load(Ordering::Relaxed) != turn
    }

    /// The turn of a thread that takes the place of one that has failed.
    pub(super) fn next_turn(&self) -> u32 {
        self.visits().forget_all();
        self.turn.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Gives the thread up that reads a process; returns the turn of the next one.
    pub(super) fn give_up(&self, tgid: u32) -> u32 {
        let next = self.turn.fetch_add(1, Ordering::Relaxed) + 1;
        self.reading.store(0, Ordering::Relaxed);
        self.workers.quarantine(&Subject::stacks(tgid));
        self.status.given_up.fetch_add(1, Ordering::Relaxed);
        self.held.fetch_add(1, Ordering::Relaxed);
        self.visits().forget_all();
        next
    }
}
