//! What the processors of the machine have done since it was started.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// Processor time of the whole machine since it was started, in ticks: all of it, and the
/// part that the hypervisor gave to others.
///
/// # Errors
///
/// When the kernel's account cannot be read.
pub fn ticks() -> Result<(u64, u64)> {
    let numbers = numbers_of_all_processors()?;
    let stolen = numbers.get(7).copied().unwrap_or(0);
    Ok((numbers.iter().sum(), stolen))
}

/// User, nice, system, idle, waiting for I/O, interrupts, soft interrupts, stolen.
fn numbers_of_all_processors() -> Result<Vec<u64>> {
    let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let Some(line) = stat.lines().next() else {
        bail!("/proc/stat is empty");
    };
    Ok(line
        .split_whitespace()
        .skip(1)
        // What guests used, after these, is in the first two already.
        .take(8)
        .filter_map(|number| number.parse().ok())
        .collect())
}

/// Time that the processors of the machine have spent with processes and the kernel since it was
/// started. Idle time, that of the hypervisor's other machines, and what is left of it are exact where
/// idle processors have no ticks.
///
/// # Errors
///
/// When the kernel's account cannot be read.
pub fn busy_time() -> Result<Duration> {
    const IDLE_WAITING_STOLEN: [usize; 3] = [3, 4, 7];
    let numbers = numbers_of_all_processors()?;
    let all: u64 = numbers.iter().sum();
    let idle: u64 = IDLE_WAITING_STOLEN
        .iter()
        .filter_map(|&column| numbers.get(column))
        .sum();
    duration_of(all.saturating_sub(idle))
}

/// Time that the hypervisor gave to others of what processors of this machine wanted, since it was started.
///
/// # Errors
///
/// When the kernel's account cannot be read.
pub fn stolen_time() -> Result<Duration> {
    duration_of(ticks()?.1)
}

/// How long this number of ticks lasts.
fn duration_of(ticks: u64) -> Result<Duration> {
    // SAFETY: the call takes a number only.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second = u64::try_from(per_second).context("the kernel has no ticks")?;
    Ok(Duration::from_millis(ticks * 1000 / per_second.max(1)))
}
