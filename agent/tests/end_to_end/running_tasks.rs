//! The label `task`: which task of asyncio had the time, by a program that measures it itself.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use xtask::interpreters::Interpreter;

use super::{
    abilities::has_tasks,
    capture::{Capture, Running},
    machine::{self, stolen_time},
    target::Target,
};

/// CPU time of each task, in seconds.
const SECONDS: &str = "0.4";

/// The task that blocks its thread, for as long.
const BLOCKING: &str = "blocking";

/// Coroutines that `asyncio.run` runs as tasks at its end begin with it.
const AT_THE_END: &str = "BaseEventLoop.shutdown_";

/// Tolerated error of a time: a part of it, and some milliseconds.
const TOLERANCE: f64 = 0.03;
const TOLERANCE_SECONDS: f64 = 0.05;

/// Characters of a name that are kept.
const NAME_CHARACTERS: usize = 60;

/// What the workload says.
#[derive(Debug, Deserialize)]
struct Spent {
    /// The CPU time of each task, in seconds.
    cpu: BTreeMap<String, f64>,
    /// How long the task that blocks its thread did so, in seconds.
    asleep: f64,
}

#[test]
fn time_is_that_of_the_task_that_had_it() {
    let _machine = machine::alone();
    machine::for_each_that(has_tasks, check);
}

fn check(interpreter: &Interpreter) {
    let name = &interpreter.name;
    let mut target = Target::start(interpreter, "running_tasks");
    let folder = TempDir::new().unwrap();
    let path = |file: &str| folder.path().join(file).to_str().unwrap().to_owned();
    let (lines, pprof) = (path("tasks.jsonl"), path("tasks.pb.gz"));
    let pid = target.pid().to_string();
    let mut agent = Running::start(&[
        "--pid", &pid, "--event", "cpu,wall", "-r", "997", "-d", "10m", "-o", &lines, "-o", &pprof,
    ]);
    agent.wait_until_sampling();
    let stolen_before = stolen_time();
    target.send_line(SECONDS);
    let Spent { cpu: spent, asleep } = serde_json::from_str(&target.read_line()).unwrap();
    // The clock of the samples goes on meanwhile, that of the program does not.
    let stolen = stolen_time().saturating_sub(stolen_before).as_secs_f64();
    agent.signal(Signal::INT);
    let capture = agent.finish();
    capture.assert_success();
    let messages = &capture.messages;
    let summary = messages.lines().find(|line| line.starts_with("tasks"));
    assert!(
        summary.is_some_and(|line| line.contains(" %")),
        "{messages}"
    );

    let cpu = written(folder.path(), "cpu", "jsonl");
    let sampled = seconds(&cpu, |_| true);
    println!("{name}: {sampled:.3?} of {spent:.3?}, {stolen:.2} s stolen");
    let known: Vec<_> = spent.keys().map(|task| shown(task)).collect();
    let others = sampled.iter().filter(|(task, _)| !known.contains(task));
    // The first uses a little where it begins to wait.
    let short = |task: &str| task == BLOCKING || task.starts_with(AT_THE_END);
    assert!(
        others.clone().all(|(task, _)| short(task)),
        "{name}: {sampled:?}"
    );
    assert!(others.map(|(_, spent)| spent).sum::<f64>() < TOLERANCE_SECONDS);
    for (task, spent) in &spent {
        let shown = shown(task);
        let sampled = sampled.get(&shown).copied().unwrap_or_default();
        let tolerance = spent * TOLERANCE + TOLERANCE_SECONDS;
        assert!(
            (spent - tolerance..spent + tolerance + stolen).contains(&sampled),
            "{name}: {task}: {sampled} of {spent}"
        );
    }
    let wall = written(folder.path(), "wall", "jsonl");
    let blocked = seconds(&wall, |labels| labels["wait"] == "sleep");
    let error = (blocked[BLOCKING] - asleep).abs();
    assert!(error < 0.1, "{name}: {blocked:?} of {asleep}");

    // What a file of pprof says is the same.
    let (pprof, again) = (written(folder.path(), "cpu", "pb.gz"), path("again.jsonl"));
    let report = Capture::run(&["report", &pprof, "-o", &again]);
    report.assert_success();
    assert_eq!(seconds(&again, |_| true), seconds(&cpu, |_| true), "{name}");
}

/// The file of a kind of profile.
fn written(folder: &Path, kind: &str, extension: &str) -> String {
    let paths = fs::read_dir(folder).unwrap().flatten();
    let mut paths = paths.map(|entry| entry.path().to_str().unwrap().to_owned());
    let path = paths.find(|path| path.contains(kind) && path.ends_with(extension));
    path.unwrap()
}

/// Seconds by the label of the task, "" for none, of stacks with such labels.
fn seconds(file: &str, has: impl Fn(&Value) -> bool) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(file).unwrap();
    let mut values = BTreeMap::<String, u64>::new();
    for line in text.lines().skip(1) {
        let stack: Value = serde_json::from_str(line).unwrap();
        let labels = &stack["labels"];
        if has(labels) {
            let task = labels["task"].as_str().unwrap_or_default();
            *values.entry(task.to_owned()).or_default() += stack["value"].as_u64().unwrap();
        }
    }
    let seconds = |value| Duration::from_nanos(value).as_secs_f64();
    let values = values.into_iter();
    values.map(|(task, value)| (task, seconds(value))).collect()
}

/// A name as the agent shows it.
fn shown(name: &str) -> String {
    let width = match name.chars().map(u32::from).max() {
        Some(0x1_0000..) => 4,
        Some(0x100..) => 2,
        _ => 1,
    };
    match name.char_indices().nth(NAME_CHARACTERS / width) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
