//! Threads of the agent that stand still: the others go on, and no sample is lost.

use std::{collections::BTreeMap, fs, thread, time::Duration};

use super::{
    host::{Host, SECOND, profiles_in, service, wait_for_cpu},
    machine,
};

/// For how long threads are stopped.
const STOPPED: Duration = Duration::from_secs(10);

/// Threads of the agent but that which drains the ring buffer, by their names.
const THREADS: [&str; 6] = [
    "agent",
    "profiles",
    "processes",
    "tables",
    "loads",
    "symbols",
];

/// A thread that is stopped, as a debugger does it; released when this is dropped.
pub(super) struct Stopped(libc::pid_t);

impl Stopped {
    pub(super) fn new(tid: u32) -> Self {
        let tid = libc::pid_t::try_from(tid).unwrap();
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: these requests take no memory of this process.
        unsafe {
            assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, tid, none, none), 0);
            assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, tid, none, none), 0);
            assert_eq!(libc::waitpid(tid, std::ptr::null_mut(), libc::__WALL), tid);
        }
        Self(tid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the request takes no memory of this process.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, none, none) };
    }
}

/// The threads of a process with this name.
pub(super) fn threads(pid: u32, name: &str) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let with_name = tasks.flatten().filter(|task| {
        let comm = fs::read_to_string(task.path().join("comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    });
    with_name
        .map(|task| task.file_name().to_str().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn no_thread_that_stands_still_holds_up_the_ring_buffer() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    // The last one goes on undisturbed.
    let hosts: Vec<_> = THREADS
        .into_iter()
        .chain([""])
        .map(|name| (name, Host::start("")))
        .collect();
    // All threads have been started after a window.
    wait_for_cpu(&busy, SECOND);
    thread::sleep(Duration::from_secs(3));

    // A thread is released by the thread that holds it.
    let mut stopped = Vec::new();
    for (name, host) in &hosts {
        let threads = threads(host.pid(), name);
        assert!(!threads.is_empty() || name.is_empty(), "no thread {name}");
        stopped.extend(threads.into_iter().map(Stopped::new));
    }
    thread::sleep(STOPPED);
    drop(stopped);
    drop(busy);
    // What was stopped up is done.
    thread::sleep(Duration::from_secs(4));

    let mut delays = BTreeMap::new();
    for (name, host) in hosts {
        let metrics = host.metrics();
        for lost in [
            "profiling_agent_samples_lost_total",
            "profiling_agent_window_lost_samples_total",
            "profiling_agent_process_events_lost_total",
            r#"profiling_agent_dropped_records_total{kind="record"}"#,
            r#"profiling_agent_dropped_records_total{kind="event"}"#,
        ] {
            assert!(metrics[lost].abs() < f64::EPSILON, "{name}: {lost}");
        }
        let delay = metrics["profiling_agent_longest_drain_delay_seconds"];
        let (folder, _) = host.stop_with_warnings();
        let profile = &profiles_in(&folder)["busy"];
        delays.insert(name, (delay, profile.total()));
    }
    let (undisturbed, samples) = delays[""];
    for (name, (delay, count)) in &delays {
        // Both are a pause between two readings and what the load of the machine adds.
        assert!(
            delay - undisturbed < STOPPED.as_secs_f64() / 4.0,
            "{name}: {delays:?}"
        );
        // The undisturbed one was started last.
        assert!(count * 50 >= samples * 49, "{name}: {delays:?}");
    }
}
