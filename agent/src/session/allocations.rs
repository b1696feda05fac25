//! Allocations: the thread that attaches the probes to allocators, what they cost, and what a sample stands for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use agent_common::{
    limits::{ALLOCATION_PERIOD_BYTES, ANNOUNCED_ALLOCATION},
    record::Sample,
};
use anyhow::Result;
use tracing::debug;

use super::probes::{self, Places, ProbeSites, Recording};
use crate::{
    binaries::probe_points::ProbedFunction,
    bpf::{AllocationCounts, AllocationProbes, Error},
};

/// How often other places are looked for.
const LOOK: Duration = Duration::from_millis(10);

/// Records allocations until this is dropped.
pub(super) struct Allocations {
    probes: Arc<AllocationProbes>,
    /// What a call costs, in nanoseconds; 0 until that is known.
    call_ns: Arc<AtomicU64>,
    /// What has been reported.
    counted: AllocationCounts,
    /// Detaches the probes when it is dropped.
    recording: Recording,
}

impl Allocations {
    /// Starts to record allocations: where the sites say so by now, as soon as this returns.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started, or a map not be written.
    pub(super) fn start(probes: AllocationProbes, sites: &ProbeSites) -> Result<Self> {
        let probes = Arc::new(probes);
        let call_ns = Arc::new(AtomicU64::new(0));
        let recorder = Recorder {
            probes: Arc::clone(&probes),
            places: Places::new(sites.clone()),
            call_ns: Arc::clone(&call_ns),
        };
        let recording = Recording::start(sites, |stopped, attached| {
            recorder.run(stopped, attached);
            Ok(())
        })?;
        let counted = probes.counts()?;
        probes.record(true)?;
        Ok(Self {
            probes,
            call_ns,
            counted,
            recording,
        })
    }

    /// What the probes have cost the profiled processes since the last call.
    ///
    /// # Errors
    ///
    /// When a map cannot be read.
    pub(super) fn take_cost(&mut self) -> Result<Duration, Error> {
        let counts = self.probes.counts()?;
        let counted = std::mem::replace(&mut self.counted, counts);
        let call_ns = self.call_ns.load(Ordering::Relaxed);
        Ok(Duration::from_nanos(counts.cost_ns_since(counted, call_ns)))
    }

    /// Records no more; the probes are detached while something else is done.
    ///
    /// # Errors
    ///
    /// When a map cannot be written.
    pub(super) fn end(&self) -> Result<(), Error> {
        self.recording.ask();
        self.probes.record(false)
    }
}

/// Attaches the probes.
struct Recorder {
    probes: Arc<AllocationProbes>,
    places: Places,
    call_ns: Arc<AtomicU64>,
}

impl Recorder {
    /// Has the probes where the sites say so, until `stopped`; `attached` is closed when they are attached.
    fn run(mut self, stopped: &mpsc::Receiver<()>, attached: mpsc::Sender<()>) {
        let call_ns = probes::run_ns(&*self.probes, ProbedFunction::Malloc).unwrap_or(0);
        debug!("a probe of allocations takes {call_ns} ns");
        self.call_ns.store(call_ns, Ordering::Relaxed);
        self.places.follow();
        self.places.attach(&*self.probes);
        drop(attached);
        while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if self.places.follow() {
                self.places.attach(&*self.probes);
            }
        }
    }
}

impl AllocationCounts {
    /// What calls have cost since another count, in nanoseconds.
    fn cost_ns_since(self, before: Self, call_ns: u64) -> u64 {
        let calls = self.calls.saturating_sub(before.calls);
        let recording_ns = self.recording_ns.saturating_sub(before.recording_ns);
        calls.saturating_mul(call_ns).saturating_add(recording_ns)
    }
}

/// The allocations that a sample stands for: it has one of `n` bytes, which was recorded with the probability
/// `1 - exp(-n / period)`, and as its count how many of the usual periods that is. One that was announced has its
/// weight, and for how many allocations it stands.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates: casts of floats saturate, and nobody allocates 2^53 bytes"
)]
pub(super) fn estimated(sample: Sample) -> Sample {
    if sample.value == 0 || sample.count == 0 {
        return sample;
    }
    if sample.count & ANNOUNCED_ALLOCATION != 0 {
        return Sample {
            count: sample.count & !ANNOUNCED_ALLOCATION,
            ..sample
        };
    }
    let bytes = sample.value as f64;
    let period = ALLOCATION_PERIOD_BYTES as f64 * f64::from(sample.count);
    let probability = -(-bytes / period).exp_m1();
    let allocations = 1.0 / probability;
    // A number whose mean is that.
    let count = allocations as u32 + u32::from(fastrand::f64() < allocations.fract());
    Sample {
        value: (bytes * allocations) as u64,
        count,
        ..sample
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "numbers far below 2^53")]
mod tests {
    use super::*;
    use zerocopy::FromZeros as _;

    #[test]
    fn one_that_is_announced_stands_for_its_weight() {
        let mut sample = Sample::new_zeroed();
        let (weight, allocations) = (600_000, 600);
        sample.value = weight;
        sample.count = ANNOUNCED_ALLOCATION | allocations;
        let of = estimated(sample);
        assert_eq!((of.value, of.count), (weight, allocations));
    }

    /// Allocations of each size are counted right on average, whatever their size is to the period.
    #[test]
    fn what_samples_stand_for_is_what_was_allocated() {
        for (bytes, periods) in [
            (100, 1),
            (5_000, 1),
            (400_000, 1),
            (3_000_000, 1),
            (400_000, 64),
        ] {
            let mut sample = Sample::new_zeroed();
            sample.value = bytes;
            sample.count = periods;
            let period = ALLOCATION_PERIOD_BYTES as f64 * f64::from(periods);
            let probability = -(-(bytes as f64) / period).exp_m1();
            let runs = 20_000;
            let stands_for = || estimated(sample);
            let (mut total, mut count) = (0, 0);
            for _ in 0..runs {
                let of = stands_for();
                total += of.value;
                count += u64::from(of.count);
            }
            let recorded = f64::from(runs) / probability;
            let share = total as f64 / (recorded * bytes as f64);
            assert!((share - 1.0).abs() < 0.01, "{bytes} bytes: {share}");
            let share = count as f64 / recorded;
            assert!((share - 1.0).abs() < 0.02, "{bytes} bytes: {share}");
        }
    }
}
