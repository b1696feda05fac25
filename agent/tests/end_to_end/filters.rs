//! Filters on samples.

use std::slice;

use xtask::interpreters::Interpreter;

use super::{
    capture::Capture,
    folded::{Folded, names},
    machine,
    target::Target,
};

/// The thread of the workload `gil_released` that holds the global lock, and its function.
const HOLDER: &str = "counting";

/// The threads without the lock.
const OTHERS: [&str; 2] = ["packing", "compressing"];

/// Minimum share of the holder in the samples with the lock, in per cent. The other threads need
/// the lock to start their next operation.
const LEAST_SHARE: u64 = 85;

#[test]
fn gil_selects_threads_with_the_global_lock() {
    let _machine = machine::alone();
    machine::for_each_representative(check_global_lock);
}

/// Free-threaded interpreters have no lock; a thread is attached to the interpreter or detached.
#[test]
fn gil_selects_attached_threads_of_free_threaded_interpreters() {
    let _machine = machine::alone();
    machine::for_each_that(|interpreter| interpreter.free_threaded, check_global_lock);
}

fn check_global_lock(interpreter: &Interpreter) {
    let target = Target::start(interpreter, "gil_released");
    let is_enough = |folded: &Folded| OTHERS.iter().all(|other| in_function(folded, other) > 0);
    let folded = Capture::folded_until(target.pid(), "-d 1 -r 499", is_enough);
    assert!(is_enough(&folded), "{folded:?}");
    assert_ne!(in_function(&folded, HOLDER), 0);

    let folded = Capture::folded(target.pid(), "-d 1 -r 499 --gil");
    let (with_lock, total) = (in_function(&folded, HOLDER), folded.total());
    println!("{}: {with_lock} of {total} samples", interpreter.name);
    assert_ne!(total, 0);
    assert!(
        with_lock * 100 >= total * LEAST_SHARE,
        "{with_lock} of {total} samples: {folded:?}"
    );
}

/// Samples with this function as the leaf.
fn in_function(folded: &Folded, function: &str) -> u64 {
    folded.count(|stack| names(stack).ends_with(&[function]))
}

#[test]
fn thread_selects_one_thread() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "gil_released");
    for thread in target.threads() {
        for wanted in [&thread.name, &thread.id.to_string()] {
            let options = format!("-d 500ms -r 199 --thread {wanted}");
            let profile = Capture::pprof(target.pid(), &options);
            assert_eq!(profile.threads(), slice::from_ref(&thread));
        }
    }
}

#[test]
fn the_error_for_a_missing_thread_lists_the_threads() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "gil_released");
    let pid = target.pid().to_string();
    for (wanted, expected) in [("idle", "named `idle`"), ("1", "with the id 1")] {
        let capture = Capture::run(&["-p", &pid, "-d", "1", "--thread", wanted, "-o", "-"]);
        let message = capture.messages;
        assert_eq!(capture.status.code(), Some(1), "{message}");
        assert_eq!(capture.output, b"");
        assert!(message.contains(expected), "{message}");
        for thread in target.threads() {
            let listed = format!("{} ({})", thread.name, thread.id);
            assert!(message.contains(&listed), "{listed}: {message}");
        }
    }
}
