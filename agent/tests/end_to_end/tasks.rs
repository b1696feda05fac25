//! The tasks of asyncio: that they are those which the program itself knows, and that none is impossible.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use xtask::interpreters::Interpreter;

use super::{abilities::has_tasks, capture::Capture, machine, target::Target};

/// Tasks of the workload that are many.
const MANY: usize = 2_000;

/// Dumps of a process whose tasks change all the time.
const DUMPS: usize = 20;

/// Most characters of a name.
const NAME_CHARACTERS: usize = 100;

fn start(interpreter: &Interpreter, arguments: &[&str]) -> Target {
    let arguments: Vec<String> = arguments.iter().map(|&it| it.to_owned()).collect();
    Target::start_with(interpreter, "tasks", &arguments)
}

fn dump(pid: u32, options: &str) -> String {
    let pid = pid.to_string();
    let mut arguments = vec!["dump", "--no-native", "--pid", &pid];
    arguments.extend(options.split_whitespace());
    let capture = Capture::run(&arguments);
    capture.assert_success();
    String::from_utf8(capture.output).unwrap()
}

/// The process with this id, with its tasks.
fn process(pid: u32) -> Value {
    let document: Value = serde_json::from_str(&dump(pid, "--json --tasks")).unwrap();
    document["processes"][0].clone()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A name as the agent shows it.
fn shown(name: &str) -> String {
    let name = name
        .replace('\u{1b}', "\\x1b")
        .replace('\n', "\\n")
        .replace('\u{2028}', "\\u2028");
    match name.char_indices().nth(NAME_CHARACTERS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

/// A task: its name, its functions with their files and lines, and who waits for it.
type Known = (String, Vec<(String, String, u64)>, Vec<String>);

/// The tasks that a process knows itself, and the id of the thread that runs them.
fn known(target: &Target) -> (u64, Vec<Known>) {
    let known: Value = serde_json::from_str(&target.lines[0]).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let tasks = list(&known["tasks"]).iter().map(|task| {
        let frames = list(&task[1]).iter();
        let frames = frames.map(|it| (text(&it[0]), text(&it[1]), it[2].as_u64().unwrap()));
        let mut awaiters: Vec<String> = list(&task[2]).iter().map(|it| shown(&text(it))).collect();
        awaiters.sort();
        (shown(&text(&task[0])), frames.collect(), awaiters)
    });
    let mut tasks: Vec<Known> = tasks.collect();
    tasks.sort();
    (known["tid"].as_u64().unwrap(), tasks)
}

/// The same of a dump.
fn found(tasks: &[Value]) -> Vec<Known> {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let tasks = tasks.iter().map(|task| {
        let frames = list(&task["frames"]).iter();
        let frames = frames.map(|it| {
            let line = it["line"].as_u64().unwrap_or(0);
            (text(&it["function"]), text(&it["file"]), line)
        });
        let awaiters = list(&task["awaited_by"]).iter();
        let mut awaiters: Vec<String> = awaiters.map(|it| text(&it["name"])).collect();
        awaiters.sort();
        (text(&task["name"]), frames.collect(), awaiters)
    });
    let mut tasks: Vec<Known> = tasks.collect();
    tasks.sort();
    tasks
}

#[test]
fn tasks_are_those_that_the_program_knows() {
    let _machine = machine::shared();
    machine::for_each_that(has_tasks, |interpreter| {
        // The loop of the second one runs on another thread than that which created its first task.
        for what in ["all_kinds", "thread", "circle"] {
            let target = start(interpreter, &[what]);
            let process = process(target.pid());
            let tasks = list(&process["tasks"]);
            let (tid, known) = known(&target);
            assert_eq!(process["tasks_note"], Value::Null, "{process:#}");
            assert_eq!(found(tasks), known, "{what}");
            assert_eq!(tid == u64::from(target.pid()), what != "thread");
            for task in tasks {
                assert_eq!(task["tid"], tid, "{task:#}");
                assert_eq!(task["state"], "waiting", "{task:#}");
            }
            let ids: BTreeSet<&str> = tasks.iter().filter_map(|it| it["id"].as_str()).collect();
            assert_eq!(ids.len(), tasks.len());
            let first_lines = tasks.iter().flat_map(|it| list(&it["frames"]));
            for frame in first_lines {
                assert_eq!(frame["kind"], "python");
                assert!(
                    frame["first_line"].as_u64() <= frame["line"].as_u64(),
                    "{frame:#}"
                );
            }
        }
    });
}

#[test]
fn tasks_are_a_tree_of_who_waits_for_whom() {
    let _machine = machine::shared();
    machine::for_each_named(&["3.14-sid", "3.15-sid", "3.14t"], |interpreter| {
        let target = start(interpreter, &["all_kinds"]);
        let pid = target.pid();
        let text = dump(pid, "--tasks --source");
        assert!(!text.contains('\u{1b}'), "{text}");
        let (_, known) = known(&target);
        let head = format!("\nTasks: {}, all of thread {pid}\n", known.len());
        assert!(text.contains(&head), "{text}");
        let tasks = text.split_once(&head).unwrap().1;
        let lines: Vec<&str> = tasks.lines().collect();
        assert_eq!(lines[1], "Task \"Task-1\": waiting", "{text}");
        let count = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
        assert_eq!(count("Task \""), known.len(), "{text}");
        assert_eq!(count("─ Task \"same\": waiting"), 2, "{text}");
        // Several wait for it, in no order.
        let queue = lines
            .iter()
            .position(|it| it.contains("─ Task \"queue\": waiting, awaited by "));
        let queue = queue.unwrap();
        for name in ["\"Task-1\"", "\"same\", ", "\"same\""] {
            assert!(lines[queue].contains(name), "{text}");
        }
        assert!(lines[queue + 3].contains("innermost ("), "{text}");
        assert_eq!(
            lines[queue + 4].trim_start_matches(['│', ' ']),
            "await queue.get()",
            "{text}"
        );
        // By a future.
        let gathered = lines
            .iter()
            .position(|it| it.contains("gathered ("))
            .unwrap();
        assert!(lines[gathered - 1].starts_with("├─ Task \"Task-"), "{text}");
        assert!(
            lines[gathered + 2].starts_with("│  ├─ Task \"Task-"),
            "{text}"
        );
    });
}

#[test]
fn tasks_that_wait_for_each_other_are_said() {
    let _machine = machine::shared();
    machine::for_each_named(&["3.14-sid", "3.15-sid"], |interpreter| {
        let target = start(interpreter, &["circle"]);
        let text = dump(target.pid(), "--tasks");
        let cycle = text
            .lines()
            .find(|line| line.starts_with("Cycle: "))
            .unwrap();
        let next = |number: usize| {
            format!(
                "\"circle {number}\" waits for \"circle {}\"",
                (number + 1) % 3
            )
        };
        let is_said = (0..3).any(|first| {
            cycle.starts_with(&format!("Cycle: {}, which", next(first)))
                && cycle.ends_with(&format!("which waits for \"circle {first}\""))
        });
        assert!(is_said, "{cycle}");
        for number in 0..3 {
            let task = format!("Task \"circle {number}\": waiting");
            assert_eq!(text.matches(&task).count(), 1, "{text}");
        }
    });
}

#[test]
fn thousands_of_tasks_are_all_found() {
    let _machine = machine::alone();
    machine::for_each_named(&["3.14-sid", "3.15-sid", "3.14t"], |interpreter| {
        let target = start(interpreter, &["many", &MANY.to_string()]);
        let process = process(target.pid());
        let (_, known) = known(&target);
        assert_eq!(known.len(), MANY + 1);
        assert_eq!(found(list(&process["tasks"])), known);
        // More than are shown.
        let target = start(interpreter, &["many", "10500"]);
        let text = dump(target.pid(), "--tasks");
        let head = "\nTasks: 10000, all of thread ";
        assert!(text.contains(head), "{}", &text[..2_000]);
        assert!(
            text.contains("; 501 more are not shown\n"),
            "{}",
            &text[..2_000]
        );
    });
}

#[test]
fn a_task_that_blocks_its_thread_has_the_functions_that_it_calls() {
    let _machine = machine::shared();
    machine::for_each_that(has_tasks, |interpreter| {
        let target = start(interpreter, &["running"]);
        let process = process(target.pid());
        let tasks: BTreeMap<&str, &Value> = list(&process["tasks"])
            .iter()
            .map(|task| (task["name"].as_str().unwrap(), task))
            .collect();
        let blocks = tasks["blocks"];
        assert_eq!(blocks["state"], "running", "{blocks:#}");
        let names: Vec<_> = list(&blocks["frames"])
            .iter()
            .map(|it| &it["function"])
            .collect();
        assert_eq!(names, ["block", "blocks", "calls_blocking"]);
        let not_started = tasks["not started"];
        assert_eq!(not_started["state"], "created", "{not_started:#}");
        assert_eq!(not_started["frames"][0]["function"], "sleeps");
        assert_eq!(tasks["Task-1"]["state"], "waiting");
    });
}

#[test]
fn no_task_of_a_process_that_changes_is_impossible() {
    let _machine = machine::alone();
    machine::for_each_named(&["3.14-sid", "3.15-sid", "3.14t"], |interpreter| {
        let target = start(interpreter, &["churn"]);
        let (mut shown, mut waiting) = (0, 0);
        for _ in 0..DUMPS {
            let process = process(target.pid());
            let tasks = list(&process["tasks"]);
            let ids: BTreeSet<&str> = tasks.iter().filter_map(|it| it["id"].as_str()).collect();
            assert_eq!(ids.len(), tasks.len());
            for task in tasks {
                shown += 1;
                assert_possible(task);
                waiting += usize::from(
                    task["state"] == "waiting" && !list(&task["awaited_by"]).is_empty(),
                );
            }
        }
        println!(
            "{}: {shown} tasks, {waiting} of them wait below others",
            interpreter.name
        );
        assert!(waiting > DUMPS, "{waiting} of {shown}");
    });
}

/// Asserts that a task of the workload `tasks churn` can be as it is.
fn assert_possible(task: &Value) {
    if task["frames"].is_null() || task["state"] == "running" {
        return;
    }
    let names = list(&task["frames"])
        .iter()
        .map(|it| it["function"].as_str().unwrap_or("?"));
    let names: Vec<&str> = names.collect();
    let name = task["name"].as_str().unwrap();
    let expected: &[&[&str]] = match name {
        "Task-1" => &[&["TaskGroup._aexit", "TaskGroup.__aexit__", "churn"]],
        name if name.starts_with("churn ") => &[&["starts_short"]],
        _ => &[
            &["sleep", "short"],
            &["__sleep0", "sleep", "short"],
            &["short"],
        ],
    };
    assert!(expected.contains(&&*names), "{task:#}");
    let awaiters = list(&task["awaited_by"])
        .iter()
        .map(|it| it["name"].as_str().unwrap());
    let awaiters: Vec<&str> = awaiters.collect();
    match name {
        "Task-1" => assert!(awaiters.is_empty(), "{task:#}"),
        name if name.starts_with("churn ") => assert_eq!(awaiters, ["Task-1"], "{task:#}"),
        _ => assert!(
            awaiters.iter().all(|it| it.starts_with("churn ")),
            "{task:#}"
        ),
    }
}

#[test]
fn a_process_without_tasks_says_why() {
    let _machine = machine::shared();
    machine::for_each_interpreter(|interpreter| {
        let target = Target::start(interpreter, "threads");
        let process = process(target.pid());
        assert_eq!(process["tasks"], Value::Null);
        let note = process["tasks_note"].as_str().unwrap();
        let why = if has_tasks(interpreter) {
            "there are none: the process has not loaded asyncio"
        } else {
            "there are none: tasks are known from Python 3.14 on, and this is CPython "
        };
        assert!(note.starts_with(why), "{note}");
        let text = dump(target.pid(), "--tasks");
        assert!(text.contains(&format!("\nTasks: {note}\n")), "{text}");
        let text = dump(target.pid(), "");
        assert!(!text.contains("Tasks"), "{text}");
    });
}
