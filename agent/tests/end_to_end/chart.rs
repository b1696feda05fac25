//! Charts: when a thread ran what.
//!
//! The workload runs `first` and `second` in turns, each for 200 ms of CPU time, then sleeps for 300 ms.

use std::{
    collections::{BTreeMap, HashMap},
    fs, thread,
};

use serde_json::Value;

use super::{
    capture::Capture,
    folded::{Folded, names},
    machine,
    target::Target,
};

/// CPU time of a turn of a function, in milliseconds.
const TURN: f64 = 200.0;

/// How long the thread sleeps at least, in milliseconds.
const SLEEP: f64 = 300.0;

/// Samples are 5 ms apart, and a part of a chart may be late by two of them. On a machine with other work the
/// samples of a turn are a matter of chance.
const TOLERANCE: f64 = 60.0;

/// A capture of the workload in several formats.
fn captured(target: &Target, options: &[&str], files: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &&str| folder.path().join(name).to_str().unwrap().to_owned();
    let files: Vec<_> = files.iter().map(path).collect();
    let pid = target.pid().to_string();
    let mut line = vec!["--pid", &pid, "-d", "5s", "-r", "199"];
    line.extend(options);
    line.extend(files.iter().flat_map(|file| ["-o", file.as_str()]));
    Capture::run(&line).assert_success();
    let read = |file| fs::read_to_string(file).unwrap();
    files.into_iter().map(read).collect()
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A time in which a function was on the stack, in milliseconds.
#[derive(Clone, Debug)]
struct Turn {
    function: String,
    begin: f64,
    end: f64,
    /// Without the times between in which the thread did not run.
    busy: f64,
}

/// The turns of `first` and `second` in trace events; one that is interrupted by none of the other is one.
fn turns(events: &[Value]) -> Vec<Turn> {
    let mut starts = HashMap::new();
    let mut turns = Vec::<Turn>::new();
    for event in events {
        let name = event["name"].as_str().unwrap();
        let function = name.split_once(" (").map_or(name, |(function, _)| function);
        if !["first", "second"].contains(&function) {
            continue;
        }
        let time = event["ts"].as_f64().unwrap() / 1e3;
        if event["ph"] == "B" {
            starts.insert(function, time);
            continue;
        }
        assert_eq!(event["ph"], "E");
        let begin = starts.remove(function).unwrap();
        match turns.last_mut() {
            Some(last) if last.function == function => {
                last.end = time;
                last.busy += time - begin;
            }
            _ => turns.push(Turn {
                function: function.to_owned(),
                begin,
                end: time,
                busy: time - begin,
            }),
        }
    }
    turns
}

#[test]
fn each_format_has_the_turns_of_functions_that_alternate() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "alternating");
    let files = ["a.trace.json", "b.folded", "c.perf", "d.firefox.json"];
    let texts = captured(&target, &[], &files);
    let [trace, folded, script, firefox] = texts.try_into().unwrap();
    assert_turns(&turns(document(&trace)["traceEvents"].as_array().unwrap()));
    assert_alike(&Folded::parse(&folded));
    assert_turns_of_script(&script);
    assert_sleep(&document(&firefox)["threads"][0]["samples"]);
}

/// They alternate, each as long as it runs, and sleep is not drawn.
fn assert_turns(turns: &[Turn]) {
    assert!(turns.len() >= 8, "{turns:?}");
    for pair in turns.windows(2) {
        assert_ne!(pair[0].function, pair[1].function);
    }
    // The capture may begin and end within a turn.
    let complete = &turns[1..turns.len() - 1];
    for turn in complete {
        assert!(
            (turn.busy - TURN).abs() < TOLERANCE,
            "{turn:?} of {turns:?}"
        );
    }
    for pair in complete.windows(2) {
        let gap = pair[1].begin - pair[0].end;
        if pair[0].function == "second" {
            assert!(gap > SLEEP - TOLERANCE, "{pair:?}");
        }
    }
}

/// A flame graph shows both alike.
fn assert_alike(folded: &Folded) {
    let samples = |function: &str| {
        let count = folded.count(|stack| names(stack).contains(&function));
        f64::from(u32::try_from(count).unwrap())
    };
    let (first, second) = (samples("first"), samples("second"));
    let share = first / (first + second);
    assert!(
        first > 100.0 && (share - 0.5).abs() < 0.15,
        "{first} {second}"
    );
}

fn assert_turns_of_script(text: &str) {
    let mut functions = Vec::new();
    for record in text.split_terminator("\n\n") {
        let is_in = |function: &&str| record.contains(&format!(" {function} (/"));
        if let Some(function) = ["first", "second"].into_iter().find(is_in) {
            functions.push(function);
        }
    }
    let samples = functions.len();
    functions.dedup();
    // Turns of about 40 samples.
    assert!(samples > 200, "{samples}");
    assert!((8..=20).contains(&functions.len()), "{functions:?}");
}

/// The samples have a gap for each sleep.
fn assert_sleep(samples: &Value) {
    let stacks = samples["stack"].as_array().unwrap().iter();
    let times = samples["timeDeltas"].as_array().unwrap().iter().skip(1);
    let times = times.map(|time| time.as_f64().unwrap());
    let gaps = stacks.zip(times).filter(|(stack, _)| stack.is_null());
    let long = gaps.filter(|(_, time)| *time > SLEEP - TOLERANCE).count();
    assert!((5..=9).contains(&long), "{long}");
}

/// In the format of V8, hits are those of the aggregated samples, and the times those of the timeline.
#[test]
fn the_times_of_a_chart_are_those_of_the_aggregated_stacks() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "alternating");
    let tid = target.pid().to_string();
    let check = |options: &[&str]| {
        let texts = captured(&target, options, &["a.cpuprofile"]);
        assert_times(&document(&texts[0]));
    };
    thread::scope(|scope| {
        scope.spawn(|| check(&["--internals"]));
        scope.spawn(|| check(&["--gil", "--no-native", "--thread", &tid]));
    });
}

fn assert_times(document: &Value) {
    let number = |value: &Value| value.as_u64().unwrap();
    let nodes = document["nodes"].as_array().unwrap().iter();
    let hits = nodes.filter(|node| node["callFrame"]["functionName"] != "(idle)");
    let hits = hits.map(|node| (number(&node["id"]), number(&node["hitCount"])));
    let hits: BTreeMap<_, _> = hits.filter(|(_, hits)| *hits != 0).collect();
    let ids = document["samples"].as_array().unwrap().iter().map(number);
    let times = document["timeDeltas"]
        .as_array()
        .unwrap()
        .iter()
        .map(number);
    let mut shown = BTreeMap::<u64, (u64, u64)>::new();
    for (id, time) in ids.zip(times.skip(1)) {
        let (spans, sum) = shown.entry(id).or_default();
        *spans += 1;
        *sum += time;
    }
    assert!(
        hits.len() > 1 && hits.values().sum::<u64>() > 200,
        "{hits:?}"
    );
    let period = 1_000_000 / 199;
    for (id, hits) in hits {
        let (spans, time) = shown[&id];
        // Each span is rounded to a microsecond, and so is the period.
        assert!(
            time.abs_diff(hits * period) <= spans + hits,
            "{id}: {time} {hits}"
        );
    }
}
