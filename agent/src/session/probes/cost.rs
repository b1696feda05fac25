//! What a run of a probe costs.

use std::{arch::naked_asm, array, hint::black_box, path::Path, time::Duration};

use tracing::debug;

use crate::{
    binaries::probe_points::{ProbePoint, ProbedFunction},
    bpf::Probes,
    process::{Process, maps::Mapping},
    workers::thread_cpu_time,
};

/// Calls of [`probed`] by which the cost is measured.
const CALLS: u32 = 1_000;

/// How often that is done: interrupts, and what others leave in the caches, count in some of them.
const ROUNDS: usize = 5;

/// Bytes that are read between two calls: programs do something else in between, so that the caches of the processor
/// hold neither the kernel's code nor theirs.
const READ_BETWEEN: usize = 64 << 10;

/// Bytes of a line of a cache.
const LINE: usize = 64;

/// How much more CPU time a call of a function takes with a probe than without, in nanoseconds: that of a function of the
/// agent itself, which begins as most functions do: on x86-64 by saving a register, which the kernel emulates, at a
/// third more than an instruction that does nothing. [`None`] where the kernel does not allow it,
/// or no difference is seen.
pub(in crate::session) fn run_ns(probes: &impl Probes, function: ProbedFunction) -> Option<u64> {
    let point = ProbePoint {
        function,
        offset: offset_of_probed()?,
        announced: None,
    };
    let plain = time_of_calls();
    let own = Path::new("/proc/self/exe");
    match probes.attach(own, point, Some(std::process::id())) {
        Ok(_attached) => {
            let nanos = time_of_calls().saturating_sub(plain).as_nanos();
            let each = u64::try_from(nanos).unwrap_or(0) / u64::from(CALLS);
            (each > 0).then_some(each)
        }
        Err(error) => {
            debug!("the cost of a probe is not known: {error}");
            None
        }
    }
}

/// A function that does nothing.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn probed(_argument: u64) {
    naked_asm!("push rbx", "pop rbx", "ret")
}

/// A function that does nothing.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn probed(_argument: u64) {
    naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "ldp x29, x30, [sp], #16",
        "ret"
    )
}

/// The median of some rounds.
fn time_of_calls() -> Duration {
    let mut rounds: [_; ROUNDS] = array::from_fn(|_| time_of_round());
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}

fn time_of_round() -> Duration {
    let between = vec![1_u8; READ_BETWEEN];
    // Others may take the processor meanwhile.
    let began = thread_cpu_time();
    for _ in 0..CALLS {
        let read = between.iter().step_by(LINE).map(|byte| u64::from(*byte));
        probed(black_box(read.sum()));
    }
    thread_cpu_time().saturating_sub(began)
}

/// Where the agent's own file has [`probed`].
fn offset_of_probed() -> Option<u64> {
    let address = probed as *const () as u64;
    let process = Process::open(std::process::id()).ok()?;
    let mappings = process.mappings().ok()?;
    let has_code = |mapping: &&Mapping| mapping.contains(address);
    let mapping = mappings.iter().find(has_code)?;
    Some(address - mapping.start + mapping.file_offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_function_is_in_the_own_file() {
        assert!(offset_of_probed().is_some());
        probed(0);
    }
}
