//! What the agent itself uses: CPU time, memory, file descriptors.

use std::{fs, time::Duration};

use rustix::{
    param::{clock_ticks_per_second, page_size},
    time::{ClockId, clock_gettime},
};

/// What the agent itself uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system CPU time of all threads, without the BPF programs.
    pub cpu: Duration,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
}

impl Usage {
    /// Reads the present values.
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

/// When this process started, in seconds since the Unix epoch.
pub(super) fn start_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold anything; the start is the 20th field after it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: u32 = fields.split(' ').nth(19)?.parse().ok()?;
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot: u32 = boot
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .parse()
        .ok()?;
    let per_second = u32::try_from(clock_ticks_per_second()).ok()?;
    Some(f64::from(boot) + f64::from(ticks) / f64::from(per_second))
}

/// How many file descriptors are open, without the one that counts them.
pub(super) fn open_files() -> Option<usize> {
    Some(
        fs::read_dir("/proc/self/fd")
            .ok()?
            .count()
            .saturating_sub(1),
    )
}

#[cfg(test)]
mod tests {
    use super::{Usage, open_files, start_seconds};
    use std::{fs::File, time::SystemTime};

    #[test]
    fn the_start_is_a_moment_ago() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let age = now.unwrap().as_secs_f64() - start_seconds().unwrap();
        assert!((-2.0..3600.0).contains(&age), "{age}");
    }

    #[test]
    fn an_open_file_is_counted() {
        // Other tests open and close files meanwhile.
        let files: Vec<_> = (0..500).map(|_| File::open("/").unwrap()).collect();
        assert!(open_files().unwrap() > files.len());
    }

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
