//! Attaches the probe and detaches it, as the schedule says.

use std::{
    ops::RangeInclusive,
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use super::{
    estimate::SharedEstimate,
    estimator::{Elapsed, Estimator, Seen},
    schedule::{BREAKPOINT_NS, Block, Credit, Phase, Spending, windows_in},
};
use crate::{
    binaries::probe_points::ProbedFunction,
    bpf::{Error, RaiseCounts, RaiseProbe, monotonic_ns},
    process,
    session::probes::{self, Places, ProbeSites},
};
use agent_common::maps::{RaiseWindow, RaiseWindows};

/// The shortest time for which it is worth while to detach the probe, in nanoseconds, besides that of detaching it and
/// attaching it anew: the kernel waits for all processors.
const WORTH_DETACHING_NS: u64 = 15_000_000;

/// Times for attaching the probe before a window begins, in nanoseconds: a window that is missed costs more than a probe
/// that is attached for some milliseconds, which measures meanwhile what it costs.
const LEAD_NS: RangeInclusive<u64> = 16_000_000..=1_000_000_000;

/// Least time from a moment at which the probe is attached to a window, in nanoseconds.
const NEXT_NS: u64 = 2_000_000;

/// Windows of one block that may be missed before the probe stays attached until the next one.
const MAX_MISSED: u32 = 2;

/// For how long it is measured what programs do while nothing is recorded, in nanoseconds.
const MEASURED_NS: u64 = 5_000_000;

/// How long before a window its weight is set, in nanoseconds.
const PUBLISHING_NS: u64 = 200_000;

/// How often the cost is looked at while all exceptions are recorded, in nanoseconds.
const LOOK_NS: u64 = 50_000_000;

/// Most processes whose CPU time is measured.
const MAX_MEASURED: usize = 512;

/// Attaches the probe and detaches it.
pub(super) struct Recorder {
    probe: RaiseProbe,
    places: Places,
    /// Whether the probe is to be attached at present.
    is_attached: bool,
    /// How often it has been detached.
    detached: u64,
    /// How long attaching it takes at most, as it took of late, in nanoseconds.
    attaching_ns: u64,
    /// The same of detaching it.
    detaching_ns: u64,
    /// What the probe did after the last window, until it was detached.
    late: RaiseCounts,
    /// Whether the window of the next block was published before it began.
    is_published: bool,
    /// The begin of a block whose window was missed.
    missed: Option<Begin>,
    credit: Credit,
    spending: Spending,
    estimator: Estimator,
    estimate: SharedEstimate,
}

/// The session has ended.
struct Stopped;

/// The begin of a block.
struct Begin {
    moment: Moment,
    /// What the probe had done by then.
    counts: RaiseCounts,
    /// How many windows of the block were missed.
    missed: u32,
}

/// A moment.
#[derive(Clone, Copy)]
struct Moment {
    /// When it was, in nanoseconds of the monotonic clock.
    ns: u64,
    /// CPU time of the programs by then, in nanoseconds.
    cpu_ns: u64,
}

impl Moment {
    /// The time from an earlier one.
    fn since(self, earlier: Self) -> Elapsed {
        Elapsed {
            ns: self.ns.saturating_sub(earlier.ns),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
        }
    }
}

impl Recorder {
    pub(super) fn new(probe: RaiseProbe, sites: ProbeSites, estimate: SharedEstimate) -> Self {
        Self {
            probe,
            places: Places::new(sites),
            is_attached: true,
            detached: 0,
            attaching_ns: 0,
            detaching_ns: 0,
            late: RaiseCounts::default(),
            is_published: false,
            missed: None,
            credit: Credit::default(),
            spending: Spending::default(),
            estimator: Estimator::default(),
            estimate,
        }
    }

    /// Records exceptions until `stopped`; `attached` is closed when the probe is attached.
    pub(super) fn run(
        mut self,
        stopped: &mpsc::Receiver<()>,
        attached: mpsc::Sender<()>,
    ) -> Result<(), Error> {
        // Nothing is recorded yet.
        let run_ns = probes::run_ns(&self.probe, ProbedFunction::Traceback);
        self.estimator = Estimator::new(run_ns.unwrap_or(BREAKPOINT_NS));
        let mut phase = Phase::All {
            since_ns: monotonic_ns(),
        };
        // Before the probe is attached: each exception counts from then on.
        self.publish([phase.window(1.0), RaiseWindow::default()])?;
        self.follow_sites();
        drop(attached);
        let ended = loop {
            match self.act(&phase, stopped) {
                Ok(Ok(next)) => phase = next,
                Ok(Err(Stopped)) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.estimate.end(self.estimator.owed());
        ended.and(self.publish([RaiseWindow::default(); 2]))
    }

    /// Goes through a phase; returns the next one.
    fn act(
        &mut self,
        phase: &Phase,
        stopped: &mpsc::Receiver<()>,
    ) -> Result<Result<Phase, Stopped>, Error> {
        match phase {
            Phase::All { .. } => {
                self.is_published = false;
                self.publish([phase.window(1.0), RaiseWindow::default()])?;
                self.record_all(stopped)
            }
            Phase::Block(block) => self.record_block(block, stopped),
        }
    }

    fn record_all(
        &mut self,
        stopped: &mpsc::Receiver<()>,
    ) -> Result<Result<Phase, Stopped>, Error> {
        let (mut counted, mut since_ns) = (self.probe.counts()?, monotonic_ns());
        loop {
            if wait(monotonic_ns() + LOOK_NS, stopped).is_err() {
                return Ok(Err(Stopped));
            }
            self.follow_sites();
            let now_ns = monotonic_ns();
            let ns = now_ns.saturating_sub(since_ns);
            let counts = self.probe.counts()?;
            let work = counts.since(counted);
            self.estimator.note_present(work.raises, ns);
            if self.credit.is_used_up(work, ns) {
                self.spending = Spending::of(work, ns);
                self.publish([RaiseWindow::default(); 2])?;
                let (idle, measured) = self.measure(monotonic_ns() + MEASURED_NS, stopped)?;
                self.estimator.note_all(work, idle);
                return Ok(measured.map(|()| self.next_block(monotonic_ns())));
            }
            counted = counts;
            since_ns = now_ns;
        }
    }

    /// What the probe does until a time, or until the session ends.
    fn measure(
        &self,
        until_ns: u64,
        stopped: &mpsc::Receiver<()>,
    ) -> Result<(RaiseCounts, Result<(), Stopped>), Error> {
        let counts = self.probe.counts()?;
        let waited = wait(until_ns, stopped);
        Ok((self.probe.counts()?.since(counts), waited))
    }

    /// Ends with the session within a block, before its window was recorded to the end.
    fn end_in<T>(&mut self, block: &Block, begin: &Begin) -> Result<Result<T, Stopped>, Error> {
        self.publish([RaiseWindow::default(); 2])?;
        let now_ns = monotonic_ns();
        let recorded = self.probe.counts()?.since(begin.counts);
        let passed_ns = block.passed_ns(now_ns);
        let passed = windows_in(passed_ns);
        let uncertainty = self
            .estimator
            .add_unseen(block.windows, passed, recorded.raises);
        let unrecorded_ns = passed_ns.saturating_sub(block.recorded_ns(now_ns));
        self.estimate.add(unrecorded_ns / 1_000_000, uncertainty);
        Ok(Err(Stopped))
    }

    fn record_block(
        &mut self,
        block: &Block,
        stopped: &mpsc::Receiver<()>,
    ) -> Result<Result<Phase, Stopped>, Error> {
        let begin = match self.missed.take() {
            Some(begin) => begin,
            None => Begin {
                moment: self.moment(),
                counts: self.probe.counts()?,
                missed: 0,
            },
        };
        let Ok(opened) = self.open(block, begin.missed, stopped)? else {
            return self.end_in(block, &begin);
        };
        let Some(weight) = opened else {
            let missed = begin.missed + 1;
            self.missed = Some(Begin { missed, ..begin });
            self.follow_sites();
            return Ok(Ok(Phase::Block(self.moved(block))));
        };
        if wait(block.window_ns.start, stopped).is_err() {
            return self.end_in(block, &begin);
        }
        let (before, opened) = (self.probe.counts()?, self.moment());
        if wait(block.decision_ns(), stopped).is_err() {
            return self.end_in(block, &begin);
        }
        let counts = self.probe.counts()?;
        // What it costs to have it attached is paid for too: on a busy machine that takes longer than a window.
        let spent = counts.since(begin.counts).and(self.late);
        let recorded_ns = block.decision_ns() - block.window_ns.start;
        self.spending.add(spent, recorded_ns);
        let next = if self.spending.is_little() {
            Phase::All {
                since_ns: block.end_ns,
            }
        } else {
            self.next_block(block.end_ns)
        };
        self.is_published = monotonic_ns() < next.start_ns();
        let next_window = if self.is_published {
            next.window(weight_of(&self.estimator, &next))
        } else {
            RaiseWindow::default()
        };
        self.publish([block.window(weight), next_window])?;
        if wait(block.window_ns.end, stopped).is_err() {
            return self.end_in(block, &begin);
        }
        let (after, closed) = (self.probe.counts()?, self.moment());
        // Exceptions that are all recorded cost little.
        if matches!(next, Phase::Block(_)) && self.is_worth_detaching(next.start_ns()) {
            self.detach()?;
        }
        self.late = self.probe.counts()?.since(after);
        let is_stopped = wait(block.end_ns, stopped).is_err();
        let ended = self.moment();
        let outside = before.since(begin.counts).and(self.late);
        let passed_ns = block.passed_ns(ended.ns);
        let uncertainty = self.estimator.add(
            &Seen {
                windows: windows_in(passed_ns),
                raises: after.since(begin.counts).raises,
                work: after.since(before),
                window: closed.since(opened),
                other: opened.since(begin.moment).and(ended.since(closed)),
                outside,
            },
            weight,
        );
        let unrecorded_ns = passed_ns.saturating_sub(block.recorded_ns(ended.ns));
        self.estimate.add(unrecorded_ns / 1_000_000, uncertainty);
        if is_stopped {
            return Ok(Err(Stopped));
        }
        self.follow_sites();
        Ok(Ok(next))
    }

    /// Has the probe attached and the window of a block published when that begins; returns the weight of its
    /// exceptions, [`None`] where it is too late.
    fn open(
        &mut self,
        block: &Block,
        missed: u32,
        stopped: &mpsc::Receiver<()>,
    ) -> Result<Result<Option<f64>, Stopped>, Error> {
        let start_ns = block.window_ns.start;
        if !self.is_attached || (missed < MAX_MISSED && self.is_worth_detaching(start_ns)) {
            self.detach()?;
            if wait(start_ns.saturating_sub(self.lead_ns()), stopped).is_err() {
                return Ok(Err(Stopped));
            }
            self.attach();
        }
        if !std::mem::take(&mut self.is_published) && monotonic_ns() >= start_ns {
            return Ok(Ok(None));
        }
        let weight = self.publish_block(block)?;
        let (idle, measured) = self.measure(start_ns.saturating_sub(PUBLISHING_NS), stopped)?;
        if let Err(stopped) = measured {
            return Ok(Err(stopped));
        }
        if monotonic_ns() >= start_ns {
            return Ok(Ok(Some(weight)));
        }
        self.estimator.note_idle(idle);
        Ok(Ok(Some(self.publish_block(block)?)))
    }

    /// A block that begins at a time.
    fn next_block(&self, start_ns: u64) -> Phase {
        let random = |below| fastrand::u64(..below);
        Phase::Block(Block::new(start_ns, &self.spending, random))
    }

    /// A block whose window was missed, with one that comes later and stands for what was missed too.
    fn moved(&self, block: &Block) -> Block {
        // The probe is attached by now.
        let earliest_ns = monotonic_ns() + NEXT_NS;
        block.moved(earliest_ns, &self.spending, |below| fastrand::u64(..below))
    }

    /// Publishes the window of a block alone; returns the weight of its exceptions.
    fn publish_block(&mut self, block: &Block) -> Result<f64, Error> {
        let weight = self.estimator.weight(block.windows);
        self.publish([block.window(weight), RaiseWindow::default()])?;
        Ok(weight)
    }

    fn publish(&mut self, windows: [RaiseWindow; 2]) -> Result<(), Error> {
        self.probe.record(&RaiseWindows {
            windows,
            detached: self.detached,
        })
    }

    /// The present moment.
    fn moment(&self) -> Moment {
        Moment {
            ns: monotonic_ns(),
            cpu_ns: self.cpu_ns(),
        }
    }

    /// CPU time of the programs so far, in nanoseconds: of some, where there are many.
    fn cpu_ns(&self) -> u64 {
        let processes = self.places.processes(MAX_MEASURED);
        let times = processes.into_iter().filter_map(process::cpu_time);
        let total: Duration = times.sum();
        u64::try_from(total.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Attaches the probe in files that have become known.
    fn follow_sites(&mut self) {
        if self.places.follow() && self.is_attached {
            self.attach();
        }
    }

    /// Attaches the probe to all places.
    fn attach(&mut self) {
        let was_attached = std::mem::replace(&mut self.is_attached, true);
        let began_ns = monotonic_ns();
        if self.places.attach(&self.probe) {
            let took_ns = monotonic_ns().saturating_sub(began_ns);
            // Where it was attached before, it is attached to some of them alone.
            let before_ns = self.attaching_ns;
            let least_ns = before_ns - if was_attached { 0 } else { before_ns / 8 };
            self.attaching_ns = took_ns.max(least_ns);
        }
    }

    /// Whether it can be attached again by then, and makes a difference.
    fn is_worth_detaching(&self, until_ns: u64) -> bool {
        let left_ns = until_ns.saturating_sub(monotonic_ns());
        left_ns > WORTH_DETACHING_NS + 2 * self.detaching_ns + self.lead_ns()
    }

    /// For how long before a window the probe is attached.
    fn lead_ns(&self) -> u64 {
        (self.attaching_ns * 3 / 2).clamp(*LEAD_NS.start(), *LEAD_NS.end())
    }

    /// Detaches the probe from all places. No window is published from then on: those that are detached last may take
    /// longer than until the next one.
    fn detach(&mut self) -> Result<(), Error> {
        self.is_published = false;
        self.publish([RaiseWindow::default(); 2])?;
        if std::mem::replace(&mut self.is_attached, false) {
            let began_ns = monotonic_ns();
            self.places.detach();
            self.detaching_ns = monotonic_ns().saturating_sub(began_ns);
            // After the last run of before, and before the first one of afterwards.
            self.detached += 1;
            self.publish([RaiseWindow::default(); 2])?;
        }
        Ok(())
    }
}

/// The weight of exceptions in a phase.
fn weight_of(estimator: &Estimator, phase: &Phase) -> f64 {
    match phase {
        Phase::All { .. } => 1.0,
        Phase::Block(block) => estimator.weight(block.windows),
    }
}

/// Waits until a time in nanoseconds of the monotonic clock.
fn wait(until_ns: u64, stopped: &mpsc::Receiver<()>) -> Result<(), Stopped> {
    let left = Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()));
    match stopped.recv_timeout(left) {
        Err(RecvTimeoutError::Timeout) => Ok(()),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(Stopped),
    }
}
