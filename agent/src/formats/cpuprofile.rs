//! The `.cpuprofile` of V8, which Chromium's developer tools, Visual Studio Code and speedscope read: a tree of calls, and
//! samples in the order of time.
//!
//! The format is that of one thread. Where a profile has several, they follow one another, the one with the most time
//! first: each is a frame below the root, and begins at the start of sampling, so that its times count from where the
//! one before ends. Times in which a thread did not run are idle.
//!
//! Without a timeline, or where values are no time of the thread, each distinct stack is one sample that lasts as long as
//! all of its samples together, and equal callers are neighbours: the chart is a flame graph. Where a kind counts
//! events, or bytes, one lasts a microsecond.
//!
//! Source of the format: <https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile>.
//!
//! Invariant: besides the profile, memory is needed for the nodes of the tree, at most one for each frame of each stack.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use indexmap::IndexSet;
use serde::{Serialize, ser::Serializer};

use super::{
    chart::Chart,
    folded::NO_FRAMES,
    json,
    options::EncodeOptions,
    shown_frame::{FrameTable, executable_path},
    thread_stacks::{by_thread, process_title, with_id},
};
use crate::profile::{Amount, Sample, StackId, ThreadIndex, Unit};

/// Writes a profile.
pub(super) fn write(
    table: &FrameTable<'_>,
    options: EncodeOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let profile = table.profile();
    let chart = Chart::of_time(profile);
    let threads = options.threads || chart.is_some() && profile.threads.len() > 1;
    let mut tree = Tree::new(table, threads);
    for sample in &profile.samples {
        tree.add(sample);
    }
    let timeline = match chart {
        Some(chart) => Timeline::of_chart(&mut tree, &chart),
        None => Timeline::of_stacks(&tree, profile.kind.unit),
    };
    let document = Document {
        nodes: Nodes(&tree),
        start_time: 0,
        end_time: timeline.deltas.iter().sum(),
        samples: timeline.samples,
        time_deltas: timeline.deltas,
    };
    json::write(&document, out)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    nodes: Nodes<'a>,
    start_time: u64,
    end_time: u64,
    samples: Vec<usize>,
    time_deltas: Vec<u64>,
}

/// A call with a path of callers.
#[derive(Default)]
struct Node {
    /// Index of its frame.
    frame: usize,
    /// What the samples measured of which it is the leaf.
    own: Amount,
    /// Indices of the nodes that it calls.
    children: Vec<usize>,
}

/// The tree of calls; the first node is its root.
struct Tree<'a> {
    table: &'a FrameTable<'a>,
    /// Whether threads are frames.
    threads: bool,
    /// Frames that are not in the table, such as threads: their indices follow.
    others: IndexSet<String>,
    nodes: Vec<Node>,
    /// Nodes by caller and frame.
    known: HashMap<(usize, usize), usize>,
}

impl<'a> Tree<'a> {
    fn new(table: &'a FrameTable<'a>, threads: bool) -> Self {
        Self {
            table,
            threads,
            others: IndexSet::new(),
            nodes: vec![Node::default()],
            known: HashMap::new(),
        }
    }

    fn add(&mut self, sample: &Sample) {
        let node = self.leaf(sample.thread, sample.stack);
        self.nodes[node].own += sample.amount();
    }

    /// The node of the leaf of a stack.
    fn leaf(&mut self, thread: ThreadIndex, stack: StackId) -> usize {
        let profile = self.table.profile();
        let thread = &profile.threads[thread.0 as usize];
        let mut node = 0;
        if profile.processes.len() > 1 {
            let title = process_title(profile, thread.process.0);
            node = self.other(node, title);
        }
        if self.threads {
            node = self.other(node, with_id(&thread.name, thread.tid));
        }
        let stack = self.table.stack(&profile.stacks[stack.0 as usize]);
        if stack.is_empty() {
            node = self.other(node, NO_FRAMES.to_owned());
        }
        for frame in stack {
            node = self.child(node, frame as usize);
        }
        node
    }

    fn child(&mut self, caller: usize, frame: usize) -> usize {
        let next = self.nodes.len();
        let node = *self.known.entry((caller, frame)).or_insert(next);
        if node == next {
            self.nodes[caller].children.push(node);
            self.nodes.push(Node {
                frame,
                ..Node::default()
            });
        }
        node
    }

    /// The node of times in which a thread did not run, with so many periods more.
    fn idle(&mut self, periods: u64) -> usize {
        let node = self.other(0, IDLE.to_owned());
        self.nodes[node].own.count += periods;
        node
    }

    /// The same of a frame that is not in the table.
    fn other(&mut self, caller: usize, name: String) -> usize {
        let (index, _) = self.others.insert_full(name);
        self.child(caller, self.table.frames().len() + index)
    }
}

/// Name of the node of times in which a thread did not run, by which readers recognize it.
const IDLE: &str = "(idle)";

/// Samples one after the other.
struct Timeline {
    /// Ids of nodes; the last one is that of the root, where the last sample ends.
    samples: Vec<usize>,
    /// Microseconds from the sample before.
    deltas: Vec<u64>,
}

impl Timeline {
    /// The stacks of each thread in the order of time, one thread after the other.
    fn of_chart(tree: &mut Tree<'_>, chart: &Chart) -> Self {
        let profile = tree.table.profile();
        let mut timeline = Self {
            samples: Vec::new(),
            deltas: vec![0],
        };
        let mut elapsed_ns = 0_u64;
        for thread in by_thread(profile) {
            for part in chart.parts(thread.index) {
                let node = match part.stack {
                    Some(stack) => tree.leaf(thread.index, stack),
                    None => tree.idle(part.length_ns / profile.period.max(1)),
                };
                let until_ns = elapsed_ns.saturating_add(part.length_ns);
                timeline.samples.push(id(node));
                // What rounding takes from one, the next one has.
                timeline.deltas.push(until_ns / 1_000 - elapsed_ns / 1_000);
                elapsed_ns = until_ns;
            }
        }
        timeline.samples.push(id(0));
        timeline
    }

    /// The nodes in the order of a walk through the tree.
    fn of_stacks(tree: &Tree<'_>, unit: Unit) -> Self {
        let mut timeline = Self {
            samples: Vec::new(),
            deltas: vec![0],
        };
        let mut elapsed = 0_u64;
        let mut pending = vec![0];
        while let Some(index) = pending.pop() {
            let node = &tree.nodes[index];
            pending.extend(node.children.iter().rev());
            if node.own.value == 0 {
                continue;
            }
            let until = elapsed.saturating_add(node.own.value);
            timeline.samples.push(id(index));
            // What rounding takes from one, the next one has.
            timeline.deltas.push(match unit {
                Unit::Nanoseconds => until / 1_000 - elapsed / 1_000,
                Unit::Events | Unit::Bytes => until - elapsed,
            });
            elapsed = until;
        }
        timeline.samples.push(id(0));
        timeline
    }
}

/// The id of the node with an index.
fn id(index: usize) -> usize {
    index + 1
}

struct Nodes<'a>(&'a Tree<'a>);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeMessage<'a> {
    id: usize,
    call_frame: CallFrame<'a>,
    hit_count: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<usize>,
}

/// A function; lines count from 0, and -1 is none.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallFrame<'a> {
    function_name: &'a str,
    script_id: &'a str,
    url: &'a str,
    line_number: i64,
    column_number: i64,
}

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Tree {
            table,
            others,
            nodes,
            ..
        } = self.0;
        let executables = table.profile().executables.iter();
        let executables: Vec<_> = executables.map(executable_path).collect();
        let no_file = |function_name| CallFrame {
            function_name,
            script_id: "0",
            url: "",
            line_number: -1,
            column_number: -1,
        };
        let mut frames: Vec<_> = table
            .frames()
            .map(|frame| CallFrame {
                url: match frame.executable {
                    Some(id) if frame.file.is_empty() => &executables[id.0 as usize],
                    _ => &frame.file,
                },
                line_number: frame.line.map_or(-1, |line| i64::from(line.get()) - 1),
                ..no_file(&frame.function)
            })
            .collect();
        frames.extend(others.iter().map(|name| no_file(name)));
        let root = no_file("(root)");
        let message = |(index, node): (usize, &Node)| {
            let frame = if index == 0 {
                &root
            } else {
                &frames[node.frame]
            };
            NodeMessage {
                id: id(index),
                call_frame: CallFrame { ..*frame },
                hit_count: node.own.count,
                children: node.children.iter().map(|child| id(*child)).collect(),
            }
        };
        serializer.collect_seq(nodes.iter().enumerate().map(message))
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
            Profile,
            fixtures::{example_processes, example_profile, of_kind, timed},
            kinds::page_faults,
        },
    };

    fn document(profile: &Profile, threads: bool) -> Value {
        serde_json::from_slice(&written(Format::CpuProfile, profile, threads)).unwrap()
    }

    #[test]
    fn stacks_are_a_tree_and_samples() {
        for (name, threads, profile) in [
            ("example", false, example_profile("/srv/app/main.py")),
            ("processes", true, example_processes("/srv/app/main.py")),
        ] {
            let document = document(&profile, threads);
            assert_eq!(document["endTime"], profile.total_value() / 1_000);
            let hits = document["nodes"].as_array().unwrap().iter();
            let hits = hits.filter_map(|node| node["hitCount"].as_u64());
            assert_eq!(hits.sum::<u64>(), profile.total());
            let text = serde_json::to_string_pretty(&document).unwrap();
            assert_golden(&format!("{name}.cpuprofile"), &text);
        }
    }

    #[test]
    fn threads_follow_one_another_in_time() {
        let profile = timed(example_profile("/srv/app/main.py"));
        let document = document(&profile, false);
        let nodes = document["nodes"].as_array().unwrap();
        let idle = nodes
            .iter()
            .find(|node| node["callFrame"]["functionName"] == IDLE);
        let idle = &idle.unwrap()["id"];
        let samples = document["samples"].as_array().unwrap().iter();
        let deltas = document["timeDeltas"].as_array().unwrap().iter().skip(1);
        let deltas = deltas.filter_map(Value::as_u64);
        let (idle, busy): (Vec<_>, Vec<_>) = samples.zip(deltas).partition(|(id, _)| *id == idle);
        let sum = |of: Vec<(&Value, u64)>| of.iter().map(|(_, delta)| delta).sum::<u64>();
        let (idle, busy) = (sum(idle), sum(busy));
        assert_eq!(busy, profile.total_value() / 1_000);
        assert!(idle > 0);
        assert_eq!(document["endTime"], idle + busy);
        let text = serde_json::to_string_pretty(&document).unwrap();
        assert_golden("example.timed.cpuprofile", &text);
    }

    #[test]
    fn rounding_loses_no_time() {
        let mut profile = example_profile("/srv/app/main.py");
        for sample in &mut profile.samples {
            sample.value = 1_999;
        }
        let end = &document(&profile, false)["endTime"];
        assert_eq!(*end, profile.total_value() / 1_000);
    }

    #[test]
    fn an_event_is_a_microsecond() {
        let profile = of_kind(example_profile("/srv/app/main.py"), &page_faults::KIND);
        assert_eq!(document(&profile, false)["endTime"], profile.total_value());
    }
}
