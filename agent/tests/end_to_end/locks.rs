//! Waiting for locks: for how long, for which, what that is called, and who ends the waits.

use std::{collections::BTreeMap, fs, thread};

use tempfile::TempDir;

use super::{
    abilities::has_thread_names,
    capture::Capture,
    folded::{Folded, Frame, names},
    machine,
    native::compile,
    target::{Target, mortal},
    waiting::ratio,
};

/// The time of each lock, by the text of its marker.
fn times_by_lock(folded: &Folded) -> BTreeMap<&str, u64> {
    let mut times = BTreeMap::new();
    for (stack, time) in folded.iter() {
        let leaf = &*stack.last().unwrap().name;
        *times.entry(leaf).or_default() += time;
    }
    times
}

/// The name of a lock with its class, without its address, if it has one.
fn without_address(marker: &str) -> String {
    let name = marker.strip_prefix("[lock: ").unwrap();
    let name = name.strip_suffix(']').unwrap();
    let Some((name, address)) = name.split_once(" at 0x") else {
        return name.to_owned();
    };
    let end = if name.contains('(') { ")" } else { "" };
    format!("{name}{}", &address[address.len() - end.len()..])
}

/// What a class is called: `_thread.lock` is what `threading.Lock` makes, and `_Condition` in 2.7 `threading.Condition`.
fn class_of(expected: &str) -> String {
    expected.replace("(lock)", "(Lock)").replace("(_", "(")
}

/// The seconds of each name, as a workload prints them.
fn stamped(line: &str) -> BTreeMap<String, f64> {
    let pairs = line.split_whitespace().map(|pair| {
        let (name, seconds) = pair.split_once('=').unwrap();
        // Of a lock that nobody waited for, the clocks of running and of elapsed time may differ by some microseconds.
        (name.to_owned(), seconds.parse::<f64>().unwrap().max(0.0))
    });
    pairs.collect()
}

#[test]
fn every_type_of_lock_has_its_name() {
    let _machine = machine::shared();
    machine::for_each_interpreter(|interpreter| {
        let target = Target::start(interpreter, "locks");
        let expected: BTreeMap<String, String> = target
            .lines
            .iter()
            .map(|line| {
                let (thread, lock) = line.split_once('\t').unwrap();
                (thread.to_owned(), class_of(lock))
            })
            .collect();
        assert_eq!(expected.len(), 24);
        let folded = Capture::folded(target.pid(), "--event lock --idle -d 1.2");
        for (thread, lock) in &expected {
            // From 3.11 on with their classes.
            let is_waiting = |name: &str| name.rsplit('.').next() == Some(thread);
            let waits = |stack: &[_]| names(stack).into_iter().any(is_waiting);
            let of_thread: Vec<_> = folded.iter().filter(|(stack, _)| waits(stack)).collect();
            assert!(!of_thread.is_empty(), "{thread}: {folded:?}");
            for (stack, _) in of_thread {
                let marker = &stack.last().unwrap().name;
                assert_eq!(&without_address(marker), lock, "{thread}: {marker}");
            }
        }
    });
}

/// They are in functions of C, which are called again and again at other places of the stack.
#[test]
fn conditions_on_the_stacks_of_threads_are_one_lock() {
    let _machine = machine::shared();
    let directory = TempDir::new().unwrap();
    let program = compile(&directory, "own_stack", "-O2 -pthread");
    let target = Target::from_command(mortal(program));
    let folded = Capture::whole(target.pid(), "--event lock --idle -d 2");
    let times = times_by_lock(&folded);
    let named = times.iter().filter(|(name, _)| name.starts_with("[lock: "));
    let named: Vec<_> = named.collect();
    let [(name, time)] = *named else {
        panic!("{times:?}");
    };
    assert_eq!(*name, "[lock: lock on its own stack]");
    assert!(time * 2 > folded.total(), "{times:?}");
    let pid = target.pid().to_string();
    let dump = Capture::run(&["dump", "--pid", &pid]);
    dump.assert_success();
    let dump = String::from_utf8(dump.output).unwrap();
    assert!(
        dump.contains(": waiting for the lock on its own stack\n"),
        "{dump}"
    );
}

/// Twelve threads take twenty locks, and count how long each made them wait.
#[test]
fn the_time_of_each_lock_is_that_which_the_program_stamps() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn_that(has_thread_names, |interpreter| {
        let mut target = Target::start(interpreter, "stamped_locks");
        target.send_line("begin");
        target.read_line();
        let folded = Capture::folded(target.pid(), "--event lock --idle -d 4 -r 499");
        target.send_line("end");
        let stamped = stamped(&target.read_line());
        let mut sampled = BTreeMap::<String, u64>::new();
        let mut unknown = 0;
        for (marker, time) in times_by_lock(&folded) {
            let Some(name) = marker.strip_prefix("[lock: Locks.") else {
                // Of stacks that changed while they were read, and for what the interpreter has inside.
                unknown += time;
                continue;
            };
            let (name, _) = name.split_once(' ').unwrap();
            *sampled.entry(name.to_owned()).or_default() += time;
        }
        let (total, all) = (folded.total() - unknown, stamped.values().sum::<f64>());
        assert!(unknown * 10 < total, "{unknown} of {total}");
        for (name, seconds) in stamped {
            let sampled = ratio(sampled.get(&name).copied().unwrap_or(0), total);
            let expected = seconds / all;
            println!("{}: {name} {sampled:.4} of {expected:.4}", interpreter.name);
            // As of the waits of three threads, see `waiting`.
            let tolerance = 3.0 * (expected * (1.0 - expected) / 600.0).sqrt() + 0.02;
            assert!(
                (sampled - expected).abs() < tolerance,
                "{name}: {sampled} of {expected} ± {tolerance}"
            );
        }
    });
}

/// The time that three threads may have waited for a lock without an end when a capture ends, in nanoseconds: its keeper
/// may have lost its processor.
const GOING_ON_NS: u64 = 150_000_000;

/// Of a thread that holds a lock for long and for short, and others that wait for it: whose release ends the waits.
#[test]
fn whoever_releases_a_lock_has_the_time_that_others_waited() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn_that(has_thread_names, |interpreter| {
        let mut target = Target::start(interpreter, "released_locks");
        target.send_line("begin");
        target.read_line();
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("profile.folded");
        let pid = target.pid().to_string();
        let events = ["--event", "lock,lock-release", "-d", "4", "-r", "499"];
        let output = ["--pid", &pid, "--output", file.to_str().unwrap()];
        Capture::run(&[&output[..], &events].concat()).assert_success();
        target.send_line("end");
        let stamped = stamped(&target.read_line());
        let profile = |event: &str| {
            let file = folder.path().join(format!("profile.{event}.folded"));
            Folded::parse_whole(&fs::read_to_string(file).unwrap())
        };
        let (waits, releases) = (profile("lock"), profile("lock-release"));
        // To the nanosecond: each wait was ended by a thread, or by none.
        assert_eq!(waits.total(), releases.total(), "{}", interpreter.name);
        let is_idle = |stack: &[_]| names(stack).contains(&"produces");
        let idle = releases.count(is_idle);
        assert!(idle * 100 < releases.total(), "{idle}: {releases:?}");

        let of_lock = |stack: &[Frame]| {
            let is_release = |name: &str| name.starts_with("[releases: Account.lock (Lock at 0x");
            names(stack).into_iter().any(is_release)
        };
        // Waits that go on when the capture ends are ended by nobody: beside a busy host that is a large part of the
        // few that a free-threaded program has.
        let unended = releases.total() - releases.count(of_lock);
        assert!(
            unended < releases.total() / 10 + GOING_ON_NS,
            "{unended}: {releases:?}"
        );
        let all: f64 = stamped.values().sum();
        for (function, seconds) in stamped {
            let by_function = |stack: &[Frame]| {
                let is_function = |name: &str| name.rsplit('.').next() == Some(&*function);
                of_lock(stack) && names(stack).into_iter().any(is_function)
            };
            let sampled = ratio(releases.count(by_function), releases.count(of_lock));
            let expected = seconds / all;
            println!(
                "{}: {function} {sampled:.4} of {expected:.4}",
                interpreter.name
            );
            // A wait of 12 ms has up to eight samples of 2 ms. Beside a busy host a free-threaded program hardly waits.
            let waits = f64::from(u32::try_from(releases.count(of_lock) / 2_000_000 / 8).unwrap());
            let tolerance = 3.0 * (expected * (1.0 - expected) / waits).sqrt() + 0.02;
            assert!(
                (sampled - expected).abs() < tolerance,
                "{function}: {sampled} of {expected} ± {tolerance}"
            );
        }
        // The keeper waits where a thread that passes has lost its processor meanwhile.
        let blocked = releases.count(|stack| {
            let is_thread =
                |name: &str| name.starts_with("[blocks: passer ") || name == "[blocks: keeper]";
            of_lock(stack) && names(stack).into_iter().any(is_thread)
        });
        assert!(
            blocked * 100 >= releases.count(of_lock) * 99,
            "{blocked}: {releases:?}"
        );
    });
}

#[test]
fn the_table_says_who_waits_for_a_lock_and_who_releases_it() {
    let _machine = machine::alone();
    let interpreter = machine::one_interpreter();
    let target = Target::start(interpreter, "released_locks");
    let pid = target.pid().to_string();
    let capture = Capture::run(&["lock", "--pid", &pid, "-d", "2"]);
    capture.assert_success();
    let table = String::from_utf8(capture.output).unwrap();
    println!("{table}");
    let lines: Vec<_> = table.lines().collect();
    let lock = lines
        .iter()
        .position(|line| line.contains("Account.lock (Lock at 0x"));
    let lock = lock.unwrap_or_else(|| panic!("{table}"));
    let rows = lines[lock + 1..].iter();
    let rows: Vec<_> = rows
        .take_while(|line| line.starts_with("          "))
        .collect();
    assert!(
        rows[0].contains("waiting ") && rows[0].contains("passes  "),
        "{table}"
    );
    for function in ["keeps_long  ", "keeps_short  ", "passes  "] {
        let is_release = |row: &&&str| row.contains("released ") && row.contains(function);
        assert!(rows.iter().any(is_release), "{function}: {table}");
    }
}

/// Locks of which each thread may take its own more than once say who holds them; who holds others is known by the
/// `with` statements that have entered them.
#[test]
fn a_deadlock_is_a_line_that_names_the_threads_and_their_locks() {
    let _machine = machine::shared();
    machine::for_each_that(has_thread_names, |interpreter| {
        // All wait, and take no CPU time.
        thread::scope(|scope| {
            for (workload, class) in [
                ("deadlock", "RLock"),
                ("plain_deadlock", "Lock"),
                ("deadlock_of_entries", "RLock"),
            ] {
                scope.spawn(move || {
                    let target = Target::start(interpreter, workload);
                    let pid = target.pid().to_string();
                    let capture = Capture::run(&["lock", "--pid", &pid, "-d", "1"]);
                    capture.assert_success();
                    let table = String::from_utf8(capture.output).unwrap();
                    // As entries of a dictionary of another object they have other names.
                    let table = table.replace("locks[\"", "").replace("\"]", "");
                    assert_names_deadlock(&table, class);
                });
            }
        });
    });
}

/// It would be one if the lock still belonged to the thread that had it when the last one began to wait.
#[test]
fn a_lock_that_was_handed_on_is_in_no_deadlock() {
    let _machine = machine::shared();
    machine::for_each_representative_that(has_thread_names, |interpreter| {
        let target = Target::start(interpreter, "lock_handed_on");
        let pid = target.pid().to_string();
        let capture = Capture::run(&["lock", "--pid", &pid, "-d", "7"]);
        capture.assert_success();
        let table = String::from_utf8(capture.output).unwrap();
        assert!(!table.contains("Deadlock"), "{table}");
        // Both wait in the end.
        assert!(table.contains("Bank.other (RLock at 0x"), "{table}");
        assert!(table.contains("Bank.handed_on (RLock at 0x"), "{table}");
    });
}

fn assert_names_deadlock(table: &str, class: &str) {
    let deadlocks: Vec<_> = table
        .lines()
        .filter(|line| line.starts_with("Deadlock: "))
        .collect();
    assert_eq!(deadlocks.len(), 1, "{table}");
    for (thread, lock, holder) in [
        ("one", "second", "two"),
        ("two", "third", "three"),
        ("three", "first", "one"),
    ] {
        // `one (4712) waits for Bank.second (RLock at 0x7f00), held by two (4713)`
        let waits = deadlocks[0].split(", which ").find(|part| {
            let (lock, holder) = (
                format!("waits for Bank.{lock} ({class} at 0x"),
                format!(", held by {holder} ("),
            );
            part.contains(&lock) && part.contains(&holder)
        });
        assert!(waits.is_some(), "{thread}: {table}");
    }
    assert!(!deadlocks[0].contains("audit"), "{table}");
}
