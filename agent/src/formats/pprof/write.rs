//! Writes a profile as a pprof file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::{self, Write},
    time::{Duration, SystemTime},
};

use flate2::{Compression, GzBuilder};
use prost::Message as _;

use super::{
    mappings::Mappings,
    names::{
        BLOCKS, EVENT, EXCEPTION, GC, LABEL, LOCK, MEMORY, PERIOD_NS, PROCESS, PROCESS_ID,
        PROCESS_NAME, PROCESSES, TASK, THREAD_ID, THREAD_NAME, TRUE, WAIT,
    },
    schema,
    string_table::StringTable,
};
use crate::{
    formats::{function_names::FunctionNames, losses, options::EncodeOptions},
    profile::{
        Amount, FunctionId, LeafMarkers, LocationId, Process, ProcessIndex, Profile, SampleType,
    },
    text::printable,
};

/// Most processes with a comment of their own; the others are counted in one comment.
const PROCESS_COMMENTS: usize = 10;

/// Writes a profile as a pprof file.
pub fn write(profile: &Profile, options: EncodeOptions, out: &mut dyn Write) -> io::Result<()> {
    // No time stamp in the header: the same profile gives the same bytes.
    let mut gzip = GzBuilder::new().mtime(0).write(out, Compression::default());
    gzip.write_all(&message(profile, options).encode_to_vec())?;
    gzip.finish()?;
    Ok(())
}

fn message(profile: &Profile, options: EncodeOptions) -> schema::Profile {
    let mut strings = StringTable::new();
    let kind = profile.kind;
    let names = kind.names_in(options.type_naming);
    let sample_types = names.sample_types.iter();
    let sample_types: Vec<_> = sample_types
        .map(|of| value_type(of, &mut strings))
        .collect();
    let period_type = value_type(&names.period_type, &mut strings);
    let default_type = sample_types.get(kind.default_type);
    let default_sample_type = default_type.map_or(0, |of| of.r#type);
    let mappings = Mappings::new(profile, &mut strings);
    let location_ids = LocationIds::new(profile, &mappings);
    schema::Profile {
        sample_type: sample_types,
        sample: if options.without_labels {
            plain_sample_messages(profile, &mappings, &location_ids)
        } else {
            sample_messages(profile, &mappings, &location_ids, &mut strings)
        },
        location: location_ids.messages(profile),
        mapping: mappings.into_messages(),
        function: functions(profile, options.function_names, &mut strings),
        time_nanos: nanoseconds(
            profile
                .start
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default(),
        ),
        duration_nanos: nanoseconds(profile.duration),
        period_type: Some(period_type),
        period: saturating(profile.period_as(&names.period_type)),
        comment: comments(profile)
            .iter()
            .map(|comment| strings.index(comment))
            .collect(),
        default_sample_type,
        string_table: strings.into_table(),
    }
}

fn value_type(of: &SampleType, strings: &mut StringTable) -> schema::ValueType {
    schema::ValueType {
        r#type: strings.index(of.name),
        unit: strings.index(of.unit),
    }
}

fn functions(
    profile: &Profile,
    function_names: FunctionNames,
    strings: &mut StringTable,
) -> Vec<schema::Function> {
    let names = function_names.of(profile);
    (0..)
        .zip(&profile.functions)
        .map(|(index, function)| {
            let name = names.get(FunctionId(index));
            let is_plain = name == function.name;
            schema::Function {
                id: u64::from(index) + 1,
                name: strings.index(&printable(name)),
                system_name: if is_plain {
                    0
                } else {
                    strings.index(&printable(&function.name))
                },
                filename: strings.index(&printable(&function.file)),
                start_line: function.first_line.map_or(0, |line| line.get().into()),
            }
        })
        .collect()
}

/// Ids of locations in the file: one for each mapping that a location is used in.
struct LocationIds {
    ids: BTreeMap<MappedLocation, u64>,
}

/// Id of a mapping, and a location.
type MappedLocation = (u64, LocationId);

impl LocationIds {
    fn new(profile: &Profile, mappings: &Mappings) -> Self {
        let mut location_ids = BTreeSet::new();
        for sample in &profile.samples {
            let process = profile.process_of(sample);
            let stack = &profile.stacks[sample.stack.0 as usize];
            location_ids.extend(stack.iter().map(|&id| {
                let mapping = mappings.of(profile.location(id), process);
                (mapping, id)
            }));
        }
        Self {
            ids: location_ids.into_iter().zip(1..).collect(),
        }
    }

    /// The id of a location in a mapping.
    fn id(&self, mapping: u64, location: LocationId) -> u64 {
        self.ids.get(&(mapping, location)).copied().unwrap_or(0)
    }

    fn messages(&self, profile: &Profile) -> Vec<schema::Location> {
        self.ids
            .iter()
            .map(|(&(mapping_id, location), &id)| {
                let location = profile.location(location);
                let lines = location.lines.iter().map(|line| schema::Line {
                    function_id: u64::from(line.function.0) + 1,
                    line: line.line.map_or(0, |line| line.get().into()),
                });
                schema::Location {
                    id,
                    mapping_id,
                    address: location.code.map_or(0, |code| code.address),
                    line: lines.collect(),
                }
            })
            .collect()
    }
}

/// Samples without labels.
fn plain_sample_messages(
    profile: &Profile,
    mappings: &Mappings,
    location_ids: &LocationIds,
) -> Vec<schema::Sample> {
    let mut counts = BTreeMap::<Vec<u64>, Amount>::new();
    for sample in &profile.samples {
        let process = profile.process_of(sample);
        let place = |&id: &LocationId| {
            let mapping = mappings.of(profile.location(id), process);
            location_ids.id(mapping, id)
        };
        let stack = &profile.stacks[sample.stack.0 as usize];
        // Sorted by callers, as below.
        let stack = stack.iter().rev().map(place).collect();
        *counts.entry(stack).or_default() += sample.amount();
    }
    let message = |(stack, amount): (Vec<u64>, Amount)| schema::Sample {
        location_id: stack.into_iter().rev().collect(),
        value: values(profile, amount),
        label: Vec::new(),
    };
    counts.into_iter().map(message).collect()
}

/// The values of a sample, one for each sample type.
fn values(profile: &Profile, amount: Amount) -> Vec<i64> {
    let types = profile.kind.names.sample_types.iter();
    types.map(|of| saturating(amount.get(of.source))).collect()
}

/// What equal samples measured together, and what the markers of their stack say of their thread.
#[derive(Default)]
struct MarkedAmount<'a> {
    markers: LeafMarkers<'a>,
    amount: Amount,
}

/// Process, stack from its root, thread id, name of the thread, and task.
type SampleOrder<'a> = (ProcessIndex, Vec<LocationId>, u32, &'a str, Option<&'a str>);

fn sample_messages(
    profile: &Profile,
    mappings: &Mappings,
    location_ids: &LocationIds,
    strings: &mut StringTable,
) -> Vec<schema::Sample> {
    // What a thread waits for, for which lock, and whom it blocks, follows from the stack.
    let mut counts = BTreeMap::<SampleOrder<'_>, MarkedAmount>::new();
    for sample in &profile.samples {
        let stack = &profile.stacks[sample.stack.0 as usize];
        // Sorted by callers: neighbours share a prefix, which compresses well.
        let stack = stack.iter().rev().copied().collect();
        let thread = &profile.threads[sample.thread.0 as usize];
        let task = profile.task_of(sample);
        let key = (thread.process, stack, thread.tid, &*thread.name, task);
        let counted = counts.entry(key).or_default();
        counted.markers = profile.leaf_markers(sample);
        counted.amount += sample.amount();
    }
    let mut messages = Vec::with_capacity(counts.len());
    for ((process, stack, tid, thread_name, task), MarkedAmount { markers, amount }) in counts {
        let place = |&id: &LocationId| {
            let mapping = mappings.of(profile.location(id), process);
            location_ids.id(mapping, id)
        };
        let mut label = Vec::new();
        number_label(&mut label, THREAD_ID, tid, strings);
        text_label(&mut label, THREAD_NAME, thread_name, strings);
        if let Some(task) = task {
            text_label(&mut label, TASK, task, strings);
        }
        if let Some(wait) = markers.wait {
            text_label(&mut label, WAIT, wait.label(), strings);
        }
        if let Some(lock) = markers.lock {
            text_label(&mut label, LOCK, lock, strings);
        }
        if let Some(thread) = markers.blocks {
            text_label(&mut label, BLOCKS, thread, strings);
        }
        if markers.collects_garbage {
            text_label(&mut label, GC, TRUE, strings);
        }
        if let Some(memory) = markers.memory {
            text_label(&mut label, MEMORY, memory.label(), strings);
        }
        if let Some(class) = markers.exception {
            text_label(&mut label, EXCEPTION, class, strings);
        }
        if profile.processes.len() > 1 {
            let process = &profile.processes[process.0 as usize];
            number_label(&mut label, PROCESS_ID, process.pid, strings);
            text_label(&mut label, PROCESS_NAME, &process.name, strings);
        }
        messages.push(schema::Sample {
            location_id: stack.iter().rev().map(place).collect(),
            value: values(profile, amount),
            label,
        });
    }
    messages
}

/// Adds a numeric label, unless it is 0, which stands for several processes or threads.
fn number_label(
    labels: &mut Vec<schema::Label>,
    key: &str,
    number: u32,
    strings: &mut StringTable,
) {
    if number != 0 {
        labels.push(schema::Label {
            key: strings.index(key),
            str: 0,
            num: number.into(),
        });
    }
}

/// Adds a string label, unless it is empty, which would decode as the number 0.
fn text_label(labels: &mut Vec<schema::Label>, key: &str, text: &str, strings: &mut StringTable) {
    if !text.is_empty() {
        labels.push(schema::Label {
            key: strings.index(key),
            str: strings.index(&printable(text)),
            num: 0,
        });
    }
}

/// Comments: the agent's version, labels, processes and losses.
fn comments(profile: &Profile) -> Vec<String> {
    let agent = format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let mut comments = vec![agent];
    let labels = profile.labels.iter();
    comments.extend(labels.map(|(name, value)| {
        let (name, value) = (printable(name), printable(value));
        format!("{LABEL}{name}={value}")
    }));
    if profile.kind.is_named_as_in_go() {
        comments.push(format!("{EVENT}{}", profile.kind.name));
        comments.push(format!("{PERIOD_NS}{}", profile.period));
    }
    let processes = &profile.processes;
    let named = processes.iter().take(PROCESS_COMMENTS);
    comments.extend(named.map(process_comment));
    match processes.len().saturating_sub(PROCESS_COMMENTS) {
        0 => {}
        1 => comments.push("and 1 more process".to_owned()),
        more => comments.push(format!("and {more} more processes")),
    }
    comments.extend(losses::sentences(&profile.filtered_out, &profile.losses));
    comments
}

fn process_comment(process: &Process) -> String {
    let name = printable(&process.name);
    let mut comment = match process.pid {
        0 => format!("{PROCESSES}({name})"),
        pid => format!("{PROCESS}{pid} ({name})"),
    };
    if !process.runtime.is_empty() {
        let _ = write!(comment, ", {}", printable(&process.runtime));
    }
    comment
}

fn nanoseconds(duration: Duration) -> i64 {
    saturating(duration.as_nanos())
}

fn saturating(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
