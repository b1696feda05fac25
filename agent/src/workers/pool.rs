//! All lanes, and the supervisor that abandons jobs that do not end.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tracing::warn;

use super::{
    failure::Failure,
    job::{Job, Pending},
    lane::{Lane, LaneStatus, Queue},
    pace::Pace,
    quarantine::{Quarantine, Quarantined, Subject},
};

/// How often overdue jobs are looked for while there are jobs.
const SUPERVISION_INTERVAL: Duration = Duration::from_millis(100);

/// Time in which a job that reads can end by itself after its budget is exceeded.
const GRACE: Duration = Duration::from_millis(500);

/// Stack of a worker thread; demanglers recurse.
const STACK_BYTES: usize = 2 << 20;

/// The worker threads; they end when the last clone is dropped and their jobs are done.
#[derive(Clone)]
pub struct Workers(Arc<Owner>);

/// What the threads are doing.
#[derive(Clone, Debug)]
pub struct WorkersStatus {
    /// By lane.
    pub lanes: Vec<LaneStatus>,
    /// Subjects in quarantine.
    pub quarantined: Vec<Quarantined>,
    /// How many subjects have entered quarantine so far.
    pub quarantines: u64,
}

/// Closes the lanes when it is dropped.
struct Owner(Arc<Shared>);

struct Shared {
    lanes: [Queue; Lane::ALL.len()],
    quarantine: Mutex<Quarantine>,
    pace: Pace,
    supervision: Mutex<Supervision>,
    job_added: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Supervision {
    NotStarted,
    Running,
    Ended,
}

impl Default for Workers {
    fn default() -> Self {
        Self(Arc::new(Owner(Arc::new(Shared {
            lanes: Lane::ALL.map(Queue::new),
            quarantine: Mutex::default(),
            pace: Pace::default(),
            supervision: Mutex::new(Supervision::NotStarted),
            job_added: Condvar::new(),
        }))))
    }
}

impl Workers {
    /// Submits a job. It may take `limit` of time; what it reads is charged to its budget.
    pub fn submit<T: Send + 'static>(
        &self,
        lane: Lane,
        subject: Subject,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Pending<T> {
        let shared = &self.0.0;
        let (job, pending) = Job::new(subject, limit, work);
        if shared.is_quarantined(&job.subject) {
            (job.fail)(Failure::Quarantined {
                subject: job.subject.name().to_owned(),
            });
        } else {
            shared.queue(lane).push(job, || shared.start(lane));
            shared.supervise();
        }
        pending
    }

    /// Has the jobs about a subject that wait go before others of their lane: samples need them.
    pub fn hasten(&self, lane: Lane, subject: &Subject) {
        self.0.0.queue(lane).hasten(subject);
    }

    /// Whether jobs about a subject are refused.
    #[must_use]
    pub fn is_quarantined(&self, subject: &Subject) -> bool {
        self.0.0.is_quarantined(subject)
    }

    /// Limits jobs that can wait to this share of one processor in the long run.
    pub fn limit_cpu(&self, share: f64) {
        self.0.0.pace.limit(share);
    }

    /// Puts a subject into quarantine that held up a thread which is none of the workers'.
    pub fn quarantine(&self, subject: &Subject) {
        self.0.0.quarantine_overrun(subject);
    }

    /// Ends the quarantine of a subject that has changed, for instance a process that has exited.
    pub fn release(&self, subject: &Subject) {
        self.0.0.quarantine().remove(subject);
    }

    /// What the threads are doing.
    #[must_use]
    pub fn status(&self) -> WorkersStatus {
        let shared = &self.0.0;
        let quarantine = shared.quarantine();
        WorkersStatus {
            lanes: shared.lanes.iter().map(Queue::status).collect(),
            quarantined: quarantine.list(),
            quarantines: quarantine.entered(),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        for queue in &self.0.lanes {
            queue.close();
        }
        *self.0.supervision() = Supervision::Ended;
        self.0.job_added.notify_all();
    }
}

impl Shared {
    fn queue(&self, lane: Lane) -> &Queue {
        &self.lanes[lane as usize]
    }

    /// Starts a thread of a lane; returns whether it could.
    fn start(self: &Arc<Self>, lane: Lane) -> bool {
        let shared = Arc::clone(self);
        let started = spawn(lane.name(), move || {
            let queue = shared.queue(lane);
            queue.serve(
                &shared.pace,
                |subject| shared.is_quarantined(subject),
                |subject| shared.quarantine_overrun(subject),
            );
        });
        if let Err(error) = &started {
            warn!("cannot start a thread: {error}");
        }
        started.is_ok()
    }

    /// Has the supervisor look after the jobs.
    fn supervise(self: &Arc<Self>) {
        let mut supervision = self.supervision();
        if *supervision == Supervision::NotStarted {
            let shared = Arc::clone(self);
            if spawn("supervisor", move || shared.abandon_overdue()).is_ok() {
                *supervision = Supervision::Running;
            }
        }
        self.job_added.notify_one();
    }

    /// Abandons jobs that are overdue, until the workers end.
    fn abandon_overdue(self: &Arc<Self>) {
        let mut supervision = self.supervision();
        while *supervision != Supervision::Ended {
            let has_jobs = self.lanes.iter().any(Queue::is_busy);
            let interval = if has_jobs {
                SUPERVISION_INTERVAL
            } else {
                Duration::MAX
            };
            supervision = self
                .job_added
                .wait_timeout(supervision, interval)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            drop(supervision);
            for lane in Lane::ALL {
                let start = || self.start(lane);
                let overran = |subject: &Subject| self.quarantine_overrun(subject);
                self.queue(lane).abandon_overdue(GRACE, start, overran);
            }
            supervision = self.supervision();
        }
    }

    fn is_quarantined(&self, subject: &Subject) -> bool {
        self.quarantine().contains(subject, Instant::now())
    }

    /// Puts a subject into quarantine, with one line in the log.
    fn quarantine_overrun(&self, subject: &Subject) {
        if self.quarantine().add(subject, Instant::now()) {
            let (subject, reason) = (subject.name(), subject.reason());
            warn!("{subject} is left out for some minutes: {reason}");
        }
    }

    fn quarantine(&self) -> MutexGuard<'_, Quarantine> {
        let quarantine = self.quarantine.lock();
        quarantine.unwrap_or_else(PoisonError::into_inner)
    }

    fn supervision(&self) -> MutexGuard<'_, Supervision> {
        let supervision = self.supervision.lock();
        supervision.unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(STACK_BYTES)
        .spawn(run)
        .map(drop)
}
