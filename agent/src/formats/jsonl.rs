//! JSON Lines: an object with what was measured, then one for each stack of each thread.
//!
//! It is for programs and for tools such as `jq` and `DuckDB`: a line can be read without those before it. Fields
//! whose values are not known are left out.
//!
//! Invariants: the values of the lines add up to those of the first one; besides the profile and its distinct frames
//! memory is needed for one line.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, Write},
    time::SystemTime,
};

use serde::{Serialize, Serializer};

use super::{
    json, losses,
    python_module::module,
    shown_frame::{FrameTable, executable_path},
};
use crate::{
    profile::{FrameKind, LeafMarkers, LocationId, Memory, Profile, Sample, Thread, Wait},
    text::printable,
};

/// Version of the schema: another one when the meaning of a field changes, or a field goes.
const SCHEMA: u32 = 1;

/// Writes a profile.
pub(super) fn write(table: &FrameTable<'_>, out: &mut dyn Write) -> io::Result<()> {
    let profile = table.profile();
    json::write(&Head::of(profile), out)?;
    let frames = FrameObjects::new(table);
    for sample in &profile.samples {
        json::write(&StackLine::of(&frames, sample), out)?;
    }
    Ok(())
}

/// The first line.
#[derive(Serialize)]
struct Head<'a> {
    schema: u32,
    exporter: &'a str,
    event: &'a str,
    unit: &'a str,
    /// How far samples are apart, in the unit.
    period: u64,
    /// When sampling began, in milliseconds of Unix time.
    start_ms: u64,
    duration_ms: u64,
    /// Number of lines that follow.
    stacks: usize,
    samples: u64,
    value: u64,
    lost_samples: u64,
    /// What was lost or left out, as sentences.
    losses: Vec<String>,
    /// Labels of the series.
    labels: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    processes: Vec<ProcessObject<'a>>,
}

/// A process of the first line.
#[derive(Serialize)]
struct ProcessObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    runtime: Cow<'a, str>,
}

impl<'a> Head<'a> {
    fn of(profile: &'a Profile) -> Self {
        let since = profile.start.duration_since(SystemTime::UNIX_EPOCH);
        let milliseconds = |millis: u128| u64::try_from(millis).unwrap_or(u64::MAX);
        let processes = profile.processes.iter().map(|process| ProcessObject {
            pid: Some(process.pid).filter(|pid| *pid != 0),
            name: printable(&process.name),
            runtime: printable(&process.runtime),
        });
        let labels = profile.labels.iter();
        Self {
            schema: SCHEMA,
            exporter: json::PROGRAM,
            event: profile.kind.name,
            unit: profile.kind.unit.name(),
            period: profile.period,
            start_ms: milliseconds(since.unwrap_or_default().as_millis()),
            duration_ms: milliseconds(profile.duration.as_millis()),
            stacks: profile.samples.len(),
            samples: profile.total(),
            value: profile.total_value(),
            lost_samples: profile.losses.lost_samples,
            losses: losses::sentences(&profile.filtered_out, &profile.losses),
            labels: labels
                .map(|(name, value)| (printable(name), printable(value)))
                .collect(),
            processes: processes.collect(),
        }
    }
}

/// A line of a stack.
#[derive(Serialize)]
struct StackLine<'a> {
    event: &'a str,
    samples: u64,
    value: u64,
    unit: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    process: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    thread: Cow<'a, str>,
    labels: Labels<'a>,
    frames: Frames<'a>,
}

/// What the thread did, as far as it is known.
#[derive(Serialize)]
struct Labels<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gc: Option<bool>,
}

impl<'a> StackLine<'a> {
    fn of(frames: &'a FrameObjects<'a>, sample: &Sample) -> Self {
        let profile = frames.table.profile();
        let Thread { process, tid, name } = &profile.threads[sample.thread.0 as usize];
        let process = &profile.processes[process.0 as usize];
        let id = |id: u32| Some(id).filter(|id| *id != 0);
        Self {
            event: profile.kind.name,
            samples: sample.count,
            value: sample.value,
            unit: profile.kind.unit.name(),
            pid: id(process.pid),
            process: printable(&process.name),
            tid: id(*tid),
            thread: printable(name),
            labels: Labels::of(profile.task_of(sample), &profile.leaf_markers(sample)),
            frames: Frames {
                objects: frames,
                stack: &profile.stacks[sample.stack.0 as usize],
            },
        }
    }
}

impl<'a> Labels<'a> {
    fn of(task: Option<&'a str>, markers: &LeafMarkers<'a>) -> Self {
        Self {
            task: task.map(printable),
            wait: markers.wait.map(Wait::label),
            lock: markers.lock.map(printable),
            blocks: markers.blocks.map(printable),
            memory: markers.memory.map(Memory::label),
            gc: markers.collects_garbage.then_some(true),
        }
    }
}

/// The frames of a stack, leaf first.
struct Frames<'a> {
    objects: &'a FrameObjects<'a>,
    stack: &'a [LocationId],
}

/// A frame.
#[derive(Clone, Serialize)]
struct FrameObject<'a> {
    kind: &'static str,
    function: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_line: Option<u32>,
    /// Of a Python function its module, of another one its executable.
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<Cow<'a, str>>,
    /// Address of the instruction in the executable, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    inlined: bool,
}

/// The frames of a profile without their addresses, by their indices in the table.
struct FrameObjects<'a> {
    table: &'a FrameTable<'a>,
    frames: Vec<FrameObject<'a>>,
}

impl<'a> FrameObjects<'a> {
    fn new(table: &'a FrameTable<'a>) -> Self {
        let profile = table.profile();
        let frames = table.frames().map(|frame| FrameObject {
            kind: match frame.kind {
                FrameKind::Python => "python",
                FrameKind::Native => "native",
                FrameKind::Kernel => "kernel",
                FrameKind::Marker => "marker",
            },
            function: &frame.function,
            file: &frame.file,
            line: frame.line.map(u32::from),
            first_line: frame.first_line.map(u32::from),
            module: match (frame.kind, frame.executable) {
                (FrameKind::Python, _) => module(&frame.file).map(Cow::Owned),
                (_, Some(id)) => {
                    let path = executable_path(profile.executable(id));
                    Some(printable(&path).into_owned().into())
                }
                _ => None,
            },
            address: None,
            inlined: frame.is_inlined,
        });
        Self {
            table,
            frames: frames.collect(),
        }
    }
}

impl Serialize for Frames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let FrameObjects { table, frames } = self.objects;
        let of_location = |id: &LocationId| {
            let code = table.profile().location(*id).code;
            let address = code.map(|code| format!("{:#x}", code.address));
            let indices = table.location(*id).iter();
            indices.map(move |index| FrameObject {
                address: address.clone(),
                ..frames[*index as usize].clone()
            })
        };
        serializer.collect_seq(self.stack.iter().flat_map(of_location))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        formats::{
            Format,
            golden::{assert_golden, written},
        },
        profile::{
            fixtures::{example_processes, example_profile, of_kind, with_waits},
            kinds::{page_faults, wall},
        },
    };

    /// The first object and the others.
    fn lines(profile: &Profile) -> (Value, Vec<Value>) {
        let text = String::from_utf8(written(Format::JsonLines, profile, false)).unwrap();
        assert!(text.ends_with('\n'));
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let mut lines: Vec<Value> = lines.collect();
        (lines.remove(0), lines)
    }

    fn sum(lines: &[Value], field: &str) -> u64 {
        lines.iter().map(|line| line[field].as_u64().unwrap()).sum()
    }

    #[test]
    fn lines_add_up_to_the_totals() {
        let profile = example_profile("/srv/app/main.py");
        for profile in [
            example_processes("/srv/app/main.py"),
            of_kind(profile.clone(), &page_faults::KIND),
            profile,
        ] {
            let (head, lines) = lines(&profile);
            assert_eq!(head["stacks"], lines.len());
            for (field, total) in [
                ("samples", profile.total()),
                ("value", profile.total_value()),
            ] {
                assert_eq!(head[field], total);
                assert_eq!(sum(&lines, field), total);
            }
            for line in lines {
                assert_eq!(
                    (&line["event"], &line["unit"]),
                    (&head["event"], &head["unit"])
                );
            }
        }
    }

    #[test]
    fn lines_are_those_of_the_golden_file() {
        let profile = example_profile("/srv/app/main.py");
        let text = String::from_utf8(written(Format::JsonLines, &profile, false)).unwrap();
        let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        assert_golden("example.jsonl", &text);
    }

    #[test]
    fn frames_are_leaf_first_and_say_what_they_are() {
        let (_, lines) = lines(&example_profile("/srv/app/main.py"));
        let fib = &lines[0]["frames"];
        assert_eq!(fib[0]["function"], "fib");
        assert_eq!(fib[0]["line"], 11);
        assert_eq!(fib[0]["first_line"], 7);
        assert_eq!(fib[0]["module"], "main");
        assert_eq!(fib[0]["kind"], "python");
        assert_eq!(fib[0].get("address"), None);
        assert_eq!(fib[4]["function"], "<module>");
        let all = lines
            .iter()
            .flat_map(|line| line["frames"].as_array().unwrap());
        let kernel = all.clone().find(|frame| frame["kind"] == "kernel").unwrap();
        assert!(
            kernel["module"].as_str().unwrap().starts_with('['),
            "{kernel}"
        );
        let native = all.clone().find(|frame| frame["kind"] == "native").unwrap();
        assert!(
            native["address"].as_str().unwrap().starts_with("0x"),
            "{native}"
        );
        assert!(all.clone().any(|frame| frame["inlined"] == true));
    }

    #[test]
    fn what_threads_wait_for_is_a_label() {
        let waits = [(0, "[lock: Pool.jobs (Queue)]"), (1, "[gc]")];
        let profile = with_waits(example_profile(""), &waits);
        let (_, lines) = lines(&of_kind(profile, &wall::KIND));
        let labels = |index: usize| lines[index]["labels"].to_string();
        assert_eq!(labels(0), r#"{"lock":"Pool.jobs (Queue)","wait":"lock"}"#);
        assert_eq!(labels(1), r#"{"gc":true}"#);
        assert_eq!(labels(2), "{}");
    }
}
