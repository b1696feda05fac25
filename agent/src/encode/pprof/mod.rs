//! pprof: protobuf in gzip.
//!
//! What is written is chosen so that every reader gets along with it:
//!
//! - Ids of mappings, functions and locations are 1, 2, 3 …; Parca demands it.
//! - Real images are listed, the executable first, as not symbolized, which they are not. No
//!   location lies in them, so `go tool pprof` neither looks for their files nor warns.
//! - Python frames lie in a mapping of their own. Its name begins with `[`, which stands for "no
//!   file" everywhere, and never contains `python3`, by which Parca's user interface hides an
//!   interpreter's internals.
//! - Python frames have no address. A made-up one would differ from profile to profile, and what
//!   merges profiles (`go tool pprof a b`, Pyroscope) takes locations with equal addresses, lines
//!   and mappings for one.
//! - `system_name` stays empty: a name that equals it is taken for a mangled one, and then
//!   `<module>` and `<lambda>` lose what stands between `<` and `>`.
//! - Names have no control characters in them: `go tool pprof` prints them as they are.
//! - The thread's name is a text label and its id a number under another key. Pyroscope makes a
//!   series of each text label, so there is only this one.

mod schema;
mod strings;

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::{Duration, SystemTime},
};

use flate2::{Compression, GzBuilder};
use prost::Message as _;

use self::strings::Strings;
use super::{losses, text::printable};
use crate::profile::{Process, Profile, Stack};

/// Writes a profile as a pprof file.
pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    // No time stamp in the header: the same profile gives the same bytes.
    let mut gzip = GzBuilder::new().mtime(0).write(out, Compression::best());
    gzip.write_all(&message(profile).encode_to_vec())?;
    gzip.finish()?;
    Ok(())
}

fn message(profile: &Profile) -> schema::Profile {
    let mut strings = Strings::new();
    let samples = schema::ValueType {
        r#type: strings.index("samples"),
        unit: strings.index("count"),
    };
    let cpu = schema::ValueType {
        r#type: strings.index("cpu"),
        unit: strings.index("nanoseconds"),
    };
    let mapping = mappings(&profile.process, &mut strings);
    let python_mapping = mapping.last().map_or(0, |mapping| mapping.id);
    schema::Profile {
        sample_type: vec![samples, cpu],
        sample: sample_messages(profile, &mut strings),
        mapping,
        location: locations(profile, python_mapping),
        function: functions(profile, &mut strings),
        time_nanos: nanoseconds(
            profile
                .start
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default(),
        ),
        duration_nanos: nanoseconds(profile.duration),
        period_type: Some(cpu),
        period: nanoseconds(profile.period),
        comment: comments(profile)
            .iter()
            .map(|comment| strings.index(comment))
            .collect(),
        default_sample_type: cpu.r#type,
        string_table: strings.into_table(),
    }
}

/// The real images, then what Python frames lie in.
fn mappings(process: &Process, strings: &mut Strings) -> Vec<schema::Mapping> {
    let mut mappings = Vec::with_capacity(process.images.len() + 1);
    for (id, image) in (1..).zip(&process.images) {
        mappings.push(schema::Mapping {
            id,
            memory_start: image.start,
            memory_limit: image.end,
            file_offset: image.file_offset,
            filename: strings.index(&printable(&image.path.to_string_lossy())),
            build_id: strings.index(image.build_id.as_deref().unwrap_or_default()),
            ..schema::Mapping::default()
        });
    }
    mappings.push(schema::Mapping {
        id: mappings.len() as u64 + 1,
        filename: strings.index(&python_mapping_name(process)),
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
        ..schema::Mapping::default()
    });
    mappings
}

/// For example `[cpython 3.12.1]`.
fn python_mapping_name(process: &Process) -> String {
    let runtime = match process.runtime.as_str() {
        "" => "python",
        runtime => runtime,
    };
    format!("[{}]", runtime.to_lowercase())
}

fn functions(profile: &Profile, strings: &mut Strings) -> Vec<schema::Function> {
    (1..)
        .zip(&profile.functions)
        .map(|(id, function)| schema::Function {
            id,
            name: strings.index(&printable(&function.name)),
            system_name: 0,
            filename: strings.index(&printable(&function.file)),
            start_line: function.first_line.map_or(0, |line| line.get().into()),
        })
        .collect()
}

fn locations(profile: &Profile, mapping_id: u64) -> Vec<schema::Location> {
    (1..)
        .zip(&profile.locations)
        .map(|(id, location)| schema::Location {
            id,
            mapping_id,
            address: 0,
            line: vec![schema::Line {
                function_id: id_of(location.function.0),
                line: location.line.map_or(0, |line| line.get().into()),
            }],
        })
        .collect()
}

fn sample_messages(profile: &Profile, strings: &mut Strings) -> Vec<schema::Sample> {
    let thread_name = strings.index("thread_name");
    let thread_id = strings.index("thread_id");
    let mut counts = BTreeMap::<(&Stack, u32, &str), u64>::new();
    for sample in &profile.samples {
        let stack = &profile.stacks[sample.stack.0 as usize];
        let thread = &profile.threads[sample.thread.0 as usize];
        *counts.entry((stack, thread.tid, &thread.name)).or_default() += sample.count;
    }
    let mut messages = Vec::with_capacity(counts.len());
    for ((stack, tid, name), count) in counts {
        let cpu_ns = u128::from(count).saturating_mul(profile.period.as_nanos());
        let mut label = vec![schema::Label {
            key: thread_id,
            str: 0,
            num: tid.into(),
        }];
        // An empty text would read as the number 0.
        if !name.is_empty() {
            label.push(schema::Label {
                key: thread_name,
                str: strings.index(&printable(name)),
                num: 0,
            });
        }
        messages.push(schema::Sample {
            location_id: stack.iter().map(|location| id_of(location.0)).collect(),
            value: vec![saturating(count), saturating(cpu_ns)],
            label,
        });
    }
    messages
}

fn comments(profile: &Profile) -> Vec<String> {
    let Process {
        pid, name, runtime, ..
    } = &profile.process;
    let mut comments = vec![
        format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        format!(
            "process {pid} ({}), {}",
            printable(name),
            printable(runtime)
        ),
    ];
    comments.extend(losses::sentences(&profile.losses));
    comments
}

/// The id in the file of what has this index in the profile.
fn id_of(index: u32) -> u64 {
    u64::from(index) + 1
}

fn nanoseconds(duration: Duration) -> i64 {
    saturating(duration.as_nanos())
}

fn saturating(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
