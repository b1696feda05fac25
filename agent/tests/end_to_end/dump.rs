//! The stacks of all threads, now: whose they are, what the threads wait for, and that none is impossible.

use std::{collections::BTreeSet, fs, process::Command, thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use xtask::interpreters::Interpreter;

use super::{
    abilities::{has_fair_gil, has_gil, has_thread_names},
    capture::{Capture, Running},
    machine,
    source::{Source, function_name},
    target::{Killed, Target, mortal, workload_path},
};

/// The functions of the workload `waiting` that wait, and for what.
const WAITS: [(&str, &str); 6] = [
    ("in_sleep", "sleep"),
    ("in_lock", "lock"),
    ("in_socket", "socket"),
    ("in_pipe", "pipe"),
    ("in_poll", "poll"),
    ("in_child", "child"),
];

/// Dumps of a process whose stacks change all the time.
const DUMPS: usize = 20;

fn run(pid: u32, options: &str) -> Capture {
    let pid = pid.to_string();
    let mut arguments = vec!["dump", "--pid", &pid];
    arguments.extend(options.split_whitespace());
    let capture = Capture::run(&arguments);
    capture.assert_success();
    capture
}

fn text(pid: u32, options: &str) -> String {
    String::from_utf8(run(pid, options).output).unwrap()
}

fn json(pid: u32, options: &str) -> Value {
    let output = run(pid, &format!("--json {options}")).output;
    serde_json::from_slice(&output).unwrap()
}

/// The threads of the process with this id.
fn threads_of(document: &Value, pid: u32) -> Vec<Value> {
    let processes = document["processes"].as_array().unwrap();
    let process = processes.iter().find(|process| process["pid"] == pid);
    process.unwrap()["threads"].as_array().unwrap().clone()
}

fn threads(pid: u32, options: &str) -> Vec<Value> {
    threads_of(&json(pid, options), pid)
}

fn frames(thread: &Value) -> &[Value] {
    thread["frames"].as_array().map_or(&[], Vec::as_slice)
}

/// The threads with a function of this name.
fn with_function<'a>(threads: &'a [Value], name: &str) -> Vec<&'a Value> {
    let has = |thread: &&Value| frames(thread).iter().any(|it| it["function"] == name);
    threads.iter().filter(has).collect()
}

fn tids(pid: u32) -> BTreeSet<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect()
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn each_thread_has_its_stack_and_what_it_waits_for() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "waiting");
        let document = json(target.pid(), "");
        assert_eq!(document["schema"], 1);
        assert_eq!(document["deadlocks"].as_array().unwrap().len(), 0);
        assert!(document["spread_ms"].as_f64().unwrap() > 0.0);
        let process = &document["processes"][0];
        let version = format!("CPython {}.{}", interpreter.major, interpreter.minor);
        let runtime = process["runtime"].as_str().unwrap();
        assert!(runtime.starts_with(&version), "{runtime}");
        let line = process["command_line"].as_str().unwrap();
        assert!(line.ends_with("waiting.py"), "{line}");
        let threads = threads_of(&document, target.pid());
        let found: BTreeSet<u64> = threads
            .iter()
            .map(|it| it["tid"].as_u64().unwrap())
            .collect();
        assert_eq!(found, tids(target.pid()));
        assert_eq!(threads[0]["tid"], target.pid());
        for (function, wait) in WAITS {
            let found = with_function(&threads, function);
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
        let computing = with_function(&threads, "computes");
        let [thread] = &*computing else {
            panic!("{threads:#?}");
        };
        let taken = if thread["state"] == "running" {
            "sampled"
        } else {
            "read"
        };
        assert_eq!(thread["taken"], taken, "{thread:#}");
        assert_ne!(thread["wait"], "sleep", "{thread:#}");
    });
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

/// The same of a process whose threads hand over the GIL every five milliseconds.
const DUMPS_OF_CONVOY: usize = 16;

#[test]
fn who_waits_for_the_gil_has_the_thread_that_holds_it() {
    let _machine = machine::alone();
    machine::for_each_kind_alone_that(has_fair_gil, |interpreter| {
        let target = Target::start(interpreter, "threads");
        let all = tids(target.pid());
        let (mut waiting, mut held, mut holding) = (0, 0, 0);
        for _ in 0..DUMPS_OF_CONVOY {
            let threads = threads(target.pid(), "");
            holding += threads.iter().filter(|it| it["holds_gil"] == true).count();
            for thread in threads.iter().filter(|it| it["wait"] == "gil") {
                waiting += 1;
                assert_eq!(thread["holds_gil"], false, "{thread:#}");
                if let Some(holder) = thread["gil_holder"].as_u64() {
                    held += 1;
                    assert!(all.contains(&holder), "{thread:#}");
                    assert_ne!(thread["tid"], holder, "{thread:#}");
                }
            }
        }
        // Ten of eleven wait, but for moments in which it is handed over.
        println!(
            "{}: {waiting} wait, {held} with a holder, {holding} hold",
            interpreter.name
        );
        assert!(waiting >= DUMPS_OF_CONVOY * 7, "{waiting}");
        assert!(held * 2 > waiting, "{held} of {waiting}");
        // Each thread is shown as it was at a moment of its own: in most dumps the one that had the GIL waits for it
        // again, and the next one waited still.
        let shows_holder = |_| {
            let threads = threads(target.pid(), "");
            threads.iter().any(|it| it["holds_gil"] == true)
        };
        assert!(holding > 0 || (0..10 * DUMPS_OF_CONVOY).any(shows_holder));
        let has_holder = |text: &String| text.contains("waiting for the GIL, held by ");
        let mut texts = (0..DUMPS_OF_CONVOY).map(|_| text(target.pid(), ""));
        assert!(texts.any(|text| has_holder(&text)));
    });
}

/// A thread that sleeps with the GIL.
#[test]
fn a_thread_that_sleeps_with_the_gil_is_the_one_that_holds_it() {
    let _machine = machine::alone();
    machine::for_each_kind_alone_that(has_gil, |interpreter| {
        let target = Target::start(interpreter, "gil_holders");
        let seen = (0..60).find_map(|_| {
            let threads = threads(target.pid(), "");
            let holders = with_function(&threads, "holds");
            let sleeping = holders.into_iter().find(|it| it["wait"] == "sleep");
            sleeping.cloned()
        });
        let thread = seen.unwrap();
        assert_eq!(thread["holds_gil"], true, "{thread:#}");
        assert_eq!(thread["taken"], "read", "{thread:#}");
    });
}

#[test]
fn a_stopped_process_answers() {
    let _machine = machine::alone();
    let interpreter = machine::one_interpreter();
    let target = Target::start(interpreter, "waiting");
    signal(target.pid(), Signal::STOP);
    let whole = text(target.pid(), "");
    assert!(whole.contains("; the process is stopped\n"), "{whole}");
    let document = json(target.pid(), "");
    assert_eq!(document["processes"][0]["stopped"], true);
    let threads = threads_of(&document, target.pid());
    for thread in &threads {
        assert_eq!(thread["taken"], "read", "{thread:#}");
    }
    for (function, _) in WAITS {
        assert_eq!(with_function(&threads, function).len(), 1, "{function}");
    }
    assert_eq!(with_function(&threads, "computes").len(), 1);
    signal(target.pid(), Signal::CONT);
    // It runs as before.
    let document = json(target.pid(), "");
    assert_eq!(document["processes"][0]["stopped"], false);
}

#[test]
fn a_deadlock_is_the_first_line() {
    let _machine = machine::alone();
    machine::for_each_representative_that(has_thread_names, |interpreter| {
        let target = Target::start(interpreter, "deadlock");
        let whole = text(target.pid(), "");
        let first = whole.lines().next().unwrap();
        assert!(first.starts_with("Deadlock: "), "{whole}");
        for (lock, holder) in [("second", "two"), ("third", "three"), ("first", "one")] {
            let is_wait = |part: &str| {
                part.contains(&format!("waits for Bank.{lock} (RLock at 0x"))
                    && part.ends_with(&format!(" \"{holder}\""))
            };
            assert!(first.split(", which ").any(is_wait), "{whole}");
        }
        let document = json(target.pid(), "--no-native");
        assert_eq!(document["deadlocks"][0].as_array().unwrap().len(), 3);
        let threads = threads_of(&document, target.pid());
        let [audit] = &*with_function(&threads, &name(interpreter, "Bank.audit")) else {
            panic!("{threads:#?}");
        };
        let lock = audit["lock"].as_str().unwrap();
        assert!(lock.starts_with("Bank.first (RLock at 0x"), "{lock}");
    });
}

fn name(interpreter: &Interpreter, qualified: &str) -> String {
    function_name(qualified, interpreter).to_owned()
}

/// Two processors that this process may use.
fn processors() -> [String; 2] {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    let numbers: Vec<_> = list.trim().split([',', '-']).collect();
    assert!(numbers.len() > 1, "there is one processor: {list}");
    [numbers[0], numbers[numbers.len() - 1]].map(str::to_owned)
}

/// A workload that has a processor for itself and gives it up to no ordinary thread, so that a thread that computes
/// runs.
fn start_on_own_processor(interpreter: &Interpreter, workload: &str) -> Target {
    let [_, own] = processors();
    let mut command = mortal("taskset");
    command
        .args(["-c", &own, "chrt", "--fifo", "1"])
        .arg(&interpreter.path)
        .args(["-E", "-s", "-B"])
        .arg(workload_path(workload));
    Target::from_command(command)
}

/// The output of a dump on another processor.
fn output_of_other_processor(pid: u32, options: &str) -> Vec<u8> {
    let [other, _] = processors();
    let mut command = Command::new("taskset");
    command
        .args(["-c", &other, env!("CARGO_BIN_EXE_agent"), "dump", "--pid"])
        .arg(pid.to_string())
        .args(options.split_whitespace());
    let capture = Running::from_command(command).finish();
    capture.assert_success();
    capture.output
}

#[test]
fn a_thread_that_was_not_proved_says_so_and_has_no_frames() {
    let _machine = machine::alone();
    let target = start_on_own_processor(machine::one_interpreter(), "busy");
    let dump = |options: &str| output_of_other_processor(target.pid(), options);
    // It runs, and there is no time to sample it.
    let unproved = (0..20).find_map(|_| {
        let whole = String::from_utf8(dump("--timeout 1ms")).unwrap();
        let is_unproved = whole.contains("no stack was proved in ");
        is_unproved.then_some(whole)
    });
    let whole = unproved.unwrap();
    assert!(
        whole.contains("1 thread, 1 without a proved stack"),
        "{whole}"
    );
    assert!(whole.contains("last seen running"), "{whole}");
    assert!(
        !whole.lines().any(|line| line.starts_with("    ")),
        "{whole}"
    );
    for (options, is_proved) in [("--timeout 1ms", None), ("--timeout 10s", Some(true))] {
        let document: Value = serde_json::from_slice(&dump(&format!("--json {options}"))).unwrap();
        let thread = &threads_of(&document, target.pid())[0];
        let has_frames = !thread["frames"].is_null();
        assert_eq!(has_frames, !thread["taken"].is_null(), "{thread:#}");
        assert!(is_proved.is_none_or(|it| it == has_frames), "{thread:#}");
    }
}

/// Threads that run for some microseconds and wait for some microseconds.
#[test]
fn no_stack_is_impossible_of_threads_that_wait_shortly() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "short_waits");
        let tally = judged(interpreter, "short_waits", || threads(target.pid(), ""));
        println!("{}: {tally:?}", interpreter.name);
        tally.assert_mostly_proved();
    });
}

/// A thread that calls functions of a microsecond.
#[test]
fn no_stack_is_impossible_of_a_thread_that_runs() {
    let _machine = machine::alone();
    machine::for_each_kind_alone(|interpreter| {
        let target = start_on_own_processor(interpreter, "short_calls");
        let tally = judged(interpreter, "short_calls", || {
            let output = output_of_other_processor(target.pid(), "--json");
            threads_of(&serde_json::from_slice(&output).unwrap(), target.pid())
        });
        println!("{}: {tally:?}", interpreter.name);
        tally.assert_mostly_proved();
        assert!(tally.sampled * 10 >= tally.threads, "{tally:?}");
    });
}

/// What dumps had.
#[derive(Debug, Default)]
struct Tally {
    threads: usize,
    proved: usize,
    /// Those that ran.
    sampled: usize,
    incomplete: usize,
}

impl Tally {
    fn assert_mostly_proved(&self) {
        assert!(self.proved * 10 >= self.threads * 9, "{self:?}");
        assert!(self.incomplete * 10 <= self.threads, "{self:?}");
    }
}

/// Asserts that each stack of some dumps of a workload is one of the calls that its source declares.
fn judged(interpreter: &Interpreter, workload: &str, dump: impl Fn() -> Vec<Value>) -> Tally {
    let source = Source::of(workload);
    let calls = source.calls(interpreter);
    let is_legal = |thread: &Value| {
        let of = |frame: &Value| source.has(frame["file"].as_str().unwrap_or(""));
        let own: Vec<_> = frames(thread).iter().filter(|it| of(it)).collect();
        let mut pairs = own.windows(2);
        // Leaf first.
        !own.is_empty()
            && pairs.all(|pair| {
                let line = u32::try_from(pair[1]["line"].as_u64().unwrap_or(0)).unwrap();
                let (inner, outer) = (&pair[0]["function"], &pair[1]["function"]);
                calls.contains(&(outer.as_str().unwrap(), line, inner.as_str().unwrap()))
            })
    };
    let mut tally = Tally::default();
    for thread in (0..DUMPS).flat_map(|_| dump()) {
        let is_proved = !thread["taken"].is_null();
        let is_incomplete = frames(&thread).iter().any(|it| it["kind"] == "marker");
        tally.threads += 1;
        tally.proved += usize::from(is_proved);
        tally.sampled += usize::from(thread["taken"] == "sampled");
        tally.incomplete += usize::from(is_incomplete);
        assert!(
            !is_proved || is_incomplete || is_legal(&thread),
            "{thread:#}"
        );
    }
    tally
}

#[test]
fn descendants_are_shown_if_they_are_wanted() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "waiting");
    let alone = json(target.pid(), "");
    assert_eq!(alone["processes"].as_array().unwrap().len(), 1);
    let document = json(target.pid(), "--children");
    let processes = document["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2, "{document:#}");
    assert_eq!(processes[0]["pid"], target.pid());
    assert_eq!(processes[1]["parent"], target.pid());
    let child = &processes[1]["threads"][0];
    assert_eq!(child["wait"], "pipe", "{child:#}");
    let child = std::slice::from_ref(child);
    assert_eq!(with_function(child, "in_child").len(), 1);
}

#[test]
fn frames_are_shown_as_they_are_wanted() {
    let _machine = machine::alone();
    machine::for_each_named(&["3.12"], |interpreter| {
        let target = Target::start(interpreter, "waiting");
        let pid = target.pid();
        let kinds = |options: &str| {
            let threads = threads(pid, options);
            let frames = threads.iter().flat_map(frames);
            let kinds = frames.map(|it| it["kind"].as_str().unwrap().to_owned());
            kinds.collect::<BTreeSet<_>>()
        };
        let expected = |kinds: &[&str]| kinds.iter().map(|&it| it.to_owned()).collect();
        assert_eq!(kinds("--no-native"), expected(&["python"]));
        assert_eq!(kinds(""), expected(&["native", "python"]));
        assert_eq!(kinds("--kernel"), expected(&["kernel", "native", "python"]));
        // The innermost function comes first.
        let whole = text(pid, "");
        let file = workload_path("waiting");
        let own = format!("    in_socket ({}:", file.display());
        let positions = ["Thread.run (", "sock_recv (", &own].map(|part| {
            let part = whole
                .split("\n\n")
                .find(|it| it.contains(&own))
                .unwrap()
                .find(part);
            part.unwrap()
        });
        assert!(
            positions[1] < positions[2] && positions[2] < positions[0],
            "{whole}"
        );
        let internals = ["Py_BytesMain (", "thread_run (", "_PyObject_Vectorcall"];
        let all = text(pid, "--internals");
        for name in &internals[..2] {
            assert!(all.contains(name), "{name}: {all}");
        }
        for name in internals {
            assert!(!whole.contains(name), "{name}: {whole}");
        }
    });
}

/// Also in the text, of a script by its name alone, and with a warning if the file is another one by now.
#[test]
fn source_lines_are_those_of_the_files_of_the_process() {
    let _machine = machine::alone();
    machine::for_each_named(&["2.7", "3.8", "3.12"], |interpreter| {
        let folder = TempDir::new().unwrap();
        let script = folder.path().join("asleep.py");
        let line = "time.sleep(  600)  # until\u{1b}[31m it is killed";
        let program =
            format!("import time, sys\nprint('ready')\nsys.stdout.flush()\n\nif 1:\n\t{line}\t\n");
        fs::write(&script, program).unwrap();
        let mut command = mortal(&interpreter.path);
        command
            .args(["-s", "-B", "asleep.py"])
            .current_dir(folder.path());
        let target = Target::from_command(command);
        let frame = |options: &str| {
            let threads = threads(target.pid(), options);
            let frame = with_function(&threads, "<module>");
            frames(frame[0]).last().unwrap().clone()
        };
        assert_eq!(frame("--no-native")["source"], Value::Null);
        assert_eq!(frame("--no-native --source")["source"], line);
        let shown = text(target.pid(), "--source");
        let escaped = line.replace('\u{1b}', "\\u{1b}");
        let place = format!("asleep.py:6)\n        {escaped}\n");
        let warning = "Changed since the process was started";
        assert!(shown.contains(&place), "{shown}");
        assert!(!shown.contains(warning), "{shown}");
        // When the process was started is known to a tenth of a second.
        thread::sleep(Duration::from_secs(1));
        fs::write(&script, "import time\n").unwrap();
        let shown = text(target.pid(), "--source");
        assert!(shown.contains(warning), "{shown}");
        assert!(!shown.contains(&escaped), "{shown}");
    });
}

#[test]
fn names_cannot_control_the_terminal() {
    let _machine = machine::alone();
    let program = "
import threading, time
thread = threading.Thread(target=time.sleep, args=(1000,), name='a\\x1b[31m\\n\"b')
thread.daemon = True
thread.start()
time.sleep(0.1)
print('ready', flush=True)
time.sleep(1000)
";
    let mut command = mortal(&machine::one_interpreter().path);
    command.args(["-c", program]);
    let target = Target::from_command(command);
    let whole = text(target.pid(), "");
    assert!(!whole.contains('\u{1b}'), "{whole}");
    assert!(
        whole.contains(r#""a\x1b[31m\n\"b": waiting: sleep"#),
        "{whole}"
    );
    let threads = threads(target.pid(), "");
    assert_eq!(threads[1]["name"], r#"a\x1b[31m\n"b"#);
}

#[test]
fn what_has_no_stacks_is_one_sentence() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "waiting");
    let thread = *tids(target.pid()).last().unwrap();
    let mut zombie = mortal("/bin/true").spawn().unwrap();
    while !fs::read_to_string(format!("/proc/{}/stat", zombie.id()))
        .unwrap()
        .contains(") Z ")
    {
        thread::sleep(Duration::from_millis(10));
    }
    let of_thread = format!("{thread} is a thread of process {}", target.pid());
    for (pid, sentence) in [
        (4_194_304, "there is no process 4194304"),
        (thread, &*of_thread),
        (2, "is a kernel thread"),
        (zombie.id().into(), "is a zombie"),
    ] {
        let capture = Capture::run(&["dump", "--pid", &pid.to_string()]);
        assert_eq!(capture.status.code(), Some(1), "{pid}");
        assert_eq!(capture.output, b"");
        assert_eq!(capture.messages.lines().count(), 1, "{}", capture.messages);
        assert!(capture.messages.contains(sentence), "{}", capture.messages);
    }
    zombie.wait().unwrap();
}

#[test]
fn a_program_that_is_not_python_has_native_stacks() {
    let _machine = machine::alone();
    let program = fs::canonicalize("/bin/sleep").unwrap();
    let sleep = Killed::start(mortal(&program).arg("1000"));
    sleep.wait_until_it_runs(&program);
    let threads = threads(sleep.pid(), "");
    assert_eq!(threads.len(), 1);
    assert_eq!(threads[0]["wait"], "sleep", "{threads:#?}");
    assert_eq!(threads[0]["holds_gil"], Value::Null);
    assert!(
        !with_function(&threads, "clock_nanosleep").is_empty(),
        "{threads:#?}"
    );
    let pid = sleep.pid().to_string();
    let capture = Capture::run(&["dump", "--no-native", "--pid", &pid]);
    assert_eq!(capture.status.code(), Some(1));
    assert!(
        capture.messages.contains("which is not Python"),
        "{}",
        capture.messages
    );
}
