//! speedscope's own format: a profile of each thread, which the page has in its menu of threads.
//!
//! A box is `name (file:line)`, or the name with the executable; the full path and the line are in fields of
//! their own. Weights are nanoseconds, or events. Samples are in the order of time, and where a thread did not
//! run its stack is empty. Without a timeline, or where values are no time of the thread, they are in the order of their
//! callers, so that the page's time order shows the merged stacks.
//!
//! Source of the format: <https://www.speedscope.app/file-format-schema.json>.
//!
//! Invariant: besides the profile itself, memory is needed for the distinct frames and for the stacks of
//! one thread.

use std::io::{self, Write};

use serde::{
    Serialize,
    ser::{SerializeStruct as _, Serializer},
};

use super::{
    chart::Chart,
    folded::NO_FRAMES,
    json,
    shown_frame::{FrameTable, ShownFrame, executable_path},
    thread_stacks::{MeasuredStack, ThreadSamples, by_thread, process_title},
};
use crate::profile::{Profile, ThreadIndex, Unit};

/// Address of the format's schema, by which it is recognized.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes a profile.
pub(super) fn write(table: &FrameTable<'_>, out: &mut dyn Write) -> io::Result<()> {
    let profile = table.profile();
    let threads = by_thread(profile);
    let chart = Chart::of_time(profile);
    let document = Document {
        schema: SCHEMA,
        exporter: json::PROGRAM,
        name: title(profile),
        active_profile_index: 0,
        shared: Shared {
            frames: Frames(table),
        },
        profiles: threads
            .iter()
            .map(|thread| ThreadProfile {
                table,
                chart: chart.as_ref(),
                thread,
            })
            .collect(),
    };
    json::write(&document, out)
}

/// What was measured, and of what.
fn title(profile: &Profile) -> String {
    let kind = profile.kind.name;
    match profile.processes.len() {
        0 => kind.to_owned(),
        1 => format!("{kind}, {}", process_title(profile, 0)),
        processes => format!("{kind}, {processes} processes"),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    exporter: &'a str,
    name: String,
    active_profile_index: usize,
    shared: Shared<'a>,
    profiles: Vec<ThreadProfile<'a>>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Frames<'a>,
}

/// The frames, and after them one for stacks without frames.
struct Frames<'a>(&'a FrameTable<'a>);

#[derive(Serialize)]
struct Frame<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

impl Serialize for Frames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let profile = self.0.profile();
        let executables: Vec<_> = profile.executables.iter().map(executable_path).collect();
        let file = |frame: &'_ ShownFrame<'_>| match frame.executable {
            Some(id) if frame.file.is_empty() => Some(&*executables[id.0 as usize]),
            _ => None,
        };
        let frames = self.0.frames().map(|frame| Frame {
            name: self.0.label(frame),
            file: file(frame).or(Some(&*frame.file).filter(|file| !file.is_empty())),
            line: frame.line.map(u32::from),
        });
        let no_frames = Frame {
            name: NO_FRAMES.to_owned(),
            file: None,
            line: None,
        };
        serializer.collect_seq(frames.chain([no_frames]))
    }
}

/// The profile of a thread.
struct ThreadProfile<'a> {
    table: &'a FrameTable<'a>,
    chart: Option<&'a Chart>,
    thread: &'a ThreadSamples<'a>,
}

impl Serialize for ThreadProfile<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let profile = self.table.profile();
        let mut fields = serializer.serialize_struct("Profile", 7)?;
        fields.serialize_field("type", "sampled")?;
        fields.serialize_field("name", &self.thread.title(profile))?;
        fields.serialize_field("unit", unit(profile.kind.unit))?;
        fields.serialize_field("startValue", &0)?;
        let no_frames = u32::try_from(self.table.frames().len()).unwrap_or(u32::MAX);
        if let Some(chart) = self.chart {
            let timed = TimedStacks {
                table: self.table,
                chart,
                thread: self.thread.index,
                no_frames,
            };
            fields.serialize_field("endValue", &chart.end_ns(timed.thread))?;
            fields.serialize_field("samples", &timed)?;
            let weights = chart.parts(timed.thread).map(|part| part.length_ns);
            fields.serialize_field("weights", &weights.collect::<Vec<_>>())?;
            return fields.end();
        }
        fields.serialize_field("endValue", &self.thread.total())?;
        let stacks = self.thread.stacks(self.table);
        let samples = Samples {
            stacks: &stacks,
            no_frames: [no_frames],
        };
        fields.serialize_field("samples", &samples)?;
        fields.serialize_field("weights", &Weights(&stacks))?;
        fields.end()
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "nanoseconds",
        Unit::Events => "none",
        Unit::Bytes => "bytes",
    }
}

/// The stacks of a thread in the order of time.
struct TimedStacks<'a> {
    table: &'a FrameTable<'a>,
    chart: &'a Chart,
    thread: ThreadIndex,
    /// The frame of a stack without frames; only times in which the thread did not run have none.
    no_frames: u32,
}

impl Serialize for TimedStacks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stacks = &self.table.profile().stacks;
        let parts = self.chart.parts(self.thread).map(|part| match part.stack {
            None => Vec::new(),
            Some(stack) => match self.table.stack(&stacks[stack.0 as usize]) {
                stack if stack.is_empty() => vec![self.no_frames],
                stack => stack,
            },
        });
        serializer.collect_seq(parts)
    }
}

struct Samples<'a> {
    stacks: &'a [MeasuredStack],
    /// The stack of a sample without frames.
    no_frames: [u32; 1],
}

impl Serialize for Samples<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stacks = self.stacks.iter().map(|(stack, _)| match &**stack {
            [] => &self.no_frames[..],
            stack => stack,
        });
        serializer.collect_seq(stacks)
    }
}

struct Weights<'a>(&'a [MeasuredStack]);

impl Serialize for Weights<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(_, amount)| amount.value))
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
            fixtures::{PERIOD_NS, example_processes, example_profile, of_kind, timed},
            kinds::{gil, page_faults},
        },
    };

    fn document(profile: &Profile) -> Value {
        serde_json::from_slice(&written(Format::Speedscope, profile, false)).unwrap()
    }

    fn totals(document: &Value) -> (u64, u64) {
        let profiles = document["profiles"].as_array().unwrap().iter();
        let end: u64 = profiles
            .clone()
            .filter_map(|it| it["endValue"].as_u64())
            .sum();
        let weights = profiles.flat_map(|it| it["weights"].as_array().unwrap());
        (end, weights.filter_map(Value::as_u64).sum())
    }

    #[test]
    fn each_thread_has_a_profile() {
        for (name, profile) in [
            ("example", example_profile("/srv/app/main.py")),
            ("processes", example_processes("/srv/app/main.py")),
        ] {
            let document = document(&profile);
            let expected = profile.total_value();
            assert_eq!(totals(&document), (expected, expected));
            let text = serde_json::to_string_pretty(&document).unwrap();
            let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
            assert_golden(&format!("{name}.speedscope.json"), &text);
        }
    }

    #[test]
    fn samples_are_in_the_order_of_time() {
        let profile = timed(example_profile("/srv/app/main.py"));
        let document = document(&profile);
        let thread = &document["profiles"][3];
        // Nine samples of one stack, three of another and one of a third, in turns of at most four.
        let stacks = thread["samples"].as_array().unwrap();
        let is_gap = |stack: &Value| stack.as_array().is_some_and(Vec::is_empty);
        let shown: Vec<_> = stacks.iter().map(is_gap).collect();
        assert_eq!(shown, [false, false, false, true, false, true, false]);
        let periods: Vec<_> = [4, 3, 1, 10, 4, 10, 1].map(|it| it * PERIOD_NS).into();
        assert_eq!(thread["weights"], serde_json::json!(periods));
        assert_eq!(thread["endValue"], 33 * PERIOD_NS);
    }

    #[test]
    fn weights_have_the_unit_of_the_kind() {
        let profile = example_profile("/srv/app/main.py");
        for (kind, unit) in [(&gil::KIND, "nanoseconds"), (&page_faults::KIND, "none")] {
            let profile = of_kind(profile.clone(), kind);
            let document = document(&profile);
            assert_eq!(document["profiles"][0]["unit"], unit);
            assert_eq!(totals(&document).1, profile.total_value());
        }
    }

    #[test]
    fn a_stack_without_frames_has_a_frame() {
        let mut profile = example_profile("/srv/app/main.py");
        profile.stacks[0] = Box::from([]);
        let document = document(&profile);
        let stacks = document["profiles"][0]["samples"].as_array().unwrap();
        let frame = stacks[0][0].as_u64().unwrap();
        let frame = &document["shared"]["frames"][usize::try_from(frame).unwrap()];
        assert_eq!(frame["name"], "[no frames]");
    }
}
