//! What the tests need of the machine, and how they share it.
//!
//! Invariants: tests run one after the other ([`alone`]), since each wants the processors for its
//! workloads; a test of several interpreters tells which of them failed.

use std::{
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
};

use xtask::{
    interpreters::{self, Interpreter},
    process,
};

/// Interpreters that most tests look at side by side.
const AT_ONCE: usize = 2;

static MACHINE: Mutex<()> = Mutex::new(());

/// The machine without other tests.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    require_root();
    // A test that failed has not changed the machine.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn require_root() {
    assert!(
        process::is_root(),
        "only root may load the kernel half: run the tests as root"
    );
}

/// The interpreters to test.
pub(crate) fn interpreters() -> &'static [Interpreter] {
    static INTERPRETERS: OnceLock<Result<Vec<Interpreter>, String>> = OnceLock::new();
    INTERPRETERS
        .get_or_init(|| interpreters::ensure().map_err(|error| format!("{error:#}")))
        .as_deref()
        .unwrap_or_else(|error| panic!("{error}"))
}

/// One of them: the last, which is usually that of the distribution.
pub(crate) fn one_interpreter() -> &'static Interpreter {
    interpreters().last().unwrap()
}

/// Runs a check with every interpreter, and fails with the names of those that failed it.
pub(crate) fn for_each_interpreter(check: impl Fn(&Interpreter) + Sync) {
    for_interpreters_side_by_side(AT_ONCE, check);
}

/// The same, one after the other.
pub(crate) fn for_each_interpreter_alone(check: impl Fn(&Interpreter) + Sync) {
    for_interpreters_side_by_side(1, check);
}

/// The same, all of them side by side.
pub(crate) fn for_all_interpreters_at_once(check: impl Fn(&Interpreter) + Sync) {
    for_interpreters_side_by_side(interpreters().len(), check);
}

fn for_interpreters_side_by_side(at_once: usize, check: impl Fn(&Interpreter) + Sync) {
    let check = &check;
    let mut failed = Vec::new();
    for some in interpreters().chunks(at_once) {
        thread::scope(|scope| {
            let running: Vec<_> = some
                .iter()
                .map(|interpreter| {
                    let name = name(interpreter);
                    let running = thread::Builder::new()
                        .name(name.clone())
                        .spawn_scoped(scope, move || check(interpreter))
                        .unwrap();
                    (name, running)
                })
                .collect();
            for (name, running) in running {
                if running.join().is_err() {
                    failed.push(name);
                }
            }
        });
    }
    assert!(failed.is_empty(), "failed with {}", failed.join(", "));
}

/// For example `3.12 (/opt/bin/python3.12)`.
pub(crate) fn name(interpreter: &Interpreter) -> String {
    format!("3.{} ({})", interpreter.minor, interpreter.path.display())
}
