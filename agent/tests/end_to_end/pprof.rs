//! Reads pprof files.

use std::{
    io::Read as _,
    time::{Duration, SystemTime},
};

use flate2::read::GzDecoder;
use prost::Message as _;

use super::{folded::Frame, target::ThreadStack};

pub(crate) use agent::testing::formats::pprof_schema as schema;

/// A profile.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    /// When sampling began.
    pub(crate) start: SystemTime,
    /// The duration of sampling.
    pub(crate) duration: Duration,
    /// Time that one sample stands for.
    pub(crate) period: Duration,
    /// The samples.
    pub(crate) samples: Vec<Sample>,
}

/// A stack of a thread, and its number of samples.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The thread and its stack.
    pub(crate) thread: ThreadStack,
    /// The number of samples.
    pub(crate) count: u64,
    /// Their time.
    pub(crate) time: Duration,
}

impl Profile {
    /// The threads with their stacks, by id; a thread with several stacks has several entries.
    pub(crate) fn threads(&self) -> Vec<ThreadStack> {
        let mut threads: Vec<_> = self
            .samples
            .iter()
            .map(|sample| sample.thread.clone())
            .collect();
        threads.sort();
        threads.dedup();
        threads
    }

    /// Adds the samples of another profile.
    pub(crate) fn add(&mut self, other: Self) {
        self.samples.extend(other.samples);
    }

    /// The number of all samples.
    pub(crate) fn total(&self) -> u64 {
        self.samples.iter().map(|sample| sample.count).sum()
    }
}

/// Reads a file of CPU time, which must be complete, without dangling references.
pub(crate) fn read(file: &[u8]) -> Profile {
    read_times(file, "cpu")
}

/// The same of a file whose second value is this time.
pub(crate) fn read_times(file: &[u8], time: &str) -> Profile {
    let profile = decode(file);
    let types: Vec<_> = profile
        .sample_type
        .iter()
        .map(|kind| (text(&profile, kind.r#type), text(&profile, kind.unit)))
        .collect();
    assert_eq!(types, [("samples", "count"), (time, "nanoseconds")]);
    Profile {
        start: SystemTime::UNIX_EPOCH + nanoseconds(profile.time_nanos),
        duration: nanoseconds(profile.duration_nanos),
        period: nanoseconds(profile.period),
        samples: profile
            .sample
            .iter()
            .map(|sample| read_sample(&profile, sample))
            .collect(),
    }
}

/// Decodes a file.
pub(crate) fn decode(file: &[u8]) -> schema::Profile {
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    schema::Profile::decode(&*bytes).unwrap()
}

fn read_sample(profile: &schema::Profile, sample: &schema::Sample) -> Sample {
    let [count, time_ns] = sample.value[..] else {
        panic!("a sample has {} values", sample.value.len());
    };
    let label = |key| {
        let mut labels = sample.label.iter();
        labels.find(|label| text(profile, label.key) == key)
    };
    let leaf_first = sample.location_id.iter();
    Sample {
        thread: ThreadStack {
            // Profiles of a host have no labels.
            id: label("thread_id").map_or(0, |label| label.num.try_into().unwrap()),
            name: label("thread_name")
                .map_or("", |label| text(profile, label.str))
                .to_owned(),
            stack: leaf_first
                .rev()
                .filter_map(|&id| frame(profile, id))
                .collect(),
        },
        count: count.try_into().unwrap(),
        time: nanoseconds(time_ns),
    }
}

/// A Python frame, or a marker; [`None`] for a frame that has an address, which must be in a
/// mapping.
fn frame(profile: &schema::Profile, id: u64) -> Option<Frame> {
    let mut locations = profile.location.iter();
    let location = locations.find(|location| location.id == id).unwrap();
    if location.address != 0 {
        let mut mappings = profile.mapping.iter();
        assert!(mappings.any(|mapping| mapping.id == location.mapping_id));
        return None;
    }
    let [line] = location.line[..] else {
        panic!("a location has {} lines", location.line.len());
    };
    let mut functions = profile.function.iter();
    let function = functions
        .find(|function| function.id == line.function_id)
        .unwrap();
    let number = u32::try_from(line.line).unwrap();
    let frame = Frame {
        name: text(profile, function.name).to_owned(),
        place: text(profile, function.filename).to_owned(),
        line: (number != 0).then_some(number),
    };
    frame.is_python().then_some(frame)
}

/// A text of a profile.
pub(crate) fn text(profile: &schema::Profile, index: i64) -> &str {
    &profile.string_table[usize::try_from(index).unwrap()]
}

fn nanoseconds(number: i64) -> Duration {
    Duration::from_nanos(number.try_into().unwrap())
}
