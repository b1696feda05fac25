//! What threads wait for, for how long, and for whom.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::output::{WAITS, assert_deadlock, json, text, threads, threads_of, tids, with_function};
use crate::{
    abilities::{has_fair_gil, has_gil, has_thread_names},
    machine,
    target::Target,
};

/// The same of a process whose threads hand over the GIL every five milliseconds.
const DUMPS_OF_CONVOY: usize = 16;

#[test]
fn who_waits_for_the_gil_has_the_thread_that_holds_it() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn_that(has_fair_gil, |interpreter| {
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
    machine::for_each_kind_in_turn_that(has_gil, |interpreter| {
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
fn a_deadlock_is_the_first_line() {
    let _machine = machine::shared();
    machine::for_each_representative_that(has_thread_names, |interpreter| {
        for (workload, class) in [("deadlock", "RLock"), ("plain_deadlock", "Lock")] {
            let target = Target::start(interpreter, workload);
            let whole = text(target.pid(), "");
            let first = whole.lines().next().unwrap();
            assert!(first.starts_with("Deadlock: "), "{whole}");
            for (lock, holder) in [("second", "two"), ("third", "three"), ("first", "one")] {
                let is_wait = |part: &str| {
                    part.contains(&format!("waits for Bank.{lock} ({class} at 0x"))
                        && part.ends_with(&format!(" \"{holder}\""))
                };
                assert!(first.split(", which ").any(is_wait), "{whole}");
            }
            let document = json(target.pid(), "--no-native");
            assert_deadlock(interpreter, target.pid(), &document);
        }
    });
}

/// One that sleeps holds a lock no less than one that waits. A plain lock does not say who holds it: its holder is the thread
/// that has entered it by a statement, if that is known.
#[test]
fn who_waits_for_a_lock_has_the_thread_that_holds_it() {
    let _machine = machine::shared();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "deadlock_of_entries");
        let threads = threads(target.pid(), "");
        let holder = with_function(&threads, "keeps")[0]["tid"].clone();
        let waiting = with_function(&threads, "asks");
        assert_eq!(waiting.len(), 1, "{threads:#?}");
        assert_eq!(waiting[0]["lock_holder"], holder, "{:#}", waiting[0]);
        let lock = waiting[0]["lock"].as_str().unwrap();
        assert!(
            lock.starts_with("Bank.locks[\"kept\"] (RLock at 0x"),
            "{lock}"
        );
        for (asks, holds) in [
            ("asks_for_plain", Some("keeps")),
            ("asks_for_called", None),
            ("asks_for_guard", Some("guards")),
            ("takes_again", Some("guards")),
            ("asks_for_own", Some("joins")),
        ] {
            let thread = with_function(&threads, asks)[0];
            assert_eq!(thread["wait"], "lock", "{thread:#}");
            let holder = holds.map(|function| &with_function(&threads, function)[0]["tid"]);
            let found = &thread["lock_holder"];
            assert_eq!(
                found,
                holder.unwrap_or(&serde_json::Value::Null),
                "{thread:#}"
            );
        }
        let whole = text(target.pid(), "");
        let holder = format!(", held by {holder} \"");
        let line = whole.lines().find(|line| line.contains("[\"kept\"]"));
        assert!(line.unwrap().contains(&holder), "{whole}");
        let first = whole.lines().next().unwrap();
        assert!(
            first.starts_with("Deadlock: ") && first.contains("Bank.locks[\"first\"]"),
            "{whole}"
        );
    });
}

#[test]
fn a_thread_says_for_how_long_it_has_waited() {
    /// Threads begin to wait before the workload says that it is ready, and a tick after they are started.
    const TOLERANCE: Duration = Duration::from_millis(400);

    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let before = Instant::now();
        let target = Target::start(interpreter, "waiting");
        let ready = Instant::now();
        thread::sleep(Duration::from_secs(2));
        let least = ready.elapsed();
        let document = json(target.pid(), "");
        let most = before.elapsed();
        let threads = threads_of(&document, target.pid());
        for (function, _) in WAITS {
            let thread = with_function(&threads, function)[0];
            let waited = thread["waiting_ms"].as_f64().unwrap();
            let waited = Duration::from_secs_f64(waited / 1e3);
            println!(
                "{}: {function}: {waited:?} of {least:?} to {most:?}",
                interpreter.name
            );
            assert!(waited + TOLERANCE >= least, "{thread:#}");
            assert!(waited <= most + TOLERANCE, "{thread:#}");
        }
        let computing = with_function(&threads, "computes")[0];
        assert!(computing["waiting_ms"].is_null(), "{computing:#}");
        let whole = text(target.pid(), "");
        assert!(whole.contains(": waiting: sleep for "), "{whole}");
        assert!(whole.contains(": waiting: child for "), "{whole}");
    });
}
