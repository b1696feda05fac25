//! The machine: what the tests require of it, and how they share it.
//!
//! Invariants: a test that measures shares, counts, times or costs, that looks at the whole host, or that
//! changes it, runs [`alone`]; one that only looks at contents, or at amounts that are the same however long it takes, has
//! the machine [`shared`] with another of its kind. A test of several interpreters reports which of them failed.

use std::{
    sync::{Mutex, OnceLock},
    thread,
    time::Duration,
};

use xtask::{
    interpreters::{self, Interpreter, enough},
    process, processors,
};

use crate::turns::{Kind, Turn, Turns};

/// Interpreters that most tests run in parallel.
const AT_ONCE: usize = 2;

/// One interpreter for each layout of threads and their stacks.
const KINDS: [&str; 5] = ["2.7", "3.8", "3.12", "3.15-sid", "3.14t"];

/// Those of them which are enough for tests that take long.
const FEW_KINDS: [&str; 3] = ["2.7", "3.12", "3.14t"];

static TURNS: Turns = Turns::new();

/// Waits until no other test runs.
pub(crate) fn alone() -> Turn<'static> {
    require_root();
    TURNS.take(Kind::Alone)
}

/// Waits until only tests run that share the machine too: for a test that passes even if its programs have half of a
/// processor each, and that selects them by their ids.
pub(crate) fn shared() -> Turn<'static> {
    require_root();
    TURNS.take(Kind::Shared)
}

fn require_root() {
    assert!(
        process::is_root(),
        "only root may load the BPF programs: run the tests as root"
    );
}

/// Time that a hypervisor gave to others since the start, of all CPUs: the clock of the samples goes on in
/// it, and the scheduler's accounts leave it out.
pub(crate) fn stolen_time() -> Duration {
    processors::stolen_time().unwrap()
}

/// The interpreters to test.
pub(crate) fn interpreters() -> &'static [Interpreter] {
    static ALL: OnceLock<Vec<Interpreter>> = OnceLock::new();
    ALL.get_or_init(|| interpreters::all().unwrap_or_else(|error| panic!("{error:#}")))
}

/// The first and the last version of each way to keep frames, for tests that take long and are not about how
/// interpreters are built. What depends on every single version is in tests of all interpreters.
const VERSIONS: [(u32, u32); 7] = [(2, 7), (3, 6), (3, 10), (3, 11), (3, 12), (3, 13), (3, 15)];

/// Those of them which are enough: one for each way.
const FEW_VERSIONS: [(u32, u32); 5] = [(2, 7), (3, 10), (3, 11), (3, 12), (3, 15)];

/// An ordinary build of each of [`VERSIONS`].
fn representatives() -> &'static [Interpreter] {
    static REPRESENTATIVES: OnceLock<Vec<Interpreter>> = OnceLock::new();
    REPRESENTATIVES.get_or_init(|| {
        // Another test may be making those that are missing.
        interpreters();
        let mut found = interpreters::representatives().unwrap_or_else(|error| panic!("{error:#}"));
        found.retain(|it| VERSIONS.contains(&(it.major, it.minor)));
        found
    })
}

/// The interpreters with these names, at least one.
fn named(names: &[&str]) -> Vec<Interpreter> {
    that(|interpreter| names.contains(&&*interpreter.name))
}

/// [`enough`] of those of [`KINDS`] that satisfy a predicate, at least one.
fn kinds_that(predicate: impl Fn(&Interpreter) -> bool) -> Vec<Interpreter> {
    let found = that(|it| KINDS.contains(&&*it.name) && predicate(it));
    enough(found, |it| FEW_KINDS.contains(&&*it.name))
}

/// The interpreters that satisfy a predicate, at least one.
fn that(predicate: impl Fn(&Interpreter) -> bool) -> Vec<Interpreter> {
    those_of(interpreters(), predicate)
}

/// Those of some interpreters that satisfy a predicate, at least one.
fn those_of(
    interpreters: &[Interpreter],
    predicate: impl Fn(&Interpreter) -> bool,
) -> Vec<Interpreter> {
    let mut selected = interpreters.to_vec();
    selected.retain(predicate);
    assert!(!selected.is_empty(), "no interpreter is one for this test");
    selected
}

/// The last interpreter, which is usually the one of the distribution.
pub(crate) fn one_interpreter() -> &'static Interpreter {
    interpreters().last().unwrap()
}

/// Runs a check with every interpreter, and fails with the names of those that failed it.
pub(crate) fn for_each_interpreter(check: impl Fn(&Interpreter) + Sync) {
    in_parallel(AT_ONCE, interpreters(), check);
}

/// The same with an ordinary build of [`enough`] of [`VERSIONS`].
pub(crate) fn for_each_representative(check: impl Fn(&Interpreter) + Sync) {
    for_each_representative_that(|_| true, check);
}

/// The same, of those that satisfy a predicate.
pub(crate) fn for_each_representative_that(
    predicate: impl Fn(&Interpreter) -> bool,
    check: impl Fn(&Interpreter) + Sync,
) {
    let found = those_of(representatives(), predicate);
    let found = enough(found, |it| FEW_VERSIONS.contains(&(it.major, it.minor)));
    in_parallel(AT_ONCE, &found, check);
}

/// The same with the interpreters that satisfy a predicate.
pub(crate) fn for_each_that(
    predicate: impl Fn(&Interpreter) -> bool,
    check: impl Fn(&Interpreter) + Sync,
) {
    in_parallel(AT_ONCE, &that(predicate), check);
}

/// The same with the interpreters that have these names, of which a few are enough.
pub(crate) fn for_some_named(names: &[&str], few: &[&str], check: impl Fn(&Interpreter) + Sync) {
    let found = enough(named(names), |it| few.contains(&&*it.name));
    in_parallel(AT_ONCE, &found, check);
}

/// The same with the interpreters that have these names.
pub(crate) fn for_each_named(names: &[&str], check: impl Fn(&Interpreter) + Sync) {
    in_parallel(AT_ONCE, &named(names), check);
}

/// The same with [`enough`] of [`KINDS`].
pub(crate) fn for_each_kind(check: impl Fn(&Interpreter) + Sync) {
    for_each_kind_that(|_| true, check);
}

/// The same with those of them that satisfy a predicate.
pub(crate) fn for_each_kind_that(
    predicate: impl Fn(&Interpreter) -> bool,
    check: impl Fn(&Interpreter) + Sync,
) {
    in_parallel(AT_ONCE, &kinds_that(predicate), check);
}

/// The same, one after the other.
pub(crate) fn for_each_kind_in_turn(check: impl Fn(&Interpreter) + Sync) {
    for_each_kind_in_turn_that(|_| true, check);
}

/// The same with those of them that satisfy a predicate.
pub(crate) fn for_each_kind_in_turn_that(
    predicate: impl Fn(&Interpreter) -> bool,
    check: impl Fn(&Interpreter) + Sync,
) {
    in_parallel(1, &kinds_that(predicate), check);
}

/// The same with all of [`KINDS`], in parallel.
pub(crate) fn for_all_kinds_at_once(check: impl Fn(&Interpreter) + Sync) {
    in_parallel(KINDS.len(), &named(&KINDS), check);
}

fn in_parallel(at_once: usize, interpreters: &[Interpreter], check: impl Fn(&Interpreter) + Sync) {
    let waiting = Mutex::new(interpreters.iter());
    let failed = Mutex::new(Vec::new());
    // Each check has a thread of its own, so that what it says of a failure names the interpreter.
    let work = || {
        loop {
            let Some(interpreter) = waiting.lock().unwrap().next() else {
                break;
            };
            let name = interpreter.name.clone();
            let has_failed = thread::scope(|scope| {
                let thread = thread::Builder::new().name(name.clone());
                let running = thread.spawn_scoped(scope, || check(interpreter));
                running.unwrap().join().is_err()
            });
            if has_failed {
                failed.lock().unwrap().push(name);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failed with {}", failed.join(", "));
}
