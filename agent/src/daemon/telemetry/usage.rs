//! What the agent uses itself.

use std::{fs, time::Duration};

use rustix::{
    param::page_size,
    time::{ClockId, clock_gettime},
};

/// What the agent uses itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all its threads since it began, without that of the kernel half.
    pub cpu: Duration,
    /// Memory that it has in RAM, in bytes.
    pub resident_bytes: u64,
}

impl Usage {
    /// What it has used so far.
    #[must_use]
    pub fn now() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(cpu.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(cpu.tv_nsec).unwrap_or(0);
        let pages = fs::read_to_string("/proc/self/statm")
            .ok()
            .and_then(|statm| statm.split(' ').nth(1)?.parse::<u64>().ok());
        Self {
            cpu: Duration::new(seconds, nanoseconds),
            resident_bytes: pages.unwrap_or(0) * page_size() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Usage;

    #[test]
    fn work_is_counted() {
        let before = Usage::now();
        assert!(before.resident_bytes > 1 << 20);
        let mut sum = 0_u64;
        while Usage::now().cpu == before.cpu {
            sum = sum.wrapping_add(1);
        }
        assert!(Usage::now().cpu > before.cpu, "{sum}");
    }
}
