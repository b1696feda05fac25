//! The windows of a comparison, as figures.

use super::budget;
use super::figure::{Figures, Topic};
use super::plan::PEER_RATE_HZ;
use super::slowdown::{Compared, Noise, Window};
use crate::commands::observe::stats::{float, largest, median};

/// Adds the windows with the agent.
pub(super) fn of_agent(
    figures: &mut Figures,
    case: &str,
    rate_hz: u32,
    compared: &Compared,
    noise: Noise,
) {
    let of = |value: fn(&Window) -> f64| compared.windows.iter().map(value);
    let kernel = || {
        let kernels = compared.windows.iter();
        kernels.filter_map(|window| window.kernel)
    };
    // Budgets of what the agent itself uses are for the rate at which it is compared.
    let is_usual = rate_hz == PEER_RATE_HZ;

    figures
        .of(Topic::OwnCpu, case)
        .agent_of(of(|window| window.own_cpu))
        .budget = is_usual.then_some(budget::OWN_CPU);
    for (topic, slower, noise) in slower(compared, noise) {
        let figure = figures.of(topic, case);
        figure.agent = slower;
        figure.budget = Some(budget::slowdown(rate_hz));
        figure.noise = noise;
    }
    if !is_usual {
        return;
    }
    figures
        .of(Topic::KernelCpu, case)
        .agent_of(kernel().map(|kernel| kernel.cpu));
    figures
        .of(Topic::TotalCpu, case)
        .agent_of(of(|window| 1e3 * window.total_cpu.as_secs_f64()));
    figures
        .of(Topic::FirstSample, case)
        .agent_of(kernel().map(|kernel| 1e3 * kernel.first_sample_after.as_secs_f64()))
        .budget = Some(budget::FIRST_SAMPLE_MS);
    let memory = figures.of(Topic::Memory, case);
    memory.agent = largest(of(megabytes));
    memory.budget = Some(budget::MEMORY_MB);
}

/// Adds the windows with the agent's clock alone.
pub(super) fn of_clock(figures: &mut Figures, case: &str, compared: &Compared, noise: Noise) {
    let [(_, slower, noise), _] = slower(compared, noise);
    let figure = figures.of(Topic::ClockAlone, case);
    figure.agent = slower;
    figure.noise = noise;
}

/// Adds the windows with py-spy beside those.
pub(super) fn of_py_spy(
    figures: &mut Figures,
    workload: &str,
    case: &str,
    compared: &Compared,
    noise: Noise,
) {
    let of = |value: fn(&Window) -> f64| compared.windows.iter().map(value);
    figures.of(Topic::OwnCpu, case).py_spy = median(of(|window| window.own_cpu));
    figures.of(Topic::TotalCpu, case).py_spy =
        median(of(|window| 1e3 * window.total_cpu.as_secs_f64()));
    figures.of(Topic::Memory, case).py_spy = largest(of(megabytes));
    for (topic, slower, noise) in slower(compared, noise) {
        let figure = figures.of(topic, case);
        figure.py_spy = slower;
        // The agent's noise is what its verdict depends on.
        figure.noise = figure.noise.or(noise);
    }
    let errors = compared
        .windows
        .iter()
        .filter_map(|window| window.cpu_error);
    figures.of(Topic::CpuSeconds, workload).py_spy = median(errors);
}

/// By how much the target was slower, and its noise: of the windows without a profiler, or the spread
/// of the windows with it, if that is larger.
fn slower(compared: &Compared, noise: Noise) -> [(Topic, Option<f64>, Option<f64>); 2] {
    [
        (Topic::SlowdownByCpu, compared.slower_by_cpu, noise.by_cpu),
        (
            Topic::SlowdownByWall,
            compared.slower_by_wall,
            noise.by_wall,
        ),
    ]
    .map(|(topic, slower, noise)| {
        let spread = slower.map(|slower| slower.spread);
        let noise = largest(noise.into_iter().chain(spread));
        (topic, slower.map(|slower| slower.median), noise)
    })
}

fn megabytes(window: &Window) -> f64 {
    float(window.peak_memory_bytes) / 1e6
}
