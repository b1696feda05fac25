//! What `agent dump` prints, and parts of it.

use std::{collections::BTreeSet, fs};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::capture::Capture;

/// The functions of the workload `waiting` that wait, and for what.
pub(super) const WAITS: [(&str, &str); 6] = [
    ("in_sleep", "sleep"),
    ("in_lock", "lock"),
    ("in_socket", "socket"),
    ("in_pipe", "pipe"),
    ("in_poll", "poll"),
    ("in_child", "child"),
];

pub(super) fn run(pid: u32, options: &str) -> Capture {
    let pid = pid.to_string();
    let mut arguments = vec!["dump", "--pid", &pid];
    arguments.extend(options.split_whitespace());
    let capture = Capture::run(&arguments);
    capture.assert_success();
    capture
}

pub(super) fn text(pid: u32, options: &str) -> String {
    String::from_utf8(run(pid, options).output).unwrap()
}

pub(super) fn json(pid: u32, options: &str) -> Value {
    let output = run(pid, &format!("--json {options}")).output;
    serde_json::from_slice(&output).unwrap()
}

/// The threads of the process with this id.
pub(super) fn threads_of(document: &Value, pid: u32) -> Vec<Value> {
    let processes = document["processes"].as_array().unwrap();
    let process = processes.iter().find(|process| process["pid"] == pid);
    process.unwrap()["threads"].as_array().unwrap().clone()
}

pub(super) fn threads(pid: u32, options: &str) -> Vec<Value> {
    threads_of(&json(pid, options), pid)
}

pub(super) fn frames(thread: &Value) -> &[Value] {
    thread["frames"].as_array().map_or(&[], Vec::as_slice)
}

/// The threads with a function of this name.
pub(super) fn with_function<'a>(threads: &'a [Value], name: &str) -> Vec<&'a Value> {
    let has = |thread: &&Value| frames(thread).iter().any(|it| it["function"] == name);
    threads.iter().filter(has).collect()
}

pub(super) fn tids(pid: u32) -> BTreeSet<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect()
}

pub(super) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}
