//! The GIL: who holds it, for how long, and whom that keeps waiting.

use std::{collections::BTreeMap, fs, path::Path, time::Instant};

use tempfile::TempDir;

use super::{
    abilities::{has_fair_gil, has_gil},
    capture::Capture,
    folded::{Folded, Frame, names},
    machine,
    target::Target,
    waiting::ratio,
};

/// Options of a capture of all that is about the GIL.
const EVENTS: &str = "wall,gil,gil-held";

/// The profiles of [`EVENTS`], each in a file of its own.
pub(super) fn captured(pid: u32, options: &str) -> [Folded; 3] {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("profile.folded");
    let pid = pid.to_string();
    let mut arguments = vec!["--pid", &pid, "--event", EVENTS];
    arguments.extend(options.split(' '));
    arguments.extend(["--output", file.to_str().unwrap()]);
    let capture = Capture::run(&arguments);
    capture.assert_success();
    let profiles = EVENTS.split(',').map(|event| {
        let file = folder.path().join(format!("profile.{event}.folded"));
        assert!(
            capture.messages.contains(file.to_str().unwrap()),
            "{}",
            capture.messages
        );
        read(&file)
    });
    let profiles: Vec<_> = profiles.collect();
    profiles.try_into().unwrap()
}

fn read(file: &Path) -> Folded {
    let text = fs::read_to_string(file).unwrap();
    Folded::parse_whole(&text).python()
}

/// The time of stacks with a frame of this name.
fn time_with(folded: &Folded, name: &str) -> u64 {
    folded.count(|stack| names(stack).contains(&name))
}

/// The function of a stack that is nearest the leaf, and the markers above it.
fn function_and_markers(stack: &[Frame]) -> (&str, Vec<&str>) {
    let is_state = |name: &str| {
        name.starts_with("[waiting: ") || name.starts_with("[blocks: ") || name == "[runnable]"
    };
    let names = names(stack);
    let states = names.iter().rev().take_while(|name| is_state(name)).count();
    let (functions, markers) = names.split_at(names.len() - states);
    (functions.last().copied().unwrap_or(""), markers.to_vec())
}

/// Ten threads and the main thread compute: one has the GIL, and all others wait for that one.
#[test]
fn whoever_waits_for_the_gil_is_blocked_by_whoever_holds_it() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn_that(has_fair_gil, |interpreter| {
        let target = Target::start(interpreter, "threads");
        let [elapsed, blamed, held] = captured(target.pid(), "--idle -d 4");
        // To the nanosecond: each wait has a holder, or nobody holds it.
        let waited = time_with(&elapsed, "[waiting: gil]");
        assert_eq!(waited, blamed.total(), "{}", interpreter.name);
        let threads = 11;
        let each = elapsed.total() / threads;
        let shown = format!(
            "{}: {held} of {each} held, {waited} waited",
            interpreter.name,
            held = held.total()
        );
        println!("{shown}");
        // One at a time, but for moments in which it is handed over.
        assert!(held.total() <= each, "{shown}");
        assert!(held.total() * 100 >= each * 90, "{shown}");
        let handed_over = blamed.count(|stack| {
            let (_, markers) = function_and_markers(stack);
            markers == ["[waiting: gil]"]
        });
        assert!(handed_over * 10 < waited, "{handed_over} of {waited}");
    });
}

/// A thread sleeps with the GIL: no sampler of CPU time sees it, and all others wait for it.
#[test]
fn a_thread_that_sleeps_with_the_gil_is_found() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn_that(has_gil, |interpreter| {
        let mut target = Target::start(interpreter, "gil_holders");
        target.send_line("begin");
        target.read_line();
        let began = Instant::now();
        let [elapsed, blamed, held] = captured(target.pid(), "--idle -d 4 -r 499");
        let taken = began.elapsed().as_secs_f64();
        target.send_line("end");
        let line = target.read_line();
        let (times, seconds) = line.trim().split_once(' ').unwrap();
        let (times, seconds): (f64, f64) = (times.parse().unwrap(), seconds.parse().unwrap());
        // A share of the elapsed time: the program was not sampled all of the time that it counted.
        let stamped = times * seconds / taken;
        let each = elapsed.total() / 4;
        let sampled = ratio(time_with(&held, "holds"), each);
        println!("{}: {sampled:.3} of {stamped:.3}", interpreter.name);
        assert!((sampled - stamped).abs() < 0.06, "{sampled} {stamped}");

        assert_eq!(time_with(&elapsed, "[waiting: gil]"), blamed.total());
        let mut by_function = BTreeMap::<(&str, bool), u64>::new();
        for (stack, time) in blamed.iter() {
            let (function, markers) = function_and_markers(stack);
            // Who rests has let go of it.
            let is_rest = function == "rests" && markers.contains(&"[waiting: sleep]");
            assert!(!is_rest, "{stack:?}");
            if markers.iter().any(|it| it.starts_with("[blocks: ")) {
                let sleeps = markers.contains(&"[waiting: sleep]");
                *by_function.entry((function, sleeps)).or_default() += time;
            }
        }
        println!("{by_function:?}");
        let asleep = by_function.get(&("holds", true)).copied().unwrap_or(0);
        let computing = by_function.get(&("computes", false)).copied().unwrap_or(0);
        assert!(asleep * 100 > blamed.total() * 20, "{by_function:?}");
        assert!(computing > 0, "{by_function:?}");
        let known = asleep + computing;
        assert!(
            known * 100 > blamed.total() * 75,
            "{by_function:?} of {}",
            blamed.total()
        );
    });
}

/// The table of the command.
#[test]
fn the_table_names_the_holder_and_whom_it_blocks() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "gil_holders");
    let capture = Capture::run(&["gil", "--pid", &target.pid().to_string(), "-d", "2"]);
    assert!(capture.status.success(), "{}", capture.messages);
    let table = String::from_utf8(capture.output).unwrap();
    for thread in fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap() {
        let thread = thread.unwrap().file_name().into_string().unwrap();
        assert!(table.contains(&format!("({thread})")), "{table}");
    }
    let (_, places) = table.split_once("held in, while others waited").unwrap();
    let row = |function: &str| {
        let mut lines = places.lines();
        let found = lines.find(|line| line.contains(function));
        found.map(|line| (line.to_owned(), lines.next().unwrap().trim().to_owned()))
    };
    let (holder, blocked) = row("holds  ").unwrap_or_else(|| panic!("{table}"));
    assert!(holder.contains(", by "), "{table}");
    // Two threads wait for the one that sleeps.
    assert!(
        blocked.starts_with("blocked ") && blocked.contains(", "),
        "{table}"
    );
    println!("{table}");
}

/// What is not Python has no GIL: an error that says so.
#[test]
fn a_program_without_python_has_no_gil() {
    let _machine = machine::shared();
    let target = super::target::Killed::start(super::target::mortal("sleep").arg("60"));
    let capture = Capture::run(&["gil", "--pid", &target.pid().to_string(), "-d", "1"]);
    assert!(!capture.status.success());
    assert!(capture.messages.contains("Python"), "{}", capture.messages);
}

/// A build without a GIL shows who stops others, and one in which it is switched on who holds it.
#[test]
fn a_build_without_a_gil_is_told_apart_from_one_that_has_it_switched_on() {
    let _machine = machine::alone();
    machine::for_each_named(&["3.13t", "3.14t"], |interpreter| {
        for (setting, has_gil) in [("0", false), ("1", true)] {
            let environment = [("PYTHON_GIL", setting)];
            let target = Target::start_in(interpreter, "gil_holders", &[], &environment);
            let capture = Capture::run(&["gil", "--pid", &target.pid().to_string(), "-d", "1"]);
            capture.assert_success();
            let table = String::from_utf8(capture.output).unwrap();
            assert_eq!(table.contains("  holds  "), has_gil, "{table}");
            assert_eq!(table.contains("; there is no GIL, "), !has_gil, "{table}");
            let nobody = "\nNo thread was stopped by another one.\n";
            assert_eq!(table.ends_with(nobody), !has_gil, "{table}");
        }
    });
}
