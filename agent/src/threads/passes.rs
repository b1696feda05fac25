//! The thread that makes passes.
//!
//! Invariants: there is one pass in each period, at a uniformly random instant of it, so that no program
//! runs in lockstep with them, and a wait that lasts for all periods has a sample in each; what
//! passes cost is bounded: above the budget the period grows.

use std::{
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use tracing::{debug, error, info};

use super::{
    batch::Batch,
    pass::{PassError, Passer},
    process_locations::ProcessLocations,
    settings::Settings,
    shared::Shared,
    snapshot_passes,
    sources::PassSources,
    status::PassStatus,
    walker::Walker,
};
use crate::workers::{StoppableThread, Workers, thread_cpu_time};

/// Most processor time of the passes, as a share of one processor's.
const BUDGET: f64 = 0.03;

/// Time over which the cost is measured.
const MEASURED: Duration = Duration::from_secs(1);

/// Time between two lines of the log about the period.
const SAY_EVERY: Duration = Duration::from_secs(600);

/// The longest period.
const MAX_PERIOD: Duration = Duration::from_secs(2);

/// Most time for the last pass when the session ends.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// Time of one read after which the process is left out.
const HELD_UP: Duration = Duration::from_secs(2);

/// Most threads that are held up at a time: each stays until its read ends.
const MAX_HELD: u32 = 8;

/// Time after which a thread that has failed is started again.
const RESTART: Duration = Duration::from_secs(10);

/// The thread that makes passes. It ends when this is dropped.
pub struct Passes {
    settings: Settings,
    shared: Arc<Shared>,
    thread: Option<StoppableThread>,
    /// Whether there is to be no thread for a while.
    are_paused: bool,
    /// The read that was going on at the last look, and since when.
    seen: Option<((u32, u64), Instant)>,
    /// When the thread was started.
    started: Instant,
}

impl Passes {
    /// Starts to make passes; `send` gets what each of them has found.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn start(
        settings: Settings,
        sources: impl Into<PassSources>,
        locations: ProcessLocations,
        workers: Workers,
        send: impl Fn(Batch) + Send + Sync + 'static,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::new(
            sources.into(),
            locations,
            workers,
            Box::new(send),
        ));
        let mut passes = Self {
            settings,
            shared,
            thread: None,
            are_paused: false,
            seen: None,
            started: Instant::now(),
        };
        passes.thread = Some(passes.start_thread(0)?);
        Ok(passes)
    }

    fn start_thread(&self, turn: u32) -> Result<StoppableThread> {
        let (settings, shared) = (self.settings.clone(), Arc::clone(&self.shared));
        StoppableThread::start("passes", move |stopped| {
            let walker = Walker::new(settings.hash_seed, settings.with_native);
            let passer = Passer::new(Arc::clone(&shared), walker, turn, &settings);
            if let Some(snapshot) = &settings.records.snapshot {
                snapshot_passes::run(passer, snapshot, stopped, &shared);
            } else {
                run(settings.period, passer, stopped, &shared);
            }
        })
    }

    /// What it is doing.
    #[must_use]
    pub fn status(&self) -> &PassStatus {
        &self.shared.status
    }

    /// Gives the thread up if a process has held it up for a while, and starts another one, which
    /// leaves that process out. To be called about once a second.
    ///
    /// # Errors
    ///
    /// When another one cannot be started.
    pub fn supervise(&mut self) -> Result<()> {
        if self.are_paused {
            return Ok(());
        }
        if self
            .thread
            .as_ref()
            .is_none_or(StoppableThread::is_finished)
        {
            // It has failed, which it has said, or too many are held up.
            if self.started.elapsed() >= RESTART && self.shared.held() < MAX_HELD {
                let turn = self.shared.next_turn();
                self.thread = Some(self.start_thread(turn)?);
                self.started = Instant::now();
            }
            return Ok(());
        }
        let read = self.shared.present_read();
        let since = match (read, self.seen) {
            (None, _) => {
                self.seen = None;
                return Ok(());
            }
            (Some(read), Some((seen, since))) if read == seen => since,
            (Some(read), _) => {
                self.seen = Some((read, Instant::now()));
                return Ok(());
            }
        };
        if since.elapsed() < HELD_UP {
            return Ok(());
        }
        self.seen = None;
        let Some((tgid, _)) = read else {
            return Ok(());
        };
        let turn = self.shared.give_up(tgid);
        self.started = Instant::now();
        self.thread = if self.shared.held() < MAX_HELD {
            Some(self.start_thread(turn)?)
        } else {
            error!("no passes over the threads are made: too many processes hold them up");
            None
        };
        Ok(())
    }

    /// Has the passes stand for the time until then, and no longer: sampling ends at that time, if not before.
    pub fn set_end(&self, end: Instant) {
        self.shared.set_end(end);
    }

    /// Ends the passes: all that was found is sent when this returns. Returns whether they have ended by that: a process
    /// may hold them up in a page that it controls.
    pub fn stop(&mut self) -> bool {
        let thread = self.thread.take();
        thread.is_some_and(|thread| thread.stop(STOP_LIMIT))
    }

    /// Makes no passes until [`Self::resume`]: all that was found is sent when this returns. Returns whether it may be resumed:
    /// not where a process holds up the thread, which may go on later.
    pub fn pause(&mut self) -> bool {
        self.are_paused = true;
        self.stop()
    }

    /// Makes passes again, which know nothing of those before.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn resume(&mut self) -> Result<()> {
        (self.are_paused, self.seen) = (false, None);
        self.thread = Some(self.start_thread(self.shared.next_turn())?);
        self.started = Instant::now();
        Ok(())
    }
}

impl Drop for Passes {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Makes passes until `stopped`.
fn run(wanted: Duration, mut passer: Passer, stopped: &mpsc::Receiver<()>, shared: &Shared) {
    wake_on_time();
    make_passes(wanted, &mut passer, stopped, shared);
    passer.finish();
    (shared.send)(passer.batch.take());
}

fn make_passes(
    wanted: Duration,
    passer: &mut Passer,
    stopped: &mpsc::Receiver<()>,
    shared: &Shared,
) {
    let status = &shared.status;
    let mut pace = Pace::new(wanted);
    // The periods up to here have their samples.
    let mut done = Instant::now();
    let mut is_first = true;
    // What the status has of its processor time already.
    let mut counted = Duration::ZERO;
    let mut random = fastrand::Rng::new();
    loop {
        let left = shared.end().map(|end| end.saturating_duration_since(done));
        let period = pace.period.min(left.unwrap_or(Duration::MAX));
        let instant = done + period.mul_f64(random.f64());
        let wait = if period.is_zero() {
            // All has its samples.
            Duration::MAX
        } else {
            instant.saturating_duration_since(Instant::now())
        };
        let is_over = stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
        // One that is late because the machine is busy is made all the same.
        if is_over && (period.is_zero() || Instant::now() < instant) {
            return;
        }
        let (elapsed, missed) = time_of_pass(period, done.elapsed(), left);
        done += elapsed;
        match passer.pass(nanoseconds(elapsed)) {
            Ok(()) => {}
            Err(PassError::GivenUp) => return,
            Err(PassError::Failed(error)) => {
                error!("passes over the threads have failed: {error}");
                return;
            }
        }
        (shared.send)(passer.batch.take());
        status.passes.fetch_add(1, Ordering::Relaxed);
        let elapsed_ns = nanoseconds(elapsed);
        status.elapsed_ns.fetch_add(elapsed_ns, Ordering::Relaxed);
        status.missed.fetch_add(missed, Ordering::Relaxed);
        let cpu = thread_cpu_time();
        status
            .cpu_ns
            .fetch_add(nanoseconds(cpu.saturating_sub(counted)), Ordering::Relaxed);
        counted = cpu;
        if std::mem::take(&mut is_first) {
            // It has read all stacks, which the others need not.
            pace = Pace::new(wanted);
        }
        pace.adjust(cpu);
        let period_ns = nanoseconds(pace.period);
        status.period_ns.store(period_ns, Ordering::Relaxed);
        if is_over {
            return;
        }
    }
}

/// The time that a pass stands for which is made so late after the beginning of its period, and how many periods have
/// no pass because of that: it stands for them too, but for no more than is `left` of the session.
fn time_of_pass(period: Duration, late: Duration, left: Option<Duration>) -> (Duration, u64) {
    let missed = late.as_nanos() / period.as_nanos().max(1);
    let missed = u32::try_from(missed).unwrap_or(u32::MAX - 1);
    let elapsed = period.saturating_mul(missed + 1);
    let left = left.unwrap_or(Duration::MAX);
    (elapsed.min(left), u64::from(missed))
}

/// Has this thread woken at the instant that it has chosen. By default the kernel may wait for another
/// timer, of up to 50 µs later, and wakes threads of the profiled programs at the same time.
fn wake_on_time() {
    // SAFETY: the call takes a number. Where it fails the default stays.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// The period, which follows the cost.
struct Pace {
    wanted: Duration,
    period: Duration,
    since: Instant,
    cpu: Duration,
    /// When it was logged last that it has changed.
    said: Option<Instant>,
}

impl Pace {
    fn new(wanted: Duration) -> Self {
        Self {
            wanted,
            period: wanted,
            since: Instant::now(),
            cpu: thread_cpu_time(),
            said: None,
        }
    }

    /// Changes the period, given the processor time that the passes have used so far.
    fn adjust(&mut self, cpu: Duration) {
        let elapsed = self.since.elapsed();
        if elapsed < MEASURED.max(self.period * 2) {
            return;
        }
        let share = cpu.saturating_sub(self.cpu).as_secs_f64() / elapsed.as_secs_f64();
        let before = self.period;
        self.period = next_period(before, self.wanted, share);
        self.since = Instant::now();
        self.cpu = cpu;
        if self.period != before {
            self.say(share);
        }
    }

    /// Logs that the period has changed; where it changes again and again, for people once in a while.
    fn say(&mut self, share: f64) {
        let text = format!(
            "passes over the threads use {:.1} % of a processor: there is one in {} ms now",
            100.0 * share,
            self.period.as_millis()
        );
        if self.said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            info!("{text}");
            self.said = Some(Instant::now());
        } else {
            debug!("{text}");
        }
    }
}

/// The period after one in which the passes used such a share of a processor.
fn next_period(period: Duration, wanted: Duration, share: f64) -> Duration {
    if share > BUDGET {
        // A pass costs more the more threads have run since the last one, so that this is not too much.
        let times = (share / BUDGET).max(2.0);
        period.mul_f64(times).min(MAX_PERIOD.max(wanted))
    } else if share < BUDGET / 3.0 {
        (period / 2).max(wanted)
    } else {
        period
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_stand_for_all_of_the_time_and_no_more() {
        let time = |period, late, left: Option<u64>| {
            let [period, late] = [period, late].map(Duration::from_millis);
            let (elapsed, missed) = time_of_pass(period, late, left.map(Duration::from_millis));
            (elapsed.as_millis(), missed)
        };
        assert_eq!(time(10, 9, None), (10, 0));
        assert_eq!(time(10, 25, None), (30, 2));
        assert_eq!(time(10, 25, Some(100)), (30, 2));
        assert_eq!(time(10, 25, Some(12)), (12, 2));
        assert_eq!(time(3, 1, Some(3)), (3, 0));
    }

    #[test]
    fn the_period_follows_the_cost() {
        let wanted = Duration::from_millis(10);
        let twice = next_period(wanted, wanted, 0.05);
        assert_eq!(twice, wanted * 2);
        assert_eq!(next_period(wanted, wanted, 0.36), wanted * 12);
        assert_eq!(next_period(twice, wanted, 0.02), twice);
        assert_eq!(next_period(twice, wanted, 0.005), wanted);
        assert_eq!(next_period(wanted, wanted, 0.0), wanted);
        assert_eq!(next_period(MAX_PERIOD, wanted, 1.0), MAX_PERIOD);
        let slow = Duration::from_secs(10);
        assert_eq!(next_period(slow, slow, 1.0), slow);
    }
}
