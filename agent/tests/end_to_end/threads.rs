//! The thread of a stack, and the name of the thread.

use std::{collections::BTreeSet, thread, time::Duration};

use xtask::interpreters::Interpreter;

use super::{
    abilities::has_thread_names,
    capture::{Capture, Running},
    folded::{Folded, Frame, text},
    machine,
    target::{Target, ThreadStack, mortal},
};

/// Callers of the functions that the threads run.
const CALLERS: usize = 30;

#[test]
fn folded_stacks_are_complete_and_begin_with_their_threads() {
    let _machine = machine::shared();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "threads");
        let threads = eleven_threads(interpreter, &target);
        let expected: BTreeSet<_> = threads.into_iter().map(folded_of).collect();
        let has_all = |folded: &Folded| folded.0.len() >= expected.len();
        let folded = Capture::folded_until(target.pid(), "-d 1.5 -r 499 --threads", has_all);
        let found: BTreeSet<_> = folded.0.into_keys().collect();
        assert_eq!(found, expected);
    });
}

#[test]
fn pprof_samples_are_complete_and_labelled_with_their_threads() {
    let _machine = machine::shared();
    machine::for_each_interpreter(|interpreter| {
        let target = Target::start(interpreter, "threads");
        let threads = eleven_threads(interpreter, &target);
        let profile = Capture::pprof_until(target.pid(), "-d 1.2 -r 499", threads.len());
        assert_eq!(profile.threads(), threads);
    });
}

#[test]
fn a_thread_of_a_program_without_python_has_its_name_from_the_kernel() {
    let _machine = machine::shared();
    let mut shell = mortal("sh");
    shell.args(["-c", "echo ready; while :; do :; done"]);
    let shell = Target::from_command(shell);
    let profile = Capture::pprof_until(shell.pid(), "-d 1 -r 499", 1);
    let threads = profile.threads();
    let names: Vec<_> = threads.iter().map(|it| (it.id, &*it.name)).collect();
    assert_eq!(names.first(), Some(&(shell.pid(), "sh")), "{names:?}");
}

#[test]
fn a_renamed_thread_has_its_last_name() {
    let _machine = machine::alone();
    machine::for_each_representative_that(has_thread_names, |interpreter| {
        let mut target = Target::start(interpreter, "renamed");
        let mut expected = target.threads().remove(0);
        assert_eq!(expected.name, "before");
        let pid = target.pid().to_string();
        let mut capture = Running::start(&["-p", &pid, "-d", "2", "-r", "199", "-o", "-"]);
        capture.wait_until_sampling();
        thread::sleep(Duration::from_millis(500));
        target.send_line("after");
        let mut found = capture.finish().into_pprof().threads();
        // The main thread may be sampled while it sets the name.
        found.retain(|thread| thread.id != target.pid());
        expected.name = "after".to_owned();
        assert_eq!(found, [expected]);
    });
}

/// The threads of the workload `threads`, with assertions of their number, names and stacks.
fn eleven_threads(interpreter: &Interpreter, target: &Target) -> Vec<ThreadStack> {
    let threads = target.threads();
    let find = |function: &str| {
        let mut threads = threads.iter();
        threads.find(|thread| thread.stack.last().unwrap().name == function)
    };
    assert_eq!(threads.len(), 11);
    let main = find("<module>").unwrap();
    assert_eq!((main.id, &*main.name), (target.pid(), "MainThread"));
    for number in 0..10 {
        let worker = find(&format!("busy_{number}")).unwrap();
        assert!(worker.stack.len() > CALLERS, "{}", text(&worker.stack));
        let name = if has_thread_names(interpreter) {
            format!("worker-{number}")
        } else {
            "python2.7".to_owned()
        };
        assert_eq!(worker.name, name);
    }
    threads
}

/// The folded stack of a thread, which begins with the thread.
fn folded_of(thread: ThreadStack) -> Vec<Frame> {
    let mut stack = vec![Frame {
        name: thread.name,
        place: thread.id.to_string(),
        line: None,
    }];
    stack.extend(thread.stack);
    stack
}
