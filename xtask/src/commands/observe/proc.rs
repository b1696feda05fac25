//! What the kernel counts for other processes and for the machine.
//!
//! Invariant: a process that is gone is [`None`] or an error, never zero.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// The total run time of a BPF program, and the number of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) struct ProgramRuns {
    pub(in crate::commands) time_ns: u64,
    pub(in crate::commands) count: u64,
}

/// CPU time of all threads of a process so far, those that have ended too.
///
/// Unlike the files in `/proc` it is exact while the process runs; those are up to a tick of the
/// scheduler late.
pub(in crate::commands) fn cpu_time(pid: u32) -> Result<Duration> {
    // As clock_getcpuclockid(3) makes it: the complement of the process id, and what to count.
    const SCHEDULER_TIME: libc::clockid_t = 2;
    let clock = (!libc::clockid_t::try_from(pid)? << 3) | SCHEDULER_TIME;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result != 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("process {pid} has no CPU clock"));
    }
    Ok(Duration::new(
        u64::try_from(time.tv_sec)?,
        u32::try_from(time.tv_nsec)?,
    ))
}

/// How long the threads of a process that are there now have waited for a processor.
pub(in crate::commands) fn run_queue_wait(pid: u32) -> Result<Duration> {
    let tasks = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&tasks).with_context(|| format!("cannot read {tasks}"))?;
    let mut wait_ns = 0;
    for task in tasks.flatten() {
        // A thread may end meanwhile.
        let Ok(schedule) = fs::read_to_string(task.path().join("schedstat")) else {
            continue;
        };
        let wait = schedule.split_whitespace().nth(1);
        wait_ns += wait.and_then(|wait| wait.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(wait_ns))
}

/// Page faults of a process so far that needed no input or output.
pub(in crate::commands) fn page_faults(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // After the name, which may have spaces: the state, five ids, the terminal's group, flags.
    let (_, fields) = stat.rsplit_once(") ").context("a process without a name")?;
    let faults = fields.split(' ').nth(7).context("too few fields")?;
    Ok(faults.parse()?)
}

/// Most memory that a process has had in RAM so far, in bytes.
pub(in crate::commands) fn peak_memory_bytes(pid: u32) -> Result<u64> {
    status_bytes(pid, "VmHWM:")
}

/// Memory that a process has in RAM, in bytes.
pub(in crate::commands) fn memory_bytes(pid: u32) -> Result<u64> {
    status_bytes(pid, "VmRSS:")
}

fn status_bytes(pid: u32, name: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = value.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    let kilobytes = kilobytes.with_context(|| format!("no {name} in {path}"))?;
    Ok(kilobytes * 1024)
}

/// Processes and threads that were started since the machine was.
pub(in crate::commands) fn forks() -> Result<u64> {
    let path = "/proc/stat";
    let stat = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let forks = stat
        .lines()
        .find_map(|line| line.strip_prefix("processes "));
    forks
        .and_then(|forks| forks.trim().parse().ok())
        .with_context(|| format!("no number of processes in {path}"))
}

/// Whether the process has ended, even if its status was not read yet.
pub(in crate::commands) fn has_ended(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    // The name before it may contain anything.
    stat.rsplit_once(") ")
        .is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// The files with the run times of the BPF programs that a process has open.
///
/// Only reads links, which is cheap enough to be done often.
pub(in crate::commands) fn programs(pid: u32) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let is_program = |entry: &DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:bpf-prog")
    };
    entries
        .flatten()
        .filter(is_program)
        .map(|entry| Path::new(&format!("/proc/{pid}/fdinfo")).join(entry.file_name()))
        .collect()
}

/// The memory of the BPF maps that a process has open, by the kernel's ids of the maps.
pub(in crate::commands) fn maps(pid: u32) -> Result<BTreeMap<u32, u64>> {
    objects(pid, |text| {
        Some((field(text, "map_id")?, field(text, "memlock")?))
    })
}

/// The instructions that the verifier has processed for each BPF program that a process has open, by
/// the kernel's ids of the programs.
pub(in crate::commands) fn verified_instructions(pid: u32) -> Result<BTreeMap<u32, u64>> {
    objects(pid, |text| {
        Some((field(text, "prog_id")?, field(text, "verified_insns")?))
    })
}

/// What `read` finds in the description of each open file: an id and a number. Several files may be
/// the same object.
fn objects(pid: u32, read: impl Fn(&str) -> Option<(u64, u64)>) -> Result<BTreeMap<u32, u64>> {
    let path = format!("/proc/{pid}/fdinfo");
    let mut objects = BTreeMap::new();
    for entry in fs::read_dir(&path).with_context(|| format!("cannot read {path}"))? {
        // A descriptor may be closed meanwhile.
        let Ok(text) = entry.and_then(|entry| fs::read_to_string(entry.path())) else {
            continue;
        };
        if let Some((id, number)) = read(&text) {
            objects.insert(u32::try_from(id)?, number);
        }
    }
    Ok(objects)
}

/// `BPF_PROG_TYPE_PERF_EVENT`: a program that a clock runs.
const OF_A_CLOCK: u64 = 7;

/// The runs of the program at this path of [`programs`], if it is still loaded and a clock runs it.
pub(in crate::commands) fn program_runs(path: impl AsRef<Path>) -> Option<ProgramRuns> {
    let text = fs::read_to_string(path).ok()?;
    if field(&text, "prog_type")? != OF_A_CLOCK {
        return None;
    }
    Some(ProgramRuns {
        time_ns: field(&text, "run_time_ns")?,
        count: field(&text, "run_cnt")?,
    })
}

/// The number in a line like `run_cnt: 123`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_a_whole_name() {
        let text = "prog_id:\t574\nrun_time_ns:\t4797217\nrun_cnt:\t3564\n";
        assert_eq!(field(text, "run_cnt"), Some(3564));
        assert_eq!(field(text, "run"), None);
    }

    #[test]
    fn this_process_has_used_cpu_time_and_has_not_ended() {
        let pid = std::process::id();
        assert!(!cpu_time(pid).unwrap().is_zero());
        assert!(run_queue_wait(pid).is_ok());
        assert!(!has_ended(pid));
        assert!(programs(pid).is_empty());
        assert!(maps(pid).unwrap().is_empty());
        assert!(verified_instructions(pid).unwrap().is_empty());
    }

    #[test]
    fn a_missing_process_is_an_error() {
        // Above the highest process id there can be.
        let pid = 1 << 23;
        assert!(cpu_time(pid).is_err());
        assert!(run_queue_wait(pid).is_err());
        assert!(has_ended(pid));
    }
}
