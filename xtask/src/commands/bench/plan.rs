//! What is measured: everything in some minutes, or the most important figures in one.

use std::time::Duration;

use super::scenes::Scene;
use super::slowdown::Windows;
use super::workload::Kind;

/// What to measure of an interpreter.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) workloads: Vec<Kind>,
    /// Rates at which the kernel time of samples is measured: a usual one, and higher ones, which
    /// give many samples in a short time. They are primes, so that no period of the workload matches.
    pub(super) kernel_rates_hz: &'static [u32],
    /// How many windows of such a capture are averaged, each by itself.
    pub(super) kernel_windows: u32,
    /// Depths of the stacks from which the cost of one frame is computed.
    pub(super) depths: &'static [u32],
    /// Rates at which the slowdown is measured.
    pub(super) slowdown_rates_hz: &'static [u32],
    pub(super) slowdown: Windows,
    /// Seconds of the profile of the known split.
    pub(super) split: Duration,
    /// Seconds of the profiles whose size is measured.
    pub(super) profile_seconds: &'static [u32],
    /// Waiting threads of a process that must not cost more than one with few; 0 for none.
    pub(super) many_threads: u32,
    /// The scenes of `agent run`, and how long each is measured.
    pub(super) scenes: Vec<Scene>,
    pub(super) scene: Duration,
    /// Whether nothing else is measured.
    pub(super) only_scenes: bool,
}

/// The rate of the measurements by depth.
pub(super) const DEPTH_RATE_HZ: u32 = 4999;

/// The rate at which the split and the CPU seconds are compared: ten seconds of it are ten thousand
/// samples.
pub(super) const ACCURACY_RATE_HZ: u32 = 997;

/// The rate of the profiles whose size is measured: the agent's default.
pub(super) const PROFILE_RATE_HZ: u32 = 99;

/// The rate of other profilers.
pub(super) const PEER_RATE_HZ: u32 = 100;

/// What may happen on a host.
const SCENES: [Scene; 2] = [
    Scene::Crowd {
        processes: 500,
        busy: 50,
    },
    Scene::Starts { per_second: 1000 },
];

impl Plan {
    pub(super) fn whole(rounds: u32) -> Self {
        Self {
            workloads: vec![
                Kind::DeepSingle,
                Kind::Threads,
                Kind::MostlyIdle,
                Kind::ShortCalls,
                Kind::CExtensions,
            ],
            kernel_rates_hz: &[97, 997, DEPTH_RATE_HZ],
            kernel_windows: 5,
            depths: &[1, 10, 30, 100, 200, 300],
            slowdown_rates_hz: &[100, 1000],
            slowdown: Windows {
                without: Duration::from_secs(1),
                with: Duration::from_millis(1200),
                rounds,
            },
            split: Duration::from_secs(10),
            profile_seconds: &[10, 60],
            many_threads: 1000,
            scenes: SCENES.to_vec(),
            scene: Duration::from_secs(60),
            only_scenes: false,
        }
    }

    /// The plan for a second interpreter: without what takes long and differs little from the first.
    pub(super) fn further(self) -> Self {
        Self {
            kernel_rates_hz: &[997, DEPTH_RATE_HZ],
            slowdown_rates_hz: &[100],
            profile_seconds: &[10],
            scenes: Vec::new(),
            ..self
        }
    }

    pub(super) fn quick() -> Self {
        Self {
            workloads: vec![Kind::DeepSingle, Kind::Threads],
            kernel_rates_hz: &[DEPTH_RATE_HZ],
            kernel_windows: 3,
            depths: &[1, 30, 300],
            slowdown_rates_hz: &[100],
            slowdown: Windows {
                without: Duration::from_secs(1),
                with: Duration::from_secs(1),
                rounds: 2,
            },
            split: Duration::from_secs(5),
            profile_seconds: &[10],
            many_threads: 0,
            scenes: SCENES.to_vec(),
            scene: Duration::from_secs(15),
            only_scenes: false,
        }
    }
}
