//! Attaches the probe and detaches it, as the schedule says.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use super::{
    estimate::SharedEstimate,
    estimator::{Elapsed, Estimator, Measured, Seen},
    schedule::{BREAKPOINT_NS, Block, Credit, Phase, Spending, WINDOW_NS},
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

/// Times for attaching the probe before a window begins, in nanoseconds.
const LEAD_NS: std::ops::RangeInclusive<u64> = 2_000_000..=1_000_000_000;

/// For how long it is measured what programs do while all is recorded, and nothing, in nanoseconds.
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
    /// How long attaching it took last, in nanoseconds.
    attaching_ns: u64,
    /// The same of detaching it.
    detaching_ns: u64,
    /// What the probe did after the last window, until it was detached.
    late: RaiseCounts,
    /// Whether the window of the next block was published before it began.
    is_published: bool,
    /// Where a block began, and what the probe had done by then, whose window was missed.
    missed: Option<(Moment, RaiseCounts)>,
    credit: Credit,
    spending: Spending,
    estimator: Estimator,
    estimate: SharedEstimate,
}

/// The session has ended.
struct Stopped;

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
        while let Ok(next) = self.act(&phase, stopped)? {
            phase = next;
        }
        self.publish([RaiseWindow::default(); 2])
    }

    /// Goes through a phase; returns the next one.
    fn act(
        &mut self,
        phase: &Phase,
        stopped: &mpsc::Receiver<()>,
    ) -> Result<Result<Phase, Stopped>, Error> {
        match phase {
            Phase::All { since_ns } => {
                self.is_published = false;
                self.publish([phase.window(1.0), RaiseWindow::default()])?;
                self.record_all(*since_ns, stopped)
            }
            Phase::Block(block) => self.record_block(block, stopped),
        }
    }

    fn record_all(
        &mut self,
        mut since_ns: u64,
        stopped: &mpsc::Receiver<()>,
    ) -> Result<Result<Phase, Stopped>, Error> {
        let mut counted = self.probe.counts()?;
        loop {
            if wait(monotonic_ns() + LOOK_NS, stopped).is_err() {
                return Ok(Err(Stopped));
            }
            self.follow_sites();
            let now_ns = monotonic_ns();
            let ns = now_ns.saturating_sub(since_ns);
            let counts = self.probe.counts()?;
            let work = counts.since(counted);
            if self.credit.is_used_up(work, ns) {
                self.spending = Spending::of(work, ns);
                let Ok(recorded) = self.measure(monotonic_ns() + MEASURED_NS, stopped)? else {
                    return Ok(Err(Stopped));
                };
                self.publish([RaiseWindow::default(); 2])?;
                let Ok(idle) = self.measure(monotonic_ns() + MEASURED_NS, stopped)? else {
                    return Ok(Err(Stopped));
                };
                self.estimator.note_all(recorded, idle);
                return Ok(Ok(self.next_block(monotonic_ns())));
            }
            counted = counts;
            since_ns = now_ns;
        }
    }

    /// What the probe and the programs do until a time.
    fn measure(
        &self,
        until_ns: u64,
        stopped: &mpsc::Receiver<()>,
    ) -> Result<Result<Measured, Stopped>, Error> {
        let (counts, cpu_ns) = (self.probe.counts()?, self.cpu_ns());
        if wait(until_ns, stopped).is_err() {
            return Ok(Err(Stopped));
        }
        Ok(Ok(Measured {
            work: self.probe.counts()?.since(counts),
            cpu_ns: self.cpu_ns().saturating_sub(cpu_ns),
        }))
    }

    /// A block of which only a part has passed when the session ends.
    fn end_in(&self, block: &Block) {
        let length_ns = block.windows * WINDOW_NS;
        let passed_ns = length_ns.saturating_sub(block.end_ns.saturating_sub(monotonic_ns()));
        let share = f64::from(u32::try_from(passed_ns / 1_000).unwrap_or(u32::MAX))
            / f64::from(u32::try_from(length_ns / 1_000).unwrap_or(u32::MAX));
        let variance = self
            .estimator
            .variance_of_part(block.windows, share.min(1.0));
        self.estimate.add(passed_ns / 1_000_000, variance);
    }

    fn record_block(
        &mut self,
        block: &Block,
        stopped: &mpsc::Receiver<()>,
    ) -> Result<Result<Phase, Stopped>, Error> {
        let is_moved = self.missed.is_some();
        let (began, block_counts) = match self.missed.take() {
            Some(began) => began,
            None => (self.moment(), self.probe.counts()?),
        };
        let Ok(opened) = self.open(block, is_moved, stopped)? else {
            return Ok(Err(Stopped));
        };
        let Some(weight) = opened else {
            self.missed = Some((began, block_counts));
            self.follow_sites();
            return Ok(Ok(Phase::Block(self.moved(block))));
        };
        if wait(block.window_ns.start, stopped).is_err() {
            return Ok(Err(Stopped));
        }
        let (before, opened) = (self.probe.counts()?, self.moment());
        if wait(block.decision_ns(), stopped).is_err() {
            return Ok(Err(Stopped));
        }
        let counts = self.probe.counts()?;
        // What it costs to have it attached is paid for too: on a busy machine that takes longer than a window.
        let spent = counts.since(block_counts).and(self.late);
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
            return Ok(Err(Stopped));
        }
        let (after, closed) = (self.probe.counts()?, self.moment());
        // Exceptions that are all recorded cost little.
        if matches!(next, Phase::Block(_)) && self.is_worth_detaching(next.start_ns()) {
            self.detach()?;
        }
        self.late = self.probe.counts()?.since(after);
        let is_stopped = wait(block.end_ns, stopped).is_err();
        let ended = self.moment();
        let outside = before.since(block_counts).and(self.late);
        let variance = self.estimator.add(
            &Seen {
                windows: block.windows,
                raises: after.since(block_counts).raises,
                work: after.since(before),
                window: closed.since(opened),
                other: opened.since(began).and(ended.since(closed)),
                outside,
            },
            weight,
        );
        if is_stopped {
            self.estimate.add(0, variance);
            self.end_in(block);
            return Ok(Err(Stopped));
        }
        let unrecorded_ms = (block.windows - 1) * (WINDOW_NS / 1_000_000);
        self.estimate.add(unrecorded_ms, variance);
        self.follow_sites();
        Ok(Ok(next))
    }

    /// Has the probe attached and the window of a block published when that begins; returns the weight of its
    /// exceptions, [`None`] where it is too late.
    fn open(
        &mut self,
        block: &Block,
        is_moved: bool,
        stopped: &mpsc::Receiver<()>,
    ) -> Result<Result<Option<f64>, Stopped>, Error> {
        let start_ns = block.window_ns.start;
        if !self.is_attached || (!is_moved && self.is_worth_detaching(start_ns)) {
            self.detach()?;
            if wait(start_ns.saturating_sub(self.lead_ns()), stopped).is_err() {
                self.end_in(block);
                return Ok(Err(Stopped));
            }
            self.attach();
        }
        if !std::mem::take(&mut self.is_published) && monotonic_ns() >= start_ns {
            return Ok(Ok(None));
        }
        let weight = self.publish_block(block)?;
        let Ok(idle) = self.measure(start_ns.saturating_sub(PUBLISHING_NS), stopped)? else {
            self.end_in(block);
            return Ok(Err(Stopped));
        };
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
        let earliest_ns = monotonic_ns() + LEAD_NS.start();
        block.moved(earliest_ns, &self.spending, |below| fastrand::u64(..below))
    }

    /// Publishes the window of a block alone; returns the weight of its exceptions.
    fn publish_block(&mut self, block: &Block) -> Result<f64, Error> {
        let weight = self.estimator.weight(block.windows);
        self.publish([block.window(weight), RaiseWindow::default()])?;
        Ok(weight)
    }

    fn publish(&mut self, windows: [RaiseWindow; 2]) -> Result<(), Error> {
        self.probe.record(&RaiseWindows { windows })
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
            // Else it was attached to some of them alone.
            let least_ns = if was_attached { self.attaching_ns } else { 0 };
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
        (self.attaching_ns * 2).clamp(*LEAD_NS.start(), *LEAD_NS.end())
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
