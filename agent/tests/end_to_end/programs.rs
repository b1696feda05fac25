//! Programs that the agent starts, and processes that others start.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use test_support::child;
use xtask::{interpreters::Interpreter, tools};

use super::{
    capture::{Capture, Running},
    folded::{Folded, Frame, is_marked, names},
    machine,
    program::{Program, assert_spun},
    target::{Target, mortal, workload_path},
};

#[test]
fn a_program_that_runs_for_a_tenth_of_a_second_is_profiled() {
    let _machine = machine::alone();
    machine::for_each_interpreter(|interpreter| {
        let program = Program::of(interpreter, "short", &[]);
        let (status, folded) = program.profile(&[]);
        assert_eq!(status.code(), Some(7));
        assert_spun(folded.iter());
    });
}

#[test]
fn programs_started_by_a_shell_are_profiled() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let short = Program::of(interpreter, "short", &[]).line();
        let script = format!("{short}; {short}; exit 5");
        let program = Program(vec!["sh".to_owned(), "-c".to_owned(), script]);
        let (status, folded) = program.profile(&["--children"]);
        assert_eq!(status.code(), Some(5));
        let by_process = by_process(&folded);
        let spun: Vec<_> = by_process
            .values()
            .filter(|stacks| stacks.iter().any(|(stack, _)| is_spinning(stack)))
            .collect();
        assert_eq!(spun.len(), 2, "{:?}", by_process.keys());
        for stacks in spun {
            assert_spun(stacks.iter().map(|(stack, count)| (&**stack, *count)));
        }
    });
}

/// As of a script that starts a server and ends.
#[test]
fn what_a_program_leaves_behind_is_profiled_to_its_end() {
    let _machine = machine::alone();
    let short = Program::of(machine::one_interpreter(), "short", &[]).line();
    let script = format!("(sleep 0.5; {short}) & exit 3");
    let program = Program(vec!["sh".to_owned(), "-c".to_owned(), script]);
    let (status, folded) = program.profile(&["--children"]);
    assert_eq!(status.code(), Some(3));
    assert_spun(folded.iter());
}

/// A capture of a shell that leaves a process behind which does not end, to a file in a folder.
fn start_with_daemon(options: &[&str], rest: &str) -> (Running, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.folded");
    let script = format!("sleep 100 > /dev/null 2>&1 & echo $!; {rest}");
    let mut arguments = vec!["--children", "--output", file.to_str().unwrap()];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", &script]);
    let capture = Running::start(&arguments);
    child::wait_until("it has printed its id", || capture.output().contains('\n'));
    (capture, folder)
}

/// Ends such a capture and the process.
fn finish_with_daemon(capture: Running, folder: &TempDir) -> Capture {
    let daemon = capture.output().trim().parse().unwrap();
    let capture = capture.finish();
    kill_process(Pid::from_raw(daemon).unwrap(), Signal::KILL).unwrap();
    let written = folder.path().join("profile.folded");
    assert!(written.exists(), "{}", capture.messages);
    capture
}

#[test]
fn what_goes_on_for_ever_is_named_and_ends_by_a_signal_or_with_the_duration() {
    let _machine = machine::shared();
    for (options, signal) in [(&[][..], Some(Signal::INT)), (&["-d", "4"], None)] {
        let (capture, folder) = start_with_daemon(options, "exit 3");
        child::wait_until("it says what goes on", || {
            capture
                .messages()
                .contains("still runs: the capture ends with it, or by Ctrl-C\n")
        });
        if let Some(signal) = signal {
            capture.signal(signal);
        }
        let capture = finish_with_daemon(capture, &folder);
        assert_eq!(capture.status.code(), Some(3), "{}", capture.messages);
        assert!(capture.messages.contains("sleep ("), "{}", capture.messages);
    }
}

#[test]
fn a_program_that_was_asked_to_end_ends_the_capture() {
    let _machine = machine::shared();
    let (capture, folder) = start_with_daemon(&[], "wait");
    capture.signal(Signal::TERM);
    let capture = finish_with_daemon(capture, &folder);
    let by_signal = 128 + Signal::TERM.as_raw();
    assert_eq!(
        capture.status.code(),
        Some(by_signal),
        "{}",
        capture.messages
    );
}

#[test]
fn the_time_in_which_the_kernel_frees_the_memory_of_a_program_is_profiled() {
    let _machine = machine::alone();
    let program = Program::of(machine::one_interpreter(), "gives_back", &[]);
    let (status, folded) = program.profile_all_frames(&[]);
    assert!(status.success(), "{status}");
    // At its end: exec frees memory too, when the registers are of the program before.
    let frees_memory = |stack: &[Frame]| {
        ["do_exit", "exit_mmap"].iter().all(|function| {
            let mut kernel = stack.iter().filter(|frame| frame.is_kernel());
            kernel.any(|frame| frame.name.starts_with(function))
        })
    };
    assert!(folded.count(frees_memory) != 0, "{}", folded.show(|_| true));
    let is_incomplete = |stack: &[Frame]| frees_memory(stack) && is_marked(stack);
    assert_eq!(
        folded.count(is_incomplete),
        0,
        "{}",
        folded.show(is_incomplete)
    );
}

#[test]
fn without_the_option_children_are_not_profiled() {
    let _machine = machine::shared();
    let short = Program::of(machine::one_interpreter(), "short", &[]).line();
    let program = Program(vec![
        "sh".to_owned(),
        "-c".to_owned(),
        format!("{short}; true"),
    ]);
    let (status, folded) = program.profile(&[]);
    assert_eq!(status.code(), Some(0));
    assert!(!folded.iter().any(|(stack, _)| is_spinning(stack)));
}

#[test]
fn children_started_before_the_agent_are_profiled() {
    let _machine = machine::shared();
    let busy = Program::of(machine::one_interpreter(), "busy", &[]).line();
    let mut shell = mortal("sh");
    shell.args(["-c", &format!("setpriv --pdeathsig KILL {busy} & wait")]);
    let target = Target::from_command(shell);
    let folded = Capture::folded(target.pid(), "-d 500ms -r 499 --children");
    let main = folded.count(|stack| names(stack).contains(&"main"));
    assert!(main * 10 > folded.total() * 9 && main > 0, "{folded:?}");
}

/// The maximum number of samples of a process that ends and of which that cannot be seen.
const MAX_IN_EXIT: u64 = 10;

/// The function of the kernel that ends a process, as it is in folded stacks. How long it takes depends on
/// the machine.
const EXIT: &str = "do_exit_[k]";

/// As in servers that fork their workers in advance.
#[test]
fn forked_processes_are_profiled_from_their_first_sample() {
    const WORKERS: usize = 4;
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let program = Program::of(interpreter, "workers", &[&WORKERS.to_string()]);
        let (status, folded) = program.profile_all_frames(&["--children"]);
        assert!(status.success());
        let by_process = by_process(&folded);
        let workers: Vec<_> = by_process
            .values()
            .filter(|stacks| {
                stacks
                    .iter()
                    .any(|(stack, _)| names(stack).contains(&"serve"))
            })
            .collect();
        assert_eq!(workers.len(), WORKERS, "{by_process:?}");
        for stacks in workers {
            let mut in_exit = 0;
            for (stack, count) in stacks {
                // In its exit it has no Python state or no memory; all other stacks begin with
                // the frames of its parent.
                let python = stack.iter().filter(|frame| frame.is_python());
                let python: Vec<_> = python.map(|frame| &*frame.name).collect();
                let is_ending = names(stack).contains(&EXIT);
                if !is_ending && !python.starts_with(&["<module>", "main"]) {
                    assert!(is_marked(stack), "{stack:?}");
                    in_exit += count;
                }
            }
            assert!(in_exit <= MAX_IN_EXIT, "{stacks:?}");
            assert!(count(stacks, "work") > 30);
        }
    });
}

/// The same address is in the code of both, and each has a name of its own for it.
#[test]
fn generated_code_of_a_forked_process_is_its_own() {
    let _machine = machine::alone();
    let program = Program::of(machine::one_interpreter(), "forked_code", &[]);
    let (status, folded) = program.profile_all_frames(&["--children", "--duration", "2"]);
    assert!(status.success(), "{status}");
    for (role, caller) in [("parent", "by_parent"), ("child", "by_child")] {
        let is_called = |stack: &[Frame]| {
            let is_made = |frame: &Frame| frame.name.starts_with("made by the");
            names(stack).contains(&caller) && stack.last().is_some_and(is_made)
        };
        let name = format!("made by the {role}");
        let is_own = |stack: &[Frame]| {
            let leaf = stack.last();
            is_called(stack) && leaf.is_some_and(|frame| frame.name.starts_with(&name))
        };
        let all = folded.count(is_called);
        assert!(all > 50, "{}", folded.show(|_| true));
        assert_eq!(folded.count(is_own), all, "{}", folded.show(is_called));
    }
}

/// A process replaces one version of Python by another with `exec`.
#[test]
fn a_process_is_profiled_before_and_after_exec() {
    let _machine = machine::alone();
    let interpreters = machine::interpreters();
    let (first, last) = (&interpreters[0], interpreters.last().unwrap());
    let short = Program::of(last, "short", &[]);
    let mut program = Program::of(first, "replaced", &[]);
    program.0.extend(short.0);
    let (status, folded) = program.profile(&[]);
    assert_eq!(status.code(), Some(7));
    assert!(
        folded
            .iter()
            .any(|(stack, _)| names(stack).contains(&"before"))
    );
    assert_spun(folded.iter());
}

/// A program that embeds Python and loads it some time after its start.
#[test]
fn an_interpreter_loaded_late_is_found() {
    let _machine = machine::alone();
    let directory = tempfile::tempdir().unwrap();
    let mut embedded = 0;
    for interpreter in machine::interpreters() {
        let Some(library) = shared_library(interpreter) else {
            continue;
        };
        embedded += 1;
        let program = Program(vec![
            embedder(directory.path()).to_str().unwrap().to_owned(),
            library.to_str().unwrap().to_owned(),
            interpreter
                .path
                .ancestors()
                .nth(2)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned(),
            fs::read_to_string(workload_path("short")).unwrap(),
        ]);
        let (status, folded) = program.profile(&[]);
        assert_eq!(status.code(), Some(7), "{interpreter}");
        assert_spun(folded.iter());
    }
    assert!(embedded > 0, "no interpreter has a shared library");
}

#[test]
fn a_signal_to_the_agent_is_forwarded() {
    let _machine = machine::shared();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.folded");
    let ready = folder.path().join("ready");
    let script = format!(
        "trap 'exit 9' TERM; : > {}; while :; do :; done",
        ready.display()
    );
    let agent = Running::start(&["-o", file.to_str().unwrap(), "--", "sh", "-c", &script]);
    child::wait_until("the program runs", || ready.exists());
    agent.signal(Signal::TERM);
    let capture = agent.finish();
    assert_eq!(capture.status.code(), Some(9), "{}", capture.messages);
    assert!(file.exists());
}

#[test]
fn a_program_killed_by_a_signal_has_the_exit_code_of_a_shell() {
    let _machine = machine::shared();
    let program = Program(["sh", "-c", "kill -KILL $$"].map(str::to_owned).to_vec());
    let (status, _) = program.profile(&[]);
    assert_eq!(status.code(), Some(128 + 9));
}

#[test]
fn a_program_continues_after_its_profile_is_complete() {
    let _machine = machine::shared();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.folded");
    let script = format!(
        "while [ ! -e {} ]; do sleep 0.01; done; echo done; exit 3",
        file.display()
    );
    let arguments = [
        "-d",
        "100ms",
        "-o",
        file.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        &script,
    ];
    let capture = Capture::run(&arguments);
    assert_eq!(capture.status.code(), Some(3), "{}", capture.messages);
    assert_eq!(capture.output, b"done\n");
}

#[test]
fn the_error_for_a_missing_program_has_its_name() {
    let _machine = machine::shared();
    let capture = Capture::run(&["-o", "unused.svg", "--", "/nonexistent/program"]);
    assert_eq!(capture.status.code(), Some(127));
    assert_eq!(
        capture.messages,
        "agent: cannot run '/nonexistent/program': No such file or directory (os error 2)\n"
    );
    let capture = Capture::run(&["-o", "unused.svg", "--", "/etc/passwd"]);
    assert_eq!(capture.status.code(), Some(126));
    assert!(!Path::new("unused.svg").exists());
}

fn is_spinning(stack: &[Frame]) -> bool {
    names(stack).contains(&"spin")
}

/// Stacks by process, which is their first frame.
fn by_process(folded: &Folded) -> BTreeMap<String, Vec<(Vec<Frame>, u64)>> {
    let mut processes: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (stack, count) in folded.iter() {
        let process = stack[0].place.clone();
        processes
            .entry(process)
            .or_default()
            .push((stack[1..].to_vec(), count));
    }
    processes
}

/// Samples with a function of this name.
fn count(stacks: &[(Vec<Frame>, u64)], name: &str) -> u64 {
    stacks
        .iter()
        .filter(|(stack, _)| names(stack).contains(&name))
        .map(|(_, count)| count)
        .sum()
}

/// The shared library of the interpreter, if it has one.
fn shared_library(interpreter: &Interpreter) -> Option<PathBuf> {
    let libraries = interpreter.path.ancestors().nth(2)?.join("lib");
    let entries = fs::read_dir(libraries).ok()?.flatten();
    entries.map(|entry| entry.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libpython") && name.ends_with(".so.1.0")
    })
}

/// Compiles a program that uses CPU time before it loads the library and the Python program in its
/// arguments.
fn embedder(folder: &Path) -> PathBuf {
    let program = folder.join("embedder");
    if !program.exists() {
        let source = workload_path("embedder").with_extension("c");
        let mut compiler = tools::GCC.command();
        compiler.arg(source).arg("-o").arg(&program).arg("-ldl");
        assert!(compiler.status().unwrap().success());
    }
    program
}
