//! Chrome's trace events, which Perfetto and `chrome://tracing` read: the begin and the end of each call.
//!
//! A call lasts from the first of consecutive samples that have it to the last one, whichever line it is at. Whether it
//! returned and was called again between two of them is not known.
//!
//! Source of the format: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.
//!
//! Invariants: events of a thread are in the order of time and properly nested; times are microseconds with
//! three decimals, exact to the nanosecond.

use std::io::{self, Write};

use indexmap::IndexSet;
use serde::{
    Serialize,
    ser::{SerializeSeq, Serializer},
};

use super::{
    chart::Chart,
    folded::NO_FRAMES,
    json,
    shown_frame::{FrameTable, ShownFrame, executable_path},
    thread_stacks::{by_thread, ids, printable_name},
};
use crate::profile::FrameKind;

/// Writes a profile.
pub(super) fn write(table: &FrameTable<'_>, out: &mut dyn Write) -> io::Result<()> {
    let profile = table.profile();
    let document = Document {
        trace_events: Events {
            table,
            chart: Chart::new(profile),
        },
        display_time_unit: "ms",
        other_data: OtherData {
            exporter: json::PROGRAM,
            event: profile.kind.name,
        },
    };
    json::write(&document, out)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    trace_events: Events<'a>,
    display_time_unit: &'a str,
    other_data: OtherData<'a>,
}

#[derive(Serialize)]
struct OtherData<'a> {
    exporter: &'a str,
    event: &'a str,
}

#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'a str>,
    ph: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Arguments<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Arguments<'a> {
    /// Of a process or a thread.
    Named { name: &'a str },
    /// Of a function.
    Source {
        file: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
    },
}

/// A function as its events show it.
struct Call<'a> {
    name: String,
    category: &'a str,
    file: &'a str,
    line: Option<u32>,
}

struct Events<'a> {
    table: &'a FrameTable<'a>,
    chart: Chart,
}

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let profile = self.table.profile();
        let executables: Vec<_> = profile.executables.iter().map(executable_path).collect();
        // Frames at different lines of a function are one call.
        let mut functions = IndexSet::new();
        let frames = self.table.frames().map(|frame| {
            let function = ShownFrame {
                line: None,
                is_inlined: false,
                ..frame.clone()
            };
            u32::try_from(functions.insert_full(function).0).unwrap_or(u32::MAX)
        });
        let frames: Vec<_> = frames.collect();
        let calls = functions.iter().map(|function| Call {
            name: self.table.label(function),
            category: category(function),
            file: match function.executable {
                Some(id) if function.file.is_empty() => &executables[id.0 as usize],
                _ => &function.file,
            },
            line: function.first_line.map(u32::from),
        });
        let no_frames = Call {
            name: NO_FRAMES.to_owned(),
            category: MARKER,
            file: "",
            line: None,
        };
        let calls: Vec<_> = calls.chain([no_frames]).collect();
        let mut events = serializer.serialize_seq(None)?;
        for process in &profile.processes {
            let name = printable_name(&process.name);
            let event = named("process_name", &name, (process.pid, process.pid));
            events.serialize_element(&event)?;
        }
        for thread in by_thread(profile) {
            let (pid, tid) = ids(profile, thread.thread);
            let name = printable_name(&thread.thread.name);
            events.serialize_element(&named("thread_name", &name, (pid, tid)))?;
            let mut open = OpenCalls {
                calls: &calls,
                thread: (pid, tid),
                open: Vec::new(),
            };
            let mut last_ns = 0;
            for span in self.chart.spans(thread.index) {
                if span.begin_ns != last_ns {
                    open.change(last_ns, &[], &mut events)?;
                }
                let stack = self.table.stack(&profile.stacks[span.stack.0 as usize]);
                let mut stack: Vec<_> = stack.iter().map(|frame| frames[*frame as usize]).collect();
                if stack.is_empty() {
                    stack.push(u32::try_from(calls.len() - 1).unwrap_or(u32::MAX));
                }
                open.change(span.begin_ns, &stack, &mut events)?;
                last_ns = span.end_ns;
            }
            open.change(last_ns, &[], &mut events)?;
        }
        events.end()
    }
}

fn named<'a>(event: &'a str, name: &'a str, (pid, tid): (u32, u32)) -> Event<'a> {
    Event {
        name: event,
        cat: None,
        ph: "M",
        ts: None,
        pid,
        tid,
        args: Some(Arguments::Named { name }),
    }
}

/// Category of frames that stand for what threads do, or for frames that are missing.
const MARKER: &str = "marker";

fn category(frame: &ShownFrame<'_>) -> &'static str {
    match frame.kind {
        FrameKind::Python => "python",
        FrameKind::Native => "native",
        FrameKind::Kernel => "kernel",
        FrameKind::Marker => MARKER,
    }
}

/// The calls of a thread that have begun and not ended.
struct OpenCalls<'a> {
    calls: &'a [Call<'a>],
    /// Process and thread.
    thread: (u32, u32),
    /// Indices, the root first.
    open: Vec<u32>,
}

impl OpenCalls<'_> {
    /// Ends and begins calls so that these are open.
    fn change<S: SerializeSeq>(
        &mut self,
        time_ns: u64,
        stack: &[u32],
        events: &mut S,
    ) -> Result<(), S::Error> {
        let open = self.open.iter().zip(stack);
        let common = open.take_while(|(open, wanted)| open == wanted).count();
        for call in self.open[common..].iter().rev() {
            events.serialize_element(&self.event(*call, time_ns, "E"))?;
        }
        self.open.truncate(common);
        for call in &stack[common..] {
            events.serialize_element(&self.event(*call, time_ns, "B"))?;
        }
        self.open.extend(&stack[common..]);
        Ok(())
    }

    fn event(&self, call: u32, time_ns: u64, phase: &'static str) -> Event<'_> {
        let call = &self.calls[call as usize];
        let has_source = phase == "B" && !call.file.is_empty();
        Event {
            name: &call.name,
            cat: Some(call.category),
            ph: phase,
            ts: Some(microseconds(time_ns)),
            pid: self.thread.0,
            tid: self.thread.1,
            args: has_source.then_some(Arguments::Source {
                file: call.file,
                line: call.line,
            }),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits of nanoseconds are a hundred days"
)]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use crate::{
        formats::{
            Format,
            golden::{assert_golden, written},
        },
        profile::{
            Profile,
            fixtures::{example_processes, example_profile, timed},
        },
    };

    fn events(profile: &Profile) -> Vec<Value> {
        let document: Value =
            serde_json::from_slice(&written(Format::Chrome, profile, false)).unwrap();
        document["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn calls_of_a_thread_are_nested_and_in_order() {
        let profile = timed(example_processes("/srv/app/main.py"));
        let mut threads = BTreeMap::<(u64, u64), (Vec<String>, f64, f64)>::new();
        for event in events(&profile) {
            let Some(time) = event["ts"].as_f64() else {
                continue;
            };
            let id = |field: &str| event[field].as_u64().unwrap();
            let (open, last, busy) = threads.entry((id("pid"), id("tid"))).or_default();
            assert!(time >= *last, "{event}");
            if !open.is_empty() {
                *busy += time - *last;
            }
            *last = time;
            let name = event["name"].as_str().unwrap().to_owned();
            match event["ph"].as_str().unwrap() {
                "B" => open.push(name),
                "E" => assert_eq!(open.pop(), Some(name)),
                other => panic!("{other}"),
            }
        }
        assert!(threads.values().all(|(open, ..)| open.is_empty()));
        let busy: f64 = threads.values().map(|(.., busy)| busy).sum();
        let total = Value::from(profile.total_value() / 1_000).as_f64().unwrap();
        assert!((busy - total).abs() < 0.01, "{busy} {total}");
    }

    #[test]
    fn processes_and_threads_are_named() {
        let profile = timed(example_profile("/srv/app/main.py"));
        let names = events(&profile).into_iter().filter(|it| it["ph"] == "M");
        let names: Vec<_> = names.map(|it| it["args"]["name"].clone()).collect();
        assert_eq!(
            names,
            [
                "python3.12",
                "MainThread",
                "worker",
                "worker",
                "# naïve; 线程"
            ]
        );
    }

    #[test]
    fn events_are_those_of_the_golden_file() {
        let profile = timed(example_profile("/srv/app/main.py"));
        let events = events(&profile);
        let first = events.iter().take(60).map(Value::to_string);
        let text = first.collect::<Vec<_>>().join("\n");
        assert_golden("example.trace.json.txt", &text);
    }
}
