//! Child processes of tests, and waiting for conditions.
//!
//! Invariants: a child starts with the default action of every signal and with none blocked,
//! whatever the test runner was started with; it is killed after [`DEADLINE`], so that a test that
//! waits for its end or its output fails and does not hang.

use std::{
    env,
    io::{self, Read as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

/// Longest life of a child, and time limit of a condition.
pub const DEADLINE: Duration = Duration::from_secs(10 * 60);

/// The numbers of the signals that have an action.
const SIGNALS: std::ops::Range<libc::c_int> = 1..32;

/// Starts a child.
pub fn start(command: &mut Command) -> Child {
    let child = with_default_signals(command).spawn();
    let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    end_after(&child, DEADLINE, format!("{command:?}"));
    child
}

/// Waits for the first byte of a child's output, which must be piped: before it the child may still be a fork of this
/// test.
pub fn wait_for_output(child: &mut Child) {
    let Some(output) = &mut child.stdout else {
        panic!("the output of the child is not piped");
    };
    let read = output.read_exact(&mut [0]);
    read.unwrap_or_else(|error| panic!("the child has no output: {error}"));
}

/// Waits until a condition holds; fails after [`DEADLINE`], with `what`.
pub fn wait_until(what: &str, mut is_met: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_met() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sets a command of the agent to start without the variables that are about tests: by its prefix each would be about
/// its configuration. What the command sets itself stays.
pub fn without_variables_of_tests(command: &mut Command) -> &mut Command {
    let own: Vec<_> = command
        .get_envs()
        .map(|(name, _)| name.to_owned())
        .collect();
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("AGENT_") && !own.contains(&name) {
            command.env_remove(name);
        }
    }
    command
}

/// Sets a command to start with the default action of every signal, and with none blocked.
fn with_default_signals(command: &mut Command) -> &mut Command {
    let reset = || {
        for signal in SIGNALS {
            // SAFETY: the default action runs no code of ours. It fails for the two signals whose
            // action never changes.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        // SAFETY: an empty set is all zeros.
        let empty = unsafe { std::mem::zeroed() };
        // SAFETY: the set is initialised, and a null pointer for the old one is allowed.
        match unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const empty, std::ptr::null_mut())
        } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: only calls that may follow a fork are made.
    unsafe { command.pre_exec(reset) }
}

/// Kills a child that still runs after `limit`.
fn end_after(child: &Child, limit: Duration, name: String) {
    // The descriptor refers to this process even if its id is reused.
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
    let limit = Timespec::try_from(limit).unwrap();
    thread::spawn(move || {
        if poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)) == Ok(0) {
            eprintln!("{name} is killed: it has run for {} s", limit.tv_sec);
            // An error means that it has just ended.
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    });
}
