//! Total CPU time, and time in run queues, compared with the scheduler's statistics.
//!
//! One sample stands for one period, so each context switch adds an error of a fraction of a
//! period. At two samples per millisecond that is a few tenths of a per cent over the durations
//! here, even on overloaded CPUs.

use std::{
    fs, thread,
    time::{Duration, SystemTime},
};

use super::{
    abilities::has_fair_lock,
    capture::{Capture, Running},
    machine::{self, stolen_time},
    pprof::Profile,
    schedstat::schedstat,
    target::{Killed, Target, mortal},
};

/// Tolerated relative error of the profile.
const TOLERANCE: f64 = 0.02;

/// Time around a context switch in which a tick is nobody's, in seconds: it waits until the next thread runs,
/// or the processor is idle.
const PER_SWITCH: f64 = 5e-6;

/// So many captures decide, by being within the tolerance or not: then the median of three, one less than twice as many, is
/// known.
const CAPTURES: usize = 2;

/// Interval between readings of the scheduler's statistics.
const READ_EVERY: Duration = Duration::from_millis(10);

/// Processes that overload the machine.
const LOOPS: usize = 4;

#[test]
fn the_cpu_time_of_one_thread_matches_the_scheduler() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn(|interpreter| {
        let target = Target::start(interpreter, "busy");
        check(
            &target,
            &Times::on_cpus("-d 1.2 -r 1999"),
            &interpreter.name,
        );
    });
}

/// Waiting for the global lock takes no CPU time, and handing it over leaves CPUs idle.
///
/// Python 2 does not hand it over: its threads switch so often that the error exceeds the
/// tolerance.
#[test]
fn the_cpu_time_of_eleven_threads_with_one_lock_matches_the_scheduler() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn_that(has_fair_lock, |interpreter| {
        let target = Target::start(interpreter, "threads");
        check(
            &target,
            &Times::on_cpus("-d 1.2 -r 1999"),
            &interpreter.name,
        );
    });
}

/// The same of the time in which a thread waits for a CPU that others have.
#[test]
fn the_time_in_run_queues_matches_the_scheduler() {
    let _machine = machine::alone();
    let _loops: Vec<_> = (0..LOOPS).map(|_| busy_loop()).collect();
    let interpreter = machine::one_interpreter();
    let target = Target::start(interpreter, "busy");
    let in_queues = Times {
        field: 1,
        options: "-d 2 -r 199 --event run-queue",
        profile: |capture| capture.into_pprof_of("run_queue"),
    };
    check(&target, &in_queues, &interpreter.name);
}

/// All kinds of interpreters at once, with other processes that compete for the CPUs.
#[test]
fn the_cpu_time_on_an_overloaded_machine_matches_the_scheduler() {
    let _machine = machine::alone();
    let _loops: Vec<_> = (0..LOOPS).map(|_| busy_loop()).collect();
    machine::for_all_kinds_at_once(|interpreter| {
        let target = Target::start(interpreter, "busy");
        check(&target, &Times::on_cpus("-d 3 -r 1999"), &interpreter.name);
    });
}

fn busy_loop() -> Killed {
    Killed::start(mortal("sh").args(["-c", "while :; do :; done"]))
}

/// Times that both the scheduler and a profile have.
struct Times {
    /// Their field in `schedstat`.
    field: usize,
    /// Options of the capture.
    options: &'static str,
    /// Reads its profile.
    profile: fn(Capture) -> Profile,
}

impl Times {
    fn on_cpus(options: &'static str) -> Self {
        Self {
            field: 0,
            options,
            profile: Capture::into_pprof,
        }
    }
}

/// Fails if the median of several captures is wrong: the host of a virtual machine may suspend it
/// during one.
fn check(target: &Target, times: &Times, name: &str) {
    let mut errors = Vec::new();
    let mut right = 0;
    while right < CAPTURES {
        let error = error(target, times, name);
        errors.push(error);
        if error <= TOLERANCE {
            right += 1;
        }
        assert!(errors.len() - right < CAPTURES, "{errors:?}");
    }
}

/// The relative error of the times in a profile, by the scheduler's for the same interval. The time that
/// was stolen from the machine meanwhile may be in them.
fn error(target: &Target, times: &Times, name: &str) -> f64 {
    let pid = target.pid().to_string();
    let stolen_before = stolen_time();
    let options = times.options.split(' ');
    let arguments: Vec<_> = ["-p", &pid, "-o", "-"].into_iter().chain(options).collect();
    let mut capture = Running::start(&arguments);
    let mut statistics = SchedulerStatistics {
        field: times.field,
        read: Vec::new(),
        runs: None,
    };
    loop {
        let has_ended = capture.has_ended();
        statistics.add(target.pid());
        if has_ended {
            break;
        }
        thread::sleep(READ_EVERY);
    }
    let stolen = stolen_time().saturating_sub(stolen_before).as_secs_f64();
    let profile = (times.profile)(capture.finish());
    let end = profile.start + profile.duration;
    let used = statistics.at(end) - statistics.at(profile.start);
    let at_switches = statistics.switches() * PER_SWITCH;
    let found: Duration = profile.samples.iter().map(|sample| sample.time).sum();
    let found = found.as_secs_f64();
    println!(
        "{name}: {found:.3} instead of {used:.3} s, {stolen:.2} s stolen, {at_switches:.3} s at switches"
    );
    (found - used - stolen)
        .max(used - found - at_switches)
        .max(0.0)
        / used
}

/// Seconds of a process, as read from a field of the scheduler's statistics at several times.
struct SchedulerStatistics {
    field: usize,
    read: Vec<(SystemTime, f64)>,
    /// How often its threads have run, at the first reading and at the last one.
    runs: Option<(u64, u64)>,
}

impl SchedulerStatistics {
    /// Adds a reading of the seconds so far.
    fn add(&mut self, pid: u32) {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let (mut used, mut runs) = (Duration::ZERO, 0);
        for thread in threads {
            let fields = schedstat(thread.unwrap().path());
            used += Duration::from_nanos(fields[self.field]);
            runs += fields[2];
        }
        self.read.push((SystemTime::now(), used.as_secs_f64()));
        self.runs = Some((self.runs.map_or(runs, |(first, _)| first), runs));
    }

    /// Number of context switches between the first reading and the last one.
    fn switches(&self) -> f64 {
        let switches = self
            .runs
            .map_or(0, |(first, last)| last.saturating_sub(first));
        f64::from(u32::try_from(switches).unwrap())
    }

    /// The seconds up to a time between two readings, interpolated.
    fn at(&self, time: SystemTime) -> f64 {
        let next = self.read.partition_point(|(read, _)| *read <= time);
        let (before, used_before) = self.read[next - 1];
        let (after, used_after) = self.read[next];
        let since = |end: SystemTime| end.duration_since(before).unwrap().as_secs_f64();
        used_before + (used_after - used_before) * since(time) / since(after)
    }
}
