//! A ring buffer that is full: what finds no room is sent again, or made up for.

use std::{fs, process::Command, thread, time::Duration};

use tempfile::TempDir;

use super::{
    host::{Host, SECOND, assert_busy, profiles_in, service, wait_for_cpu},
    machine,
    native::compile,
    stopped_threads::{Stopped, threads},
    target::{Killed, Target, mortal},
};

/// Processes that end while their events find no room.
const SLEEPERS: u32 = 20;

/// CPU time of a process that fills the ring buffer with code objects and stacks.
const FLOOD: Duration = Duration::from_secs(10);

/// The time within which processes are compared, and room for a machine that is busy.
const LIMIT: Duration = Duration::from_secs(60);

fn is_met_in_time(mut is_met: impl FnMut() -> bool) -> bool {
    let pause = Duration::from_millis(100);
    let turns = LIMIT.as_millis() / pause.as_millis();
    (0..turns).any(|_| {
        thread::sleep(pause);
        is_met()
    })
}

#[test]
fn processes_whose_events_find_no_room_are_known_and_forgotten_all_the_same() {
    let _machine = machine::alone();
    let programs = TempDir::new().unwrap();
    fs::create_dir(programs.path().join("zoo")).unwrap();
    let host = Host::start("");
    let profiled = || host.metrics()[r#"profiling_agent_processes{state="profiled"}"#];
    let before = profiled();
    let mut sleep = Command::new("sleep");
    sleep.arg("1000");
    let sleepers: Vec<_> = (0..SLEEPERS).map(|_| Killed::start(&mut sleep)).collect();
    assert!(is_met_in_time(|| profiled() >= before + f64::from(SLEEPERS)));

    // It fills the ring buffer as soon as that is no longer read.
    let mut command = mortal(compile(&programs, "zoo/fake_python", "-O1"));
    command.arg("endless-code");
    let flood = Target::from_command(command);
    wait_for_cpu(&flood, SECOND);
    let drain: Vec<_> = threads(host.pid(), "drain")
        .into_iter()
        .map(Stopped::new)
        .collect();
    assert_eq!(drain.len(), 1);
    // The agent waits for the thread too: how much was lost is read later.
    wait_for_cpu(&flood, FLOOD);
    drop(sleepers);
    let late = service("busy", "late");
    wait_for_cpu(&late, SECOND / 2);
    drop(flood);
    drop(drain);

    let lost = host.metrics()["profiling_agent_process_events_lost_total"];
    assert!(lost >= f64::from(SLEEPERS), "{lost}");
    // The workload is one more.
    let ends_are_made_up_for = is_met_in_time(|| profiled() <= before + f64::from(SLEEPERS / 2));
    wait_for_cpu(&late, 2 * SECOND);
    drop(late);
    let now = profiled();
    let (folder, messages) = host.stop_with_warnings();
    assert!(
        ends_are_made_up_for,
        "{now} processes, {before} before: {messages}"
    );
    assert_busy(&profiles_in(&folder)["late"]);
}
