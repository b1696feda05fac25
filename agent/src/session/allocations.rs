//! Allocations: the thread that attaches the probes to allocators, what they cost, and what a sample stands for.

use std::{
    arch::naked_asm,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use agent_common::{limits::ALLOCATION_PERIOD_BYTES, record::Sample};
use anyhow::Result;
use tracing::debug;

use super::probes::{Places, ProbeSites, Recording};
use crate::{
    binaries::probe_points::{ProbePoint, ProbedFunction},
    bpf::{AllocationCounts, AllocationProbes, Error, Probes as _},
    process::{Process, maps::Mapping},
};

/// How often other places are looked for, and the counts taken.
const LOOK: Duration = Duration::from_millis(10);

/// Calls of [`probed`] by which the cost of a probe is measured.
const MEASURED_CALLS: u32 = 2_000;

/// Records allocations until this is dropped.
pub(super) struct Allocations {
    /// What the probes have cost so far and was not reported yet, in nanoseconds.
    cost_ns: Arc<AtomicU64>,
    recording: Recording,
}

impl Allocations {
    /// Starts to record allocations: where the sites say so by now, as soon as this returns.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(super) fn start(probes: AllocationProbes, sites: &ProbeSites) -> Result<Self> {
        let cost_ns = Arc::new(AtomicU64::new(0));
        let recorder = Recorder {
            probes,
            places: Places::new(sites.clone()),
            cost_ns: cost_ns.clone(),
        };
        let recording =
            Recording::start(sites, |stopped, attached| recorder.run(stopped, attached))?;
        Ok(Self { cost_ns, recording })
    }

    /// What the probes have cost the profiled processes since the last call.
    pub(super) fn take_cost(&self) -> Duration {
        Duration::from_nanos(self.cost_ns.swap(0, Ordering::Relaxed))
    }

    /// Detaches the probes: no allocation is recorded when this returns.
    pub(super) fn stop(&mut self) {
        self.recording.stop();
    }
}

/// Attaches the probes.
struct Recorder {
    probes: AllocationProbes,
    places: Places,
    cost_ns: Arc<AtomicU64>,
}

impl Recorder {
    /// Records allocations until `stopped`; `attached` is closed when the probes are attached.
    fn run(
        mut self,
        stopped: &mpsc::Receiver<()>,
        attached: mpsc::Sender<()>,
    ) -> Result<(), Error> {
        let call_ns = self.measured_call_ns();
        debug!("a probe of allocations takes {call_ns} ns");
        self.places.follow();
        let mut counted = self.probes.counts()?;
        self.places.attach(&self.probes);
        drop(attached);
        loop {
            let is_stopped = stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout);
            if is_stopped {
                self.places.detach();
            } else if self.places.follow() {
                self.places.attach(&self.probes);
            }
            let counts = self.probes.counts()?;
            let cost_ns = counts.cost_ns_since(counted, call_ns);
            self.cost_ns.fetch_add(cost_ns, Ordering::Relaxed);
            counted = counts;
            if is_stopped {
                return Ok(());
            }
        }
    }

    /// How long a call of a function takes longer with a probe than without, in nanoseconds: that of a function of the
    /// agent itself, which begins as the functions of the C library do, with an instruction that the kernel emulates.
    /// 0 where the kernel does not allow it.
    fn measured_call_ns(&self) -> u64 {
        let Some(point) = point_of_probed() else {
            return 0;
        };
        let plain = time_of_calls();
        let own = Path::new("/proc/self/exe");
        match self.probes.attach(own, point, Some(std::process::id())) {
            Ok(_attached) => {
                let nanos = time_of_calls().saturating_sub(plain).as_nanos();
                u64::try_from(nanos).unwrap_or(0) / u64::from(MEASURED_CALLS)
            }
            Err(error) => {
                debug!("the cost of a probe of allocations is not known: {error}");
                0
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

/// A function that asks for no memory, with the argument of `malloc`.
#[unsafe(naked)]
extern "C" fn probed(_bytes: u64) {
    naked_asm!("nop", "ret")
}

fn time_of_calls() -> Duration {
    let began = Instant::now();
    for _ in 0..MEASURED_CALLS {
        probed(0);
    }
    began.elapsed()
}

/// Where the agent's own file has [`probed`].
fn point_of_probed() -> Option<ProbePoint> {
    let address = probed as *const () as u64;
    let process = Process::open(std::process::id()).ok()?;
    let mappings = process.mappings().ok()?;
    let has_code = |mapping: &&Mapping| mapping.contains(address);
    let mapping = mappings.iter().find(has_code)?;
    Some(ProbePoint {
        function: ProbedFunction::Malloc,
        offset: address - mapping.start + mapping.file_offset,
    })
}

/// The allocations that a sample stands for: it has one of `n` bytes, which was recorded with the probability
/// `1 - exp(-n / period)`, and as its count how many of the usual periods that is.
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

    #[test]
    fn the_measured_function_is_in_the_own_file() {
        assert!(point_of_probed().is_some());
        probed(0);
    }
}
