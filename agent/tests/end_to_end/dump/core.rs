//! Core dumps: that their stacks are those which the program has printed before it crashed, whoever has written them.

mod native;
mod unreadable;

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, from_slice};
use tempfile::TempDir;
use xtask::interpreters::Interpreter;

use super::output::{WAITS, frames, json as json_of_process, threads_of, with_function};
use crate::{
    abilities::{has_gil, has_tasks, has_thread_names},
    capture::{Capture, Running},
    machine,
    source::function_name,
    target::{Target, mortal, workload_path},
};

/// Where the kernel writes core dumps.
const PATTERN: &str = "/proc/sys/kernel/core_pattern";

const ABORT: i32 = 6;
const SEGMENTATION_FAULT: i32 = 11;

/// The pattern of the kernel for the time of a test: core dumps are written to the working directory.
struct Pattern {
    before: Option<String>,
}

impl Pattern {
    fn of_working_directory() -> Self {
        let before = fs::read_to_string(PATTERN).unwrap();
        if !before.starts_with(['|', '/']) {
            return Self { before: None };
        }
        fs::write(PATTERN, "core").unwrap();
        Self {
            before: Some(before),
        }
    }
}

impl Drop for Pattern {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            fs::write(PATTERN, before.trim_end()).unwrap();
        }
    }
}

/// A core dump, and what its program has printed.
struct Crash {
    folder: TempDir,
    pid: u32,
    output: Vec<u8>,
}

impl Crash {
    /// Runs a program in a folder of its own until a signal ends it.
    fn of(command: Command, signal: i32) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), command, signal)
    }

    fn in_folder(folder: TempDir, mut command: Command, signal: i32) -> Self {
        command
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal), "{command:?}");
        assert!(output.status.core_dumped(), "{command:?}");
        Self {
            folder,
            pid,
            output: output.stdout,
        }
    }

    fn of_workload(interpreter: &Interpreter, signal: i32) -> Self {
        // Where interpreters with a root directory of their own see it too.
        let folder = tempfile::tempdir().unwrap();
        let copied = |workload: &str| {
            let from = workload_path(workload);
            let to = folder.path().join(from.file_name().unwrap());
            fs::copy(from, &to).unwrap();
            to
        };
        copied("truth");
        let mut command = mortal(&interpreter.path);
        command
            .args(["-E", "-s", "-B"])
            .arg(copied("crashing"))
            .arg(signal.to_string());
        Self::in_folder(folder, command, signal)
    }

    /// With this code in Python, which is to set the limit of core dumps itself.
    fn of_code(interpreter: &Path, code: &str, signal: i32) -> Self {
        let limit = "import os, resource, sys, threading, time\n\
                     resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n";
        let mut command = mortal(interpreter);
        command.args(["-B", "-c", &format!("{limit}{code}")]);
        Self::of(command, signal)
    }

    /// The file, which has the id of the process in its name where the kernel is told so.
    fn path(&self) -> PathBuf {
        let files = fs::read_dir(self.folder.path()).unwrap();
        let mut paths = files.map(|file| file.unwrap().path());
        let is_core = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("core")
        };
        paths.find(is_core).unwrap()
    }
}

/// The option that says where the files of an interpreter are.
fn root(interpreter: &Interpreter) -> String {
    let root = interpreter.root();
    root.map_or_else(String::new, |root| format!(" --root {}", root.display()))
}

fn run(core: &Path, options: &str) -> Capture {
    let mut arguments = vec!["dump", "--core", core.to_str().unwrap()];
    arguments.extend(options.split_whitespace());
    Capture::run(&arguments)
}

fn text(core: &Path, options: &str) -> String {
    let capture = run(core, options);
    capture.assert_success();
    String::from_utf8(capture.output).unwrap()
}

fn json(core: &Path, options: &str) -> Value {
    let capture = run(core, &format!("--json {options}"));
    capture.assert_success();
    from_slice(&capture.output).unwrap()
}

/// The one sentence for which there are no stacks.
fn error(core: &Path) -> String {
    let capture = run(core, "");
    assert_eq!(capture.status.code(), Some(1), "{capture:?}");
    assert_eq!(capture.messages.lines().count(), 1, "{}", capture.messages);
    capture.messages.trim_end().to_owned()
}

/// Functions with their files and lines, the innermost first.
type Functions = Vec<(String, String, u64)>;

/// The Python frames of a dump, with the names of threads.
fn stacks(threads: &[Value]) -> Vec<(String, Functions)> {
    let stacks = threads.iter().map(|thread| {
        let frames = frames(thread).iter();
        let frames = frames.filter(|frame| frame["kind"] == "python");
        let functions = frames.map(|frame| {
            let text = |field: &str| frame[field].as_str().unwrap_or_default().to_owned();
            let line = frame["line"].as_u64().unwrap_or(0);
            (text("function"), text("file"), line)
        });
        let name = thread["name"].as_str().unwrap().to_owned();
        (name, functions.collect())
    });
    stacks.collect()
}

/// Those that the program has printed.
fn printed(output: &[u8]) -> Vec<(String, Functions)> {
    from_slice(output).unwrap()
}

/// The functions of a thread.
fn names_of(thread: &Value) -> Vec<&str> {
    let names = frames(thread).iter();
    names
        .filter_map(|frame| frame["function"].as_str())
        .collect()
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort();
    all
}

#[test]
fn stacks_are_those_that_the_program_has_printed() {
    let _machine = machine::alone();
    let _pattern = Pattern::of_working_directory();
    machine::for_each_interpreter(|interpreter| {
        let (signal, name) = match interpreter.minor % 2 {
            0 => (ABORT, "SIGABRT"),
            _ => (SEGMENTATION_FAULT, "SIGSEGV"),
        };
        let crash = Crash::of_workload(interpreter, signal);
        let document = json(&crash.path(), &root(interpreter));
        assert_eq!(document["core"]["signal"], name, "{document:#}");
        assert_eq!(document["core"]["signal_tid"], crash.pid);
        assert_eq!(document["core"]["missing"], Value::Null, "{document:#}");
        let command = document["processes"][0]["command_line"].as_str().unwrap();
        assert!(
            command.ends_with(&format!("crashing.py {signal}")),
            "{command}"
        );
        let threads = threads_of(&document, crash.pid);
        let (mut found, mut expected) = (stacks(&threads), printed(&crash.output));
        if !has_thread_names(interpreter) {
            for (name, _) in found.iter_mut().chain(&mut expected) {
                name.clear();
            }
        }
        assert_eq!(sorted(found), sorted(expected));
        // The C library musl has no call-frame information.
        if !interpreter.name.ends_with("-musl") {
            for thread in &threads {
                let names = names_of(thread);
                // Wherever it is just now, and of more native frames than are kept.
                if names.contains(&"computes") || names.contains(&"nested") {
                    continue;
                }
                let kinds: Vec<_> = frames(thread).iter().map(|it| &it["kind"]).collect();
                assert_eq!(kinds[0], "native", "{thread:#}");
                assert!(!kinds.iter().any(|kind| *kind == "marker"), "{thread:#}");
            }
        }
        let [main, ..] = &*threads else {
            panic!("{document:#}");
        };
        assert_eq!(main["tid"], crash.pid);
        assert_eq!(
            (&main["state"], &main["wait"]),
            (&"running".into(), &Value::Null)
        );
        assert!(threads.iter().all(|it| it["taken"] == "core"));
        let holds = has_gil(interpreter).then_some(true);
        assert_eq!(main["holds_gil"].as_bool(), holds, "{main:#}");
        let [sleeping, _] = &*with_function(&threads, "sleeps") else {
            panic!("{document:#}");
        };
        assert_eq!(sleeping["wait"], "sleep", "{sleeping:#}");
        let work = function_name("Pool.work", interpreter);
        let [working] = &*with_function(&threads, work) else {
            panic!("{document:#}");
        };
        assert_eq!(working["wait"], "lock", "{working:#}");
        if has_thread_names(interpreter) {
            let lock = working["lock"].as_str().unwrap();
            assert!(lock.starts_with("Pool.jobs ("), "{lock}");
        }
        let whole = text(&crash.path(), &root(interpreter));
        let first = whole.lines().next().unwrap();
        let expected = format!("Killed by {name} in thread {} \"MainThread\"", crash.pid);
        assert_eq!(first, expected, "{whole}");
        assert!(
            whole.contains(&format!(" \"MainThread\": killed by {name}")),
            "{whole}"
        );
    });
}

/// Who waits for the GIL, and which thread has it: that which crashes.
#[test]
fn the_thread_that_crashes_holds_the_gil_for_which_others_wait() {
    let _machine = machine::alone();
    let _pattern = Pattern::of_working_directory();
    let code = "
def computes():
    while True: sum(range(1000))

for _ in range(4):
    thread = threading.Thread(target=computes)
    thread.daemon = True
    thread.start()
time.sleep(0.3)
sum(range(30 * 1000 * 1000))
os.abort()
";
    machine::for_each_named(&["3.8", "3.12", "3.15-sid"], |interpreter| {
        let crash = Crash::of_code(&interpreter.path, code, ABORT);
        let threads = threads_of(&json(&crash.path(), &root(interpreter)), crash.pid);
        let waiting = threads.iter().filter(|it| it["wait"] == "gil");
        let waiting: Vec<_> = waiting.collect();
        assert!(!waiting.is_empty(), "{threads:#?}");
        for thread in waiting {
            assert_eq!(thread["gil_holder"], crash.pid, "{thread:#}");
            assert_eq!(thread["holds_gil"], false, "{thread:#}");
        }
    });
}

#[test]
fn an_access_that_failed_has_its_address_and_variables_are_those_of_the_crash() {
    let _machine = machine::alone();
    let _pattern = Pattern::of_working_directory();
    let code = "
import ctypes

def reads(address, text):
    numbers = [1, 2.5, {'three': (4,)}]
    ctypes.string_at(address)

reads(24, 'for what')
";
    machine::for_each_named(&["2.7", "3.12", "3.14t"], |interpreter| {
        let crash = Crash::of_code(&interpreter.path, code, SEGMENTATION_FAULT);
        let document = json(&crash.path(), &format!("--locals{}", root(interpreter)));
        assert_eq!(document["core"]["signal_address"], "0x18", "{document:#}");
        let threads = threads_of(&document, crash.pid);
        let all = threads.iter().flat_map(frames);
        let mut found = all.filter(|frame| frame["function"] == "reads");
        let frame = found.next().unwrap();
        let pairs = |part: &str| {
            let variables = frame[part].as_array().unwrap().iter();
            let pairs = variables.map(|it| (it["name"].clone(), it["value"].clone()));
            pairs.collect::<Vec<_>>()
        };
        let pair = |name: &str, value: &str| (name.into(), value.into());
        assert_eq!(
            pairs("arguments"),
            [pair("address", "24"), pair("text", "'for what'")]
        );
        let numbers = pair("numbers", "[1, 2.5, {'three': (4,)}]");
        assert_eq!(pairs("locals"), [numbers]);
    });
}

/// As a debugger writes them, of a process that goes on. gdb 13 writes zeros for the stacks of threads whose guard pages
/// are no mappings of their own, as with glibc 2.42.
#[test]
fn those_of_gcore_have_the_stacks_of_the_process() {
    let _machine = machine::shared();
    machine::for_each_named(&["2.7", "3.8", "3.12", "3.14t"], |interpreter| {
        let target = Target::start(interpreter, "waiting");
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("core");
        let written = Command::new("gcore")
            .arg("-o")
            .arg(&prefix)
            .arg(target.pid().to_string())
            .output()
            .unwrap();
        assert!(written.status.success(), "{written:?}");
        let core = folder.path().join(format!("core.{}", target.pid()));
        let document = json(&core, "");
        assert_eq!(document["core"]["signal"], Value::Null);
        let command = document["processes"][0]["command_line"].as_str().unwrap();
        assert!(command.ends_with("waiting.py"), "{command}");
        let found = threads_of(&document, target.pid());
        let running = threads_of(&json_of_process(target.pid(), ""), target.pid());
        for (function, wait) in WAITS {
            let [one] = &*with_function(&found, function) else {
                panic!("{function}: {document:#}");
            };
            let [other] = &*with_function(&running, function) else {
                panic!("{function}: {running:#?}");
            };
            assert_eq!(one["frames"], other["frames"]);
            assert_eq!(one["tid"], other["tid"]);
            if ["sleep", "lock", "poll", "child"].contains(&wait) {
                assert_eq!(one["wait"], wait, "{one:#}");
            }
        }
        assert_eq!(found.len(), running.len());
        assert_eq!(with_function(&found, "computes").len(), 1);
    });
}

#[test]
fn deadlocks_and_tasks_are_found() {
    let _machine = machine::alone();
    let _pattern = Pattern::of_working_directory();
    let deadlock = "
first, second = KIND(), KIND()
barrier = threading.Barrier(3)

def takes(one, other):
    with one:
        barrier.wait()
        with other:
            pass

for locks in ((first, second), (second, first)):
    threading.Thread(target=takes, args=locks, daemon=True).start()
barrier.wait()
time.sleep(0.3)
os.abort()
";
    machine::for_each_representative_that(has_thread_names, |interpreter| {
        for kind in ["threading.RLock", "threading.Lock"] {
            let code = deadlock.replace("KIND", kind);
            let crash = Crash::of_code(&interpreter.path, &code, ABORT);
            let document = json(&crash.path(), &root(interpreter));
            let threads = document["deadlocks"][0].as_array();
            assert_eq!(threads.map(Vec::len), Some(2), "{kind}: {document:#}");
        }
    });
    let tasks = "
import asyncio

async def inner():
    await asyncio.sleep(1000)

async def main():
    waits = asyncio.create_task(inner(), name='waits')
    await asyncio.sleep(0.1)
    os.abort()

asyncio.run(main())
";
    machine::for_each_that(has_tasks, |interpreter| {
        let crash = Crash::of_code(&interpreter.path, tasks, ABORT);
        let document = json(&crash.path(), &format!("--tasks{}", root(interpreter)));
        let process = &document["processes"][0];
        let tasks = process["tasks"]
            .as_array()
            .unwrap_or_else(|| panic!("{process:#}"));
        let found = tasks.iter().find(|task| task["name"] == "waits").unwrap();
        let names = found["frames"].as_array().unwrap().iter();
        let names: Vec<_> = names
            .map(|frame| frame["function"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["sleep", "inner"], "{found:#}");
        assert_eq!(
            (&found["tid"], &found["state"]),
            (&crash.pid.into(), &"waiting".into())
        );
    });
}

/// Whose owner alone it needs, and no capabilities.
#[test]
fn anybody_reads_a_core_dump() {
    let _machine = machine::alone();
    let _pattern = Pattern::of_working_directory();
    let code = "\ndef crashes():\n    os.abort()\n\ncrashes()\n";
    let crash = Crash::of_code(Path::new("/usr/bin/python3"), code, ABORT);
    let readable = tempfile::NamedTempFile::new().unwrap();
    fs::copy(crash.path(), readable.path()).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
        ])
        .args([env!("CARGO_BIN_EXE_agent"), "dump", "--core"])
        .arg(readable.path());
    std::os::unix::fs::chown(readable.path(), Some(65534), None).unwrap();
    let capture = Running::from_command(command).finish();
    capture.assert_success();
    let text = String::from_utf8(capture.output).unwrap();
    assert!(text.contains("\n    crashes (<string>:"), "{text}");
}
