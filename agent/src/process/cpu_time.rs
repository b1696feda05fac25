//! CPU time of processes.

use std::time::Duration;

/// What the id of a clock of a process's scheduled time has in its lowest bits (`CPUCLOCK_SCHED`).
const SCHEDULED: libc::clockid_t = 2;

/// The CPU time of all threads of a process so far; [`None`] if it has ended.
///
/// That of a thread which runs on another processor is as of the last tick there, up to 10 ms ago: the kernel brings it
/// up to date for those alone that ask for their own (`thread_group_cputime` in `kernel/sched/cputime.c`).
#[must_use]
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let pid = libc::clockid_t::try_from(pid).ok()?;
    let clock = !pid << 3 | SCHEDULED;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is the caller's.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    let seconds = Duration::from_secs(time.tv_sec.try_into().ok()?);
    Some(seconds + Duration::from_nanos(time.tv_nsec.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::cpu_time;

    #[test]
    fn own_time_grows_and_nobody_has_none() {
        let own = || cpu_time(std::process::id());
        let before = own().expect("a time");
        let is_later = || own().is_some_and(|now| now > before);
        while !is_later() {
            std::hint::spin_loop();
        }
        assert_eq!(cpu_time(u32::MAX), None);
    }
}
