//! What the agent may cost.

/// Kernel time of a sample with 30 frames, in microseconds, on a machine like the one where the
/// least for such a program was measured: 1.3 µs with frames side by side.
pub(super) fn kernel_time_us(python_minor: u32) -> f64 {
    // From 3.11 on frames lie side by side in memory; before, each is read by itself.
    if python_minor >= 11 { 2.5 } else { 4.5 }
}

/// Kernel time of a sample with 30 Python frames and 30 native ones, in microseconds.
pub(super) const WHOLE_KERNEL_TIME_US: f64 = 8.0;

/// The agent's own CPU at 100 Hz, in percent of a processor.
pub(super) const OWN_CPU: f64 = 0.2;

/// Slowdown of the target, in percent.
pub(super) fn slowdown(rate_hz: u32) -> f64 {
    if rate_hz > 100 { 1.0 } else { 0.2 }
}

/// Peak of the agent's memory when it samples one process, in megabytes.
pub(super) const MEMORY_MB: f64 = 30.0;

/// The same when it samples a host, in megabytes.
pub(super) const HOST_MEMORY_MB: f64 = 100.0;

/// Memory of the BPF maps, in megabytes.
pub(super) const MAPS_MB: f64 = 64.0;

/// From the start of the agent to its first sample, in milliseconds.
pub(super) const FIRST_SAMPLE_MS: f64 = 300.0;

/// Size of a profile of one process for one minute, in kilobytes.
pub(super) const PROFILE_KB: f64 = 20.0;

/// Samples lost.
pub(super) const LOST: f64 = 0.0;

/// Error of a function's share of the CPU time, in percent of all.
pub(super) const SPLIT: f64 = 1.0;

/// Error of the CPU time in all, in percent of the scheduler's account.
pub(super) const CPU_SECONDS: f64 = 2.0;

/// The agent's own CPU in the first two minutes beside programs with large debug information.
pub(super) const START_CPU_SECONDS: f64 = 3.0;

/// Its own CPU after them, in percent of a processor.
pub(super) const BUSY_HOST_CPU: f64 = 0.5;

/// The peak of its memory, in megabytes.
pub(super) const BUSY_HOST_MEMORY_MB: f64 = 80.0;

/// Kernel time of a recorded sample beside a neighbour that fills the caches, in microseconds: of about
/// 30 Python frames, with native frames or without.
pub(super) fn recorded_sample_us(rate_hz: u32, has_native: bool) -> f64 {
    match (rate_hz, has_native) {
        // So often that the caches are warm.
        (500.., true) => 2.0,
        (500.., false) => 1.0,
        (50..500, _) => 6.0,
        (..50, _) => 12.0,
    }
}

/// Wall time of a capture less its duration, in seconds.
pub(super) const CAPTURE_SECONDS: f64 = 0.10;

/// Memory of a capture, and of the agent of a host before the first process, in megabytes.
pub(super) const START_MEMORY_MB: f64 = 20.0;

/// Memory of the BPF maps of a capture, and of the agent of a host, in megabytes.
pub(super) const CAPTURE_MAPS_MB: f64 = 8.0;
pub(super) const HOST_MAPS_MB: f64 = 24.0;
