//! Bursts of work for the agent that have nothing to do with the sampling rate.

use std::{fs, process::Command};

use tempfile::TempDir;

use super::{
    host::{Host, RATE, SECOND, cpu_ticks, profiles_in, service, wait_for_cpu},
    machine,
};

/// Executables that are new to the agent.
const EXECUTABLES: u32 = 500;

/// Ticks of CPU time per second.
const TICKS: u64 = 100;

#[test]
fn new_executables_leave_the_rate_and_the_samples_of_others_as_they_are() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    let host = Host::start("");
    let before = cpu_ticks(&busy);
    let folder = TempDir::new().unwrap();
    for number in 0..EXECUTABLES {
        // A file of its own, with an identity of its own.
        let program = folder.path().join(format!("program-{number}"));
        fs::copy("/usr/bin/sha256sum", &program).unwrap();
        let status = Command::new(&program).arg("/usr/bin/sha256sum").output();
        assert!(status.unwrap().status.success());
    }
    wait_for_cpu(&busy, 4 * SECOND);
    let used = cpu_ticks(&busy) - before;
    let metrics = host.metrics();
    let rate = metrics["profiling_agent_sampling_rate_hertz"];
    assert!(
        (rate - f64::from(u32::try_from(RATE).unwrap())).abs() < 1.0,
        "{rate}"
    );
    assert!(metrics["profiling_agent_samples_lost_total"].abs() < f64::EPSILON);
    let (folder, _) = host.stop_with_warnings();
    let samples = profiles_in(&folder)["busy"].total();
    let due = used * RATE / TICKS;
    assert!(
        samples * 100 >= due * 97,
        "{samples} samples where {due} were due"
    );
}

/// Most of them end before the agent hears of them.
#[test]
fn programs_that_end_at_once_are_not_examined() {
    const PROGRAMS: u32 = 1_000;
    let _machine = machine::alone();
    let host = Host::start("");
    let examined = || host.metrics()["profiling_agent_jobs_total{lane=\"processes\"}"];
    let before = examined();
    for _ in 0..PROGRAMS {
        assert!(Command::new("/bin/true").status().unwrap().success());
    }
    let count = examined() - before;
    println!("{count} examinations");
    // Those that are sampled are, and what else runs on the machine.
    assert!(count < f64::from(PROGRAMS / 4), "{count}");
    host.stop();
}
