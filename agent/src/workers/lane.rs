//! A queue of jobs and the threads that do them.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    budget::Budget,
    failure::Failure,
    job::Job,
    pace::{Pace, thread_cpu_time},
    quarantine::Subject,
};

/// Most jobs that wait in a lane.
const MAX_WAITING: usize = 64 << 10;

/// Most threads of a lane that are given up at the same time.
const MAX_ABANDONED: usize = 8;

/// A kind of work, with threads of its own: a kind that is slow does not hold up the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Opens processes and examines them, while they live.
    Processes,
    /// Reads memory of processes that is not resident.
    Memory,
    /// Compiles unwind tables.
    Tables,
    /// Loads unwind tables into the kernel.
    Loads,
    /// Reads symbols of files.
    Symbols,
}

impl Lane {
    pub(super) const ALL: [Self; 5] = [
        Self::Processes,
        Self::Memory,
        Self::Tables,
        Self::Loads,
        Self::Symbols,
    ];

    /// Its name: of its threads, and in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Memory => "memory",
            Self::Tables => "tables",
            Self::Loads => "loads",
            Self::Symbols => "symbols",
        }
    }

    /// Whether its jobs can wait for processor time to be earned: processes may end meanwhile.
    fn is_paced(self) -> bool {
        matches!(self, Self::Tables)
    }

    /// How many threads it has.
    fn width(self) -> usize {
        match self {
            Self::Processes | Self::Tables | Self::Symbols => 2,
            Self::Memory | Self::Loads => 1,
        }
    }
}

/// What the threads of a lane are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    /// The kind of work.
    pub lane: Lane,
    /// Jobs that wait.
    pub waiting: usize,
    /// Jobs that run.
    pub running: usize,
    /// Threads that were given up and have not ended since.
    pub abandoned: usize,
    /// Jobs that have ended.
    pub done: u64,
    /// Jobs that were given up so far.
    pub timed_out: u64,
}

/// The state of a lane, shared by its threads.
pub(super) struct Queue {
    lane: Lane,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Jobs that can wait.
    waiting: VecDeque<Job>,
    /// Jobs whose results samples need, which go first.
    urgent: VecDeque<Job>,
    /// When the next job of each kind may begin; [`None`] is at once.
    waiting_from: Option<Instant>,
    urgent_from: Option<Instant>,
    running: HashMap<u64, Running>,
    /// How many jobs have been started.
    started: u64,
    /// Threads that take jobs.
    threads: usize,
    /// Those of them that wait for one.
    idle: usize,
    /// Threads that were given up.
    abandoned: usize,
    done: u64,
    timed_out: u64,
    /// Whether the threads are to end.
    is_closed: bool,
}

/// A job that runs.
struct Running {
    subject: Subject,
    limit: Duration,
    since: Instant,
    is_abandoned: Arc<AtomicBool>,
    fail: Arc<dyn Fn(Failure) + Send + Sync>,
}

impl Queue {
    pub(super) fn new(lane: Lane) -> Self {
        Self {
            lane,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Adds a job; `start` starts another thread of the lane.
    pub(super) fn push(&self, job: Job, start: impl FnOnce() -> bool) {
        let mut state = self.state();
        if state.jobs() >= MAX_WAITING {
            drop(state);
            (job.fail)(Failure::Overloaded);
            return;
        }
        state.waiting.push_back(job);
        self.staff(&mut state, start);
        self.changed.notify_one();
    }

    /// Has the jobs about a subject go before those that can wait.
    pub(super) fn hasten(&self, subject: &Subject) {
        let mut state = self.state();
        let waiting = std::mem::take(&mut state.waiting);
        let is_about_it = |job: &Job| job.subject == *subject;
        let (mut hastened, others): (VecDeque<_>, _) = waiting.into_iter().partition(is_about_it);
        state.waiting = others;
        let is_changed = !hastened.is_empty();
        state.urgent.append(&mut hastened);
        drop(state);
        if is_changed {
            self.changed.notify_all();
        }
    }

    /// Starts a thread if one is missing; without threads no job is left waiting.
    fn staff(&self, state: &mut State, start: impl FnOnce() -> bool) {
        let is_wanted = state.jobs() > state.idle && state.threads < self.lane.width();
        let may_start = state.abandoned < MAX_ABANDONED;
        if is_wanted && may_start && start() {
            state.threads += 1;
        }
        if state.threads == 0 {
            for job in state.take_all() {
                (job.fail)(Failure::Overloaded);
            }
        }
    }

    /// Does jobs until the lane is closed or the job of this thread is abandoned. Jobs about subjects
    /// that `is_quarantined` are not done; `overran` gets those of jobs that exceeded their budgets.
    pub(super) fn serve(
        &self,
        pace: &Pace,
        is_quarantined: impl Fn(&Subject) -> bool,
        overran: impl Fn(&Subject),
    ) {
        while let Some((number, job)) = self.next() {
            let Job {
                subject,
                limit,
                is_abandoned,
                run,
                fail,
            } = job;
            let name = || subject.name().to_owned();
            let before = thread_cpu_time();
            if is_quarantined(&subject) {
                fail(Failure::Quarantined { subject: name() });
            } else {
                Budget::new(limit, is_abandoned).begin();
                let answer = catch_unwind(AssertUnwindSafe(run));
                let (is_exceeded, others) = Budget::end();
                // Whoever has the answer must not be able to have more done about the subject.
                others.iter().for_each(&overran);
                if is_exceeded {
                    overran(&subject);
                }
                match answer {
                    Ok(answer) => answer(),
                    Err(_) => fail(Failure::Panicked { subject: name() }),
                }
            }
            let mut state = self.state();
            state.done += 1;
            let now = Instant::now();
            let pauses = pace.spend(thread_cpu_time().saturating_sub(before), now);
            if self.lane.is_paced() {
                state.waiting_from = Some(now + pauses.ordinary);
                state.urgent_from = Some(now + pauses.urgent);
            }
            if state.running.remove(&number).is_none() {
                // Given up meanwhile: another thread is in its place.
                state.abandoned -= 1;
                return;
            }
        }
    }

    /// Waits for a job; [`None`] when the lane is closed.
    fn next(&self) -> Option<(u64, Job)> {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            if let Some(job) = state.pop(now) {
                state.started += 1;
                let number = state.started;
                let running = Running {
                    subject: job.subject.clone(),
                    limit: job.limit,
                    since: Instant::now(),
                    is_abandoned: Arc::clone(&job.is_abandoned),
                    fail: Arc::clone(&job.fail),
                };
                state.running.insert(number, running);
                return Some((number, job));
            }
            if state.is_closed {
                state.threads -= 1;
                return None;
            }
            let pause = state.pause(now);
            state.idle += 1;
            state = match pause {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(pause) => {
                    let waited = self.changed.wait_timeout(state, pause);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.idle -= 1;
        }
    }

    /// Abandons the jobs whose time is over by more than `grace`; `overran` gets their subjects before
    /// whoever waits for them has an answer.
    pub(super) fn abandon_overdue(
        &self,
        grace: Duration,
        mut start: impl FnMut() -> bool,
        overran: impl Fn(&Subject),
    ) {
        let mut state = self.state();
        let overdue: Vec<_> = state
            .running
            .extract_if(|_, job| job.since.elapsed() > job.limit + grace)
            .map(|(_, job)| job)
            .collect();
        for job in &overdue {
            state.threads -= 1;
            state.abandoned += 1;
            state.timed_out += 1;
            job.is_abandoned.store(true, Ordering::Relaxed);
            self.staff(&mut state, &mut start);
        }
        drop(state);
        for job in overdue {
            overran(&job.subject);
            (job.fail)(Failure::TimedOut {
                subject: job.subject.name().to_owned(),
                limit: job.limit,
            });
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        let state = self.state();
        !state.running.is_empty() || state.jobs() > 0
    }

    pub(super) fn status(&self) -> LaneStatus {
        let state = self.state();
        LaneStatus {
            lane: self.lane,
            waiting: state.jobs(),
            running: state.running.len(),
            abandoned: state.abandoned,
            done: state.done,
            timed_out: state.timed_out,
        }
    }

    /// Drops the jobs that wait, and ends the threads after their present ones.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let waiting: Vec<_> = state.take_all().collect();
        drop(state);
        self.changed.notify_all();
        for job in waiting {
            (job.fail)(Failure::Overloaded);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How many jobs wait.
    fn jobs(&self) -> usize {
        self.waiting.len() + self.urgent.len()
    }

    /// The next job that may begin.
    fn pop(&mut self, now: Instant) -> Option<Job> {
        let may_begin = |from: Option<Instant>| from.is_none_or(|from| from <= now);
        let urgent = may_begin(self.urgent_from).then(|| self.urgent.pop_front());
        urgent
            .flatten()
            .or_else(|| may_begin(self.waiting_from).then(|| self.waiting.pop_front())?)
    }

    /// For how long nothing that waits may begin; [`None`] if nothing waits.
    fn pause(&self, now: Instant) -> Option<Duration> {
        let urgent = self.urgent_from.filter(|_| !self.urgent.is_empty());
        let waiting = self.waiting_from.filter(|_| !self.waiting.is_empty());
        let from = urgent.into_iter().chain(waiting).min()?;
        Some(from.saturating_duration_since(now))
    }

    /// Takes out all jobs that wait.
    fn take_all(&mut self) -> impl Iterator<Item = Job> {
        let urgent = std::mem::take(&mut self.urgent);
        urgent.into_iter().chain(std::mem::take(&mut self.waiting))
    }
}
