//! Waiting for locks: for how long, for which, and what that is called.

use std::collections::BTreeMap;

use super::{
    abilities::has_thread_names,
    capture::Capture,
    folded::{Folded, names},
    machine,
    target::Target,
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

/// The name of a lock with its class, without its address.
fn without_address(marker: &str) -> String {
    let name = marker.strip_prefix("[lock: ").unwrap();
    let (name, address) = name
        .strip_suffix(']')
        .unwrap()
        .split_once(" at 0x")
        .unwrap();
    let end = if name.contains('(') { ")" } else { "" };
    format!("{name}{}", &address[address.len() - end.len()..])
}

/// What a class is called: `_thread.lock` is what `threading.Lock` makes.
fn class_of(expected: &str) -> String {
    expected.replace("(lock)", "(Lock)")
}

#[test]
fn every_type_of_lock_has_its_name() {
    let _machine = machine::alone();
    machine::for_each_that(has_thread_names, |interpreter| {
        let target = Target::start(interpreter, "locks");
        let expected: BTreeMap<String, String> = target
            .lines
            .iter()
            .map(|line| {
                let (thread, lock) = line.split_once('\t').unwrap();
                (thread.to_owned(), class_of(lock))
            })
            .collect();
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

/// Twelve threads take twenty locks, and count how long each made them wait.
#[test]
fn the_time_of_each_lock_is_that_which_the_program_stamps() {
    let _machine = machine::alone();
    machine::for_each_kind_alone_that(has_thread_names, |interpreter| {
        let mut target = Target::start(interpreter, "stamped_locks");
        target.send_line("begin");
        target.read_line();
        let folded = Capture::folded(target.pid(), "--event lock --idle -d 4 -r 499");
        target.send_line("end");
        let stamped: BTreeMap<String, f64> = target
            .read_line()
            .split_whitespace()
            .map(|pair| {
                let (name, seconds) = pair.split_once('=').unwrap();
                (name.to_owned(), seconds.parse().unwrap())
            })
            .collect();
        let mut sampled = BTreeMap::<String, u64>::new();
        let mut unknown = 0;
        for (marker, time) in times_by_lock(&folded) {
            if marker == "[waiting: lock]" {
                // Of stacks that changed while they were read.
                unknown += time;
                continue;
            }
            let name = without_address(marker);
            let name = name
                .strip_prefix("Locks.")
                .unwrap_or_else(|| panic!("{marker}"));
            let (name, _) = name.split_once(' ').unwrap();
            *sampled.entry(name.to_owned()).or_default() += time;
        }
        let (total, all) = (folded.total() - unknown, stamped.values().sum::<f64>());
        assert!(unknown * 20 < total, "{unknown} of {total}");
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
