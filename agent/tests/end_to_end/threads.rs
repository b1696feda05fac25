//! Which thread a stack is of, and what the thread is called.

use std::{collections::BTreeSet, thread, time::Duration};

use super::{
    capture::{Capture, Running},
    folded::{Frame, text},
    machine,
    target::{Target, ThreadStack},
};

/// Callers of the functions that the threads run.
const CALLERS: usize = 30;

#[test]
fn folded_stacks_are_whole_and_stand_under_their_threads() {
    let _machine = machine::alone();
    machine::for_each_interpreter(|interpreter| {
        let target = Target::start(interpreter, "threads");
        let folded = Capture::folded(target.pid(), "-d 3 -r 499 --threads");
        let found: BTreeSet<_> = folded.0.keys().cloned().collect();
        let expected: BTreeSet<_> = eleven_threads(&target).into_iter().map(folded_of).collect();
        assert_eq!(found, expected);
    });
}

#[test]
fn pprof_samples_are_whole_and_labelled_with_their_threads() {
    let _machine = machine::alone();
    machine::for_each_interpreter(|interpreter| {
        let target = Target::start(interpreter, "threads");
        let profile = Capture::pprof(target.pid(), "-d 3 -r 499");
        assert_eq!(profile.threads(), eleven_threads(&target));
    });
}

#[test]
fn a_thread_has_the_name_that_it_had_last() {
    let _machine = machine::alone();
    machine::for_each_interpreter(|interpreter| {
        let mut target = Target::start(interpreter, "renamed");
        let mut expected = target.threads().remove(0);
        assert_eq!(expected.name, "before");
        let pid = target.pid().to_string();
        let mut capture = Running::start(&["-p", &pid, "-d", "4", "-r", "199", "-o", "-"]);
        capture.wait_until_sampling();
        thread::sleep(Duration::from_secs(1));
        target.tell("after");
        let mut found = capture.finish().into_pprof().threads();
        // The main thread may be seen while it gives the name.
        found.retain(|thread| thread.id != target.pid());
        expected.name = "after".to_owned();
        assert_eq!(found, [expected]);
    });
}

/// What the workload `threads` says, when it is what it should be.
fn eleven_threads(target: &Target) -> Vec<ThreadStack> {
    let threads = target.threads();
    let find = |name: &str| threads.iter().find(|thread| thread.name == name).unwrap();
    assert_eq!(threads.len(), 11);
    assert_eq!(find("MainThread").id, target.pid());
    for number in 0..10 {
        let stack = &find(&format!("worker-{number}")).stack;
        assert!(stack.len() > CALLERS, "{}", text(stack));
        assert_eq!(stack.last().unwrap().name, format!("busy_{number}"));
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
