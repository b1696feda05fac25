//! The stacks of all threads: whose they are, and how they are shown.

use std::{collections::BTreeSet, fs, thread, time::Duration};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::output::{
    WAITS, assert_waiting, frames, json, signal, text, threads, threads_of, tids, with_function,
};
use crate::{
    capture::Capture,
    machine,
    native::start_large_file,
    target::{Killed, Target, mortal, workload_path},
};

#[test]
fn each_thread_has_its_stack_and_what_it_waits_for() {
    let _machine = machine::shared();
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
        assert_waiting(interpreter, target.pid(), &threads);
        assert_eq!(threads[0]["tid"], target.pid());
        let computing = with_function(&threads, "computes");
        let [thread] = &*computing else {
            panic!("{threads:#?}");
        };
        let taken = thread["taken"].as_str().unwrap();
        let is_running = thread["state"] == "running";
        assert!(
            taken == "read" || is_running && taken == "sampled",
            "{thread:#}"
        );
        assert_ne!(thread["wait"], "sleep", "{thread:#}");
    });
}

#[test]
fn thousands_of_threads_have_their_stacks() {
    let _machine = machine::alone();
    let waiting = 5000;
    let arguments = [waiting.to_string()];
    let target = Target::start_with(machine::one_interpreter(), "many_threads", &arguments);
    let threads = threads(target.pid(), "--no-native");
    assert_eq!(threads.len(), waiting + 3);
    let unproved = threads.iter().filter(|thread| thread["taken"].is_null());
    assert_eq!(unproved.count(), 0);
    assert_eq!(with_function(&threads, "wait").len(), waiting);
}

/// Their table takes a while to compile, for which a dump waits.
#[test]
fn threads_in_a_large_library_have_their_native_frames() {
    let _machine = machine::alone();
    let directory = TempDir::new().unwrap();
    let target = start_large_file(&directory);
    for (function, callers) in [
        ("pause", ["pause", "rest"].as_slice()),
        ("leaf", &["leaf", "compute"]),
    ] {
        let threads = threads(target.pid(), "");
        let found = with_function(&threads, function);
        let [thread] = &*found else {
            panic!("{threads:#?}");
        };
        let names = frames(thread).iter();
        let names: Vec<_> = names.filter_map(|it| it["function"].as_str()).collect();
        assert!(names.starts_with(callers), "{names:?}");
        assert!(names.contains(&"ffi_call"), "{names:?}");
    }
}

#[test]
fn a_stopped_process_answers() {
    let _machine = machine::shared();
    let interpreter = machine::one_interpreter();
    let target = Target::start(interpreter, "waiting");
    target.stop();
    let whole = text(target.pid(), "");
    assert!(whole.contains("; the process is stopped\n"), "{whole}");
    let document = json(target.pid(), "");
    assert_eq!(document["processes"][0]["stopped"], true);
    let threads = threads_of(&document, target.pid());
    for thread in &threads {
        assert_eq!(thread["taken"], "read", "{thread:#}");
    }
    let wait = |function| {
        let [thread] = *with_function(&threads, function) else {
            panic!("{function}: {threads:#?}");
        };
        thread["wait"].as_str().unwrap()
    };
    // In what they were stopped; of one that ran there is nothing else to say.
    for (function, expected) in WAITS {
        assert_eq!(wait(function), expected, "{function}: {threads:#?}");
    }
    let computes = wait("computes");
    assert!(["stopped", "gil"].contains(&computes), "{computes}");
    signal(target.pid(), Signal::CONT);
    // It runs as before.
    let document = json(target.pid(), "");
    assert_eq!(document["processes"][0]["stopped"], false);
}

#[test]
fn descendants_are_shown_if_they_are_wanted() {
    let _machine = machine::shared();
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
    let _machine = machine::shared();
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
    let _machine = machine::shared();
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
    let _machine = machine::shared();
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
    let _machine = machine::shared();
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
    let _machine = machine::shared();
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
