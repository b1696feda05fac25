//! What `agent dump` prints, and parts of it.

use std::{collections::BTreeSet, fs};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use xtask::interpreters::Interpreter;

use crate::{
    abilities::{has_gil, has_thread_names},
    capture::Capture,
    source::function_name,
    target::workload_path,
};

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

/// Asserts that there are just the threads of the process, and that each which waits in the workload `waiting` is proved
/// to, with all of its Python frames and no missing ones.
pub(super) fn assert_waiting(interpreter: &Interpreter, pid: u32, threads: &[Value]) {
    let found: BTreeSet<u64> = threads
        .iter()
        .map(|it| it["tid"].as_u64().unwrap())
        .collect();
    assert_eq!(found, tids(pid));
    for (function, wait) in WAITS {
        let found = with_function(threads, function);
        let [thread] = &*found else {
            panic!("{function}: {threads:#?}");
        };
        assert_eq!(thread["state"], "waiting", "{thread:#}");
        assert_eq!(thread["wait"], wait, "{thread:#}");
        assert_eq!(thread["taken"], "read", "{thread:#}");
        let expected = if has_gil(interpreter) {
            Value::Bool(false)
        } else {
            Value::Null
        };
        assert_eq!(thread["holds_gil"], expected, "{thread:#}");
        if has_thread_names(interpreter) {
            assert_eq!(thread["name"], function, "{thread:#}");
        }
        assert_python_is_whole(thread, function);
    }
}

/// The function is the last one of the workload, and the first one is that which runs threads.
fn assert_python_is_whole(thread: &Value, function: &str) {
    let python = frames(thread).iter().filter(|it| it["kind"] == "python");
    let python: Vec<_> = python.collect();
    let file = workload_path("waiting");
    let own: Vec<_> = python
        .iter()
        .filter(|it| it["file"] == file.to_str().unwrap())
        .map(|it| it["function"].as_str().unwrap())
        .collect();
    assert_eq!(own, [function], "{thread:#}");
    let root = python.last().unwrap()["function"].as_str().unwrap();
    assert!(root.ends_with("bootstrap"), "{thread:#}");
    assert!(
        frames(thread).iter().all(|it| it["kind"] != "marker"),
        "{thread:#}"
    );
}

/// Asserts that a dump of the workload `deadlock` has all three threads in a circle, and the lock of one by its name.
pub(super) fn assert_deadlock(interpreter: &Interpreter, pid: u32, document: &Value) {
    assert_eq!(document["deadlocks"][0].as_array().unwrap().len(), 3);
    let threads = threads_of(document, pid);
    let name = function_name("Bank.audit", interpreter);
    let [audit] = &*with_function(&threads, name) else {
        panic!("{threads:#?}");
    };
    let lock = audit["lock"].as_str().unwrap();
    assert!(lock.starts_with("Bank.first ("), "{lock}");
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
