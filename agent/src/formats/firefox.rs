//! The processed profile of the Firefox Profiler, <https://profiler.firefox.com>: the samples of each thread, with
//! categories by the kind of their functions.
//!
//! The viewer shows a stack until the next sample of its thread: where the thread did not run, a sample without a
//! stack ends it. Weights are sampling periods, or bytes.
//!
//! Invariant: besides the profile itself, memory is needed for a copy of the stacks and samples of all threads.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use fxprof_processed_profile as processed;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, ReferenceTimestamp,
    SamplingInterval, StackHandle, StringHandle, ThreadHandle, Timestamp, WeightType,
};

use super::{
    chart::Chart,
    folded::NO_FRAMES,
    json,
    shown_frame::FrameTable,
    thread_stacks::{ThreadSamples, by_thread, process_title, with_id},
};
use crate::profile::{FrameKind, Profile, StackId, Unit};

/// Period that is said of profiles whose samples are not taken in periods.
const NO_PERIOD_NS: u64 = 1_000_000;

/// Writes a profile.
pub(super) fn write(table: &FrameTable<'_>, out: &mut dyn Write) -> io::Result<()> {
    json::write(&Writer::new(table).finish(), out)
}

struct Writer<'a> {
    table: &'a FrameTable<'a>,
    chart: Chart,
    out: processed::Profile,
    /// Label and category of each frame, and after them those of stacks without frames.
    frames: Vec<(StringHandle, CategoryHandle)>,
}

impl<'a> Writer<'a> {
    fn new(table: &'a FrameTable<'a>) -> Self {
        let profile = table.profile();
        let interval = match profile.kind.unit {
            Unit::Nanoseconds => profile.period.max(1),
            Unit::Events | Unit::Bytes => NO_PERIOD_NS,
        };
        let mut out = processed::Profile::new(
            &product(profile),
            ReferenceTimestamp::from_system_time(profile.start),
            SamplingInterval::from_nanos(interval),
        );
        out.set_os_name("Linux");
        // All names are in the file.
        out.set_symbolicated(true);
        let python = out.add_category("Python", CategoryColor::Yellow);
        let native = out.add_category("Native", CategoryColor::Blue);
        let kernel = out.add_category("Kernel", CategoryColor::Orange);
        let mut frames: Vec<_> = table
            .frames()
            .map(|frame| {
                let category = match frame.kind {
                    FrameKind::Python => python,
                    FrameKind::Native => native,
                    FrameKind::Kernel => kernel,
                    FrameKind::Marker => CategoryHandle::OTHER,
                };
                (out.intern_string(&table.label(frame)), category)
            })
            .collect();
        frames.push((out.intern_string(NO_FRAMES), CategoryHandle::OTHER));
        Self {
            table,
            chart: Chart::new(profile),
            out,
            frames,
        }
    }

    fn finish(mut self) -> processed::Profile {
        let profile = self.table.profile();
        let start = Timestamp::from_nanos_since_reference(0);
        let processes: Vec<_> = (0..)
            .zip(&profile.processes)
            .map(|(index, process)| {
                let title = process_title(profile, index);
                self.out.add_process(&title, process.pid, start)
            })
            .collect();
        for (nth, samples) in by_thread(profile).iter().enumerate() {
            let process = processes[samples.thread.process.0 as usize];
            // The name of a main thread would be that of its process.
            let thread = self
                .out
                .add_thread(process, samples.thread.tid, start, false);
            let name = with_id(&samples.thread.name, samples.thread.tid);
            self.out.set_thread_name(thread, &name);
            if profile.kind.unit == Unit::Bytes {
                self.out
                    .set_thread_samples_weight_type(thread, WeightType::Bytes);
            }
            if nth == 0 {
                self.out.add_initial_visible_thread(thread);
                self.out.add_initial_selected_thread(thread);
            }
            self.add_samples(thread, samples);
        }
        self.out
    }

    fn add_samples(&mut self, thread: ThreadHandle, samples: &ThreadSamples<'_>) {
        let mut stacks = HashMap::<StackId, Option<StackHandle>>::new();
        let mut weights = Weights::new(self.table.profile());
        let mut busy = CpuDelta::ZERO;
        let mut last_ns = 0;
        for span in self.chart.spans(samples.index) {
            if span.begin_ns != last_ns {
                let ended = Timestamp::from_nanos_since_reference(last_ns);
                self.out.add_sample(thread, ended, None, busy, 0);
                busy = CpuDelta::ZERO;
            }
            let stack = *stacks.entry(span.stack).or_insert_with(|| {
                let stack = &self.table.profile().stacks[span.stack.0 as usize];
                intern(
                    &mut self.out,
                    thread,
                    &self.frames,
                    &self.table.stack(stack),
                )
            });
            let begin = Timestamp::from_nanos_since_reference(span.begin_ns);
            let weight = weights.next(span.value);
            self.out.add_sample(thread, begin, stack, busy, weight);
            // Time since the sample before, as the viewer draws it.
            busy = CpuDelta::from_nanos(span.end_ns - span.begin_ns);
            last_ns = span.end_ns;
        }
        let ended = Timestamp::from_nanos_since_reference(last_ns);
        self.out.add_sample(thread, ended, None, busy, 0);
    }
}

/// A stack of frames with these indices, the root first; labels and categories are in `frames`.
fn intern(
    out: &mut processed::Profile,
    thread: ThreadHandle,
    frames: &[(StringHandle, CategoryHandle)],
    stack: &[u32],
) -> Option<StackHandle> {
    let of_frame = |(label, category): (StringHandle, CategoryHandle)| FrameInfo {
        frame: Frame::Label(label),
        category_pair: category.into(),
        flags: FrameFlags::empty(),
    };
    let known = stack.iter().map(|index| frames[*index as usize]);
    let no_frames = stack.is_empty().then(|| frames.last().copied()).flatten();
    out.intern_stack_frames(thread, known.chain(no_frames).map(of_frame))
}

/// What was measured, and of what.
fn product(profile: &Profile) -> String {
    format!("agent, {}", profile.kind.name)
}

/// Weights of the samples of a thread, which are whole numbers.
struct Weights {
    /// What a weight of 1 is, in the unit of the kind.
    one: u64,
    remainder: u64,
}

impl Weights {
    fn new(profile: &Profile) -> Self {
        Self {
            one: match profile.kind.unit {
                Unit::Nanoseconds => profile.period.max(1),
                Unit::Events | Unit::Bytes => 1,
            },
            remainder: 0,
        }
    }

    /// The weight of the next sample; what is left of it has the one after that.
    fn next(&mut self, value: u64) -> i32 {
        let value = value.saturating_add(self.remainder);
        self.remainder = value % self.one;
        i32::try_from(value / self.one).unwrap_or(i32::MAX)
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
            fixtures::{example_processes, example_profile, of_kind, timed},
            kinds::growth,
        },
    };

    fn document(profile: &Profile) -> Value {
        serde_json::from_slice(&written(Format::Firefox, profile, false)).unwrap()
    }

    fn weights(document: &Value) -> u64 {
        let threads = document["threads"].as_array().unwrap().iter();
        let weights = threads.flat_map(|it| it["samples"]["weight"].as_array().unwrap());
        weights.filter_map(Value::as_u64).sum()
    }

    #[test]
    fn each_thread_has_its_samples() {
        let profile = timed(example_processes("/srv/app/main.py"));
        let document = document(&profile);
        assert_eq!(weights(&document), profile.total());
        let threads = document["threads"].as_array().unwrap();
        assert_eq!(threads.len(), by_thread(&profile).len());
    }

    #[test]
    fn the_first_stacks_are_those_of_the_golden_file() {
        let document = document(&timed(example_profile("/srv/app/main.py")));
        let thread = &document["threads"][0];
        let shown = serde_json::json!({
            "categories": document["meta"]["categories"],
            "name": thread["name"],
            "funcs": thread["funcTable"]["name"],
            "frames": thread["frameTable"]["func"],
            "frame categories": thread["frameTable"]["category"],
            "stacks": thread["stackTable"],
            "strings": thread["stringArray"],
        });
        let text = serde_json::to_string_pretty(&shown).unwrap();
        assert_golden("example.firefox.json.txt", &text);
    }

    #[test]
    fn bytes_are_weights() {
        let profile = timed(of_kind(example_profile("/srv/app/main.py"), &growth::KIND));
        let document = document(&profile);
        assert_eq!(document["threads"][0]["samples"]["weightType"], "bytes");
        assert_eq!(weights(&document), profile.total_value());
    }
}
