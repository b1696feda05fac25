//! A process that executes another program while the agent writes what it has found out about the one
//! before.

use std::time::Duration;

use agent::testing::{
    bpf::{Bpf, LoadOptions, Visits},
    profile::{CPU, RecordedExceptions},
};
use agent_common::{counter::Counter, maps::Children};
use test_support::child;

use super::{
    host::{SECOND, wait_for_cpu},
    machine,
    target::{Target, mortal},
};

#[test]
fn what_is_written_late_about_the_program_before_is_void() {
    let _machine = machine::alone();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let _entered = runtime.enter();
    let mut bpf = Bpf::load(&LoadOptions {
        kinds: vec![&CPU],
        period: Duration::from_millis(10),
        hash_seed: 1,
        with_native: false,
        with_stack_copies: false,
        whole_host: false,
        with_appeared: false,
        visits: Visits::None,
        with_loops: false,
        lock_releases: false,
        switches: None,
        exceptions: RecordedExceptions::default(),
    })
    .unwrap();
    let mut command = mortal("sh");
    let busy = "exec sh -c 'while :; do :; done'";
    command.args(["-c", &format!("echo ready; read line; {busy}")]);
    let mut shell = Target::from_command(command);
    let pid = shell.pid();
    bpf.add_process(pid, None, Children::NONE).unwrap();
    bpf.start().unwrap();

    // The order of an examination that begins before and ends after exec.
    let before = bpf.program(pid).unwrap();
    shell.send_line("go");
    child::wait_until("it executes another program", || {
        bpf.program(pid).unwrap() != before
    });
    bpf.set_program(pid, before).unwrap();
    bpf.set_excluded(pid, true).unwrap();
    wait_for_cpu(&shell, SECOND / 2);
    let samples = || bpf.counter(Counter::SAMPLES).unwrap();
    assert!(samples() > 0, "it is excluded as the program before was");

    let now = bpf.program(pid).unwrap();
    assert!(!bpf.is_present(pid).unwrap());
    bpf.set_program(pid, now).unwrap();
    bpf.set_excluded(pid, true).unwrap();
    assert!(bpf.is_present(pid).unwrap());
    let samples = bpf.counter(Counter::SAMPLES).unwrap();
    wait_for_cpu(&shell, SECOND / 2);
    assert_eq!(bpf.counter(Counter::SAMPLES).unwrap(), samples);
}
