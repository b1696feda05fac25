//! Samples of some time → a profile.
//!
//! Samples are counted by the hash of their stack, by thread and by how the walk ended; what a
//! collision of hashes does is told in [`agent_common::hash`]. Stacks that read the same in
//! words, because their frames stand on the same lines, are one stack of the profile.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use agent_common::record::{Frame, Sample, WalkEnd};

use crate::{
    profile::{
        self, FrameKind, Function, FunctionId, Location, LocationId, Losses, Process, Profile,
        Resolved, StackId, Thread, ThreadIndex,
    },
    record::Stack,
};

/// What has been sampled so far.
#[derive(Debug, Default)]
pub struct Aggregator {
    counts: HashMap<Key, u64>,
    stacks: HashMap<u64, Stack>,
    threads: HashMap<u32, String>,
    samples: u64,
    losses: Losses,
}

/// What samples are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    stack: u64,
    tid: u32,
    end: WalkEnd,
}

/// What a profile says about itself.
#[derive(Clone, Debug)]
pub struct About {
    /// When sampling began.
    pub start: SystemTime,
    /// For how long samples were taken.
    pub duration: Duration,
    /// CPU time that one sample stands for.
    pub period: Duration,
    /// The process.
    pub process: Process,
}

impl Aggregator {
    /// Counts a sample.
    pub fn add_sample(&mut self, sample: &Sample) {
        let key = Key {
            stack: sample.stack,
            tid: sample.tid,
            end: sample.end,
        };
        let weight = u64::from(sample.weight);
        *self.counts.entry(key).or_default() += weight;
        self.samples += weight;
    }

    /// Learns a stack that samples refer to.
    pub fn add_stack(&mut self, stack: Stack) {
        self.stacks.insert(stack.hash, stack);
    }

    /// Learns the name of a thread.
    pub fn add_thread(&mut self, tid: u32, name: String) {
        self.threads.insert(tid, name);
    }

    /// Notes a record that could not be understood.
    pub fn add_malformed(&mut self) {
        self.losses.malformed_records += 1;
    }

    /// Sampling periods counted so far.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Makes the profile; `resolve` puts a frame into words.
    ///
    /// What the kernel half itself counted as lost is not known here and left at 0.
    pub fn profile(
        &self,
        about: About,
        mut resolve: impl FnMut(&Frame) -> Option<Resolved>,
    ) -> Profile {
        let mut builder = Builder {
            losses: self.losses,
            ..Builder::default()
        };
        let mut keys: Vec<(&Key, &u64)> = self.counts.iter().collect();
        keys.sort_unstable_by_key(|(key, _)| (key.tid, key.stack, key.end.0));
        let mut counts: HashMap<(StackId, ThreadIndex), u64> = HashMap::new();
        for (key, count) in keys {
            let stack = builder.stack(key, self.stacks.get(&key.stack), *count, &mut resolve);
            let thread = builder.thread(key.tid, self.threads.get(&key.tid));
            *counts.entry((stack, thread)).or_default() += count;
        }
        let mut samples: Vec<profile::Sample> = counts
            .into_iter()
            .map(|((stack, thread), count)| profile::Sample {
                stack,
                thread,
                count,
            })
            .collect();
        samples.sort_unstable_by_key(|sample| (sample.thread, sample.stack));
        Profile {
            start: about.start,
            duration: about.duration,
            period: about.period,
            process: about.process,
            functions: builder.functions,
            locations: builder.locations,
            stacks: builder.stacks,
            threads: builder.threads,
            samples,
            losses: builder.losses,
        }
    }
}

/// Gives equal things of a profile the same index.
#[derive(Default)]
struct Builder {
    functions: Vec<Function>,
    function_ids: HashMap<Function, FunctionId>,
    locations: Vec<Location>,
    location_ids: HashMap<Location, LocationId>,
    stacks: Vec<profile::Stack>,
    stack_ids: HashMap<profile::Stack, StackId>,
    threads: Vec<Thread>,
    thread_indices: HashMap<u32, ThreadIndex>,
    losses: Losses,
}

impl Builder {
    /// The stack that `count` samples had.
    fn stack(
        &mut self,
        key: &Key,
        stack: Option<&Stack>,
        count: u64,
        resolve: &mut impl FnMut(&Frame) -> Option<Resolved>,
    ) -> StackId {
        let mut locations = Vec::new();
        match stack {
            Some(stack) => {
                for (index, frame) in stack.frames.iter().enumerate() {
                    if stack.gap == Some(index) {
                        locations.push(self.marker("[frames left out]"));
                    }
                    locations.push(if let Some(resolved) = resolve(frame) {
                        self.resolved(resolved)
                    } else {
                        self.losses.unresolved_frames += count;
                        self.marker("[function could not be read]")
                    });
                }
                if stack.gap.is_some() {
                    self.losses.truncated += count;
                }
            }
            None if key.stack != 0 => {
                self.losses.incomplete += count;
                locations.push(self.marker("[stack lost]"));
            }
            None => {}
        }
        match key.end {
            WalkEnd::ROOT => {}
            WalkEnd::NO_THREAD_STATE | WalkEnd::NO_FRAME => {
                self.losses.not_python += count;
                locations.push(self.marker("[no Python]"));
            }
            end => {
                self.losses.incomplete += count;
                locations.push(self.marker(incomplete(end)));
            }
        }
        let stack: profile::Stack = locations.into();
        if let Some(id) = self.stack_ids.get(&stack) {
            return *id;
        }
        let id = StackId(index(self.stacks.len()));
        self.stacks.push(stack.clone());
        self.stack_ids.insert(stack, id);
        id
    }

    fn resolved(&mut self, resolved: Resolved) -> LocationId {
        let function = if let Some(id) = self.function_ids.get(&resolved.function) {
            *id
        } else {
            let id = FunctionId(index(self.functions.len()));
            self.functions.push(resolved.function.clone());
            self.function_ids.insert(resolved.function, id);
            id
        };
        let location = Location {
            function,
            line: resolved.line,
        };
        *self.location_ids.entry(location).or_insert_with(|| {
            self.locations.push(location);
            LocationId(index(self.locations.len() - 1))
        })
    }

    /// A frame that says why something is not there.
    fn marker(&mut self, name: &str) -> LocationId {
        self.resolved(Resolved {
            function: Function {
                name: name.to_owned(),
                file: String::new(),
                first_line: None,
                kind: FrameKind::Marker,
            },
            line: None,
        })
    }

    fn thread(&mut self, tid: u32, name: Option<&String>) -> ThreadIndex {
        *self.thread_indices.entry(tid).or_insert_with(|| {
            self.threads.push(Thread {
                tid,
                name: name.cloned().unwrap_or_default(),
            });
            ThreadIndex(index(self.threads.len() - 1))
        })
    }
}

/// The root of a stack whose walk did not reach the root.
fn incomplete(end: WalkEnd) -> &'static str {
    match end {
        WalkEnd::THREAD_FAULT => "[incomplete: the thread's state was not in memory]",
        WalkEnd::FRAME_FAULT => "[incomplete: a frame was not in memory]",
        WalkEnd::BAD_POINTER => "[incomplete: a pointer led nowhere]",
        WalkEnd::CYCLE => "[incomplete: the frames led back to themselves]",
        WalkEnd::TOO_DEEP => "[incomplete: more frames than agent looks at]",
        WalkEnd::TOO_MANY_THREADS => "[incomplete: more threads than agent looks at]",
        WalkEnd::TORN => "[incomplete: the stack was just being changed]",
        _ => "[incomplete]",
    }
}

/// An index as the model has it. A profile cannot have 2^32 of anything: every one of them takes
/// more than a byte of memory.
fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use agent_common::record::{Frame, FrameKind as WireKind, Header, RecordKind, Sample, WalkEnd};

    use super::{About, Aggregator};
    use crate::{
        profile::{FrameKind, Function, Process, Profile, Resolved},
        record::Stack,
    };

    fn sample(stack: u64, tid: u32, weight: u32, end: WalkEnd) -> Sample {
        Sample {
            header: Header {
                kind: RecordKind::SAMPLE,
                reserved: 0,
                bytes: 48,
            },
            time_ns: 0,
            stack,
            tgid: 1,
            tid,
            cpu: 0,
            weight,
            end,
            reserved: [0; 3],
        }
    }

    fn stack(hash: u64, symbols: &[u64], gap: Option<usize>) -> Stack {
        let frame = |symbol: &u64| Frame {
            symbol: *symbol,
            instruction_offset: 0,
            kind: WireKind::PYTHON,
        };
        Stack {
            hash,
            frames: symbols.iter().map(frame).collect(),
            gap,
        }
    }

    /// Symbol 0 has no name, 12 is on the line of 11.
    fn resolve(frame: &Frame) -> Option<Resolved> {
        let symbol = if frame.symbol == 12 { 11 } else { frame.symbol };
        (symbol != 0).then(|| Resolved {
            function: Function {
                name: format!("f{symbol}"),
                file: "app.py".to_owned(),
                first_line: None,
                kind: FrameKind::Python,
            },
            line: None,
        })
    }

    fn profile(aggregator: &Aggregator) -> Profile {
        let about = About {
            start: SystemTime::UNIX_EPOCH,
            duration: Duration::from_secs(1),
            period: Duration::from_millis(10),
            process: Process::default(),
        };
        aggregator.profile(about, resolve)
    }

    /// Stacks as text, leaf first, with their threads and counts.
    fn lines(profile: &Profile) -> Vec<String> {
        let name = |id: &_| profile.location(*id).0.name.as_str();
        profile
            .samples
            .iter()
            .map(|sample| {
                let stack = &profile.stacks[sample.stack.0 as usize];
                let names: Vec<_> = stack.iter().map(name).collect();
                let thread = &profile.threads[sample.thread.0 as usize];
                let (tid, name) = (thread.tid, &thread.name);
                format!("{} {tid} {name} {}", names.join("<"), sample.count)
            })
            .collect()
    }

    #[test]
    fn samples_are_counted_by_stack_and_thread() {
        let mut aggregator = Aggregator::default();
        aggregator.add_stack(stack(1, &[5, 6], None));
        aggregator.add_thread(8, "worker".to_owned());
        for (tid, weight) in [(7, 1), (8, 1), (7, 3)] {
            aggregator.add_sample(&sample(1, tid, weight, WalkEnd::ROOT));
        }
        let profile = profile(&aggregator);
        assert_eq!(lines(&profile), ["f5<f6 7  4", "f5<f6 8 worker 1"]);
        assert_eq!(profile.total(), aggregator.samples());
    }

    #[test]
    fn stacks_that_read_the_same_are_one() {
        let mut aggregator = Aggregator::default();
        for (hash, symbol) in [(1, 11), (2, 12)] {
            aggregator.add_stack(stack(hash, &[symbol], None));
            aggregator.add_sample(&sample(hash, 7, 1, WalkEnd::ROOT));
        }
        assert_eq!(lines(&profile(&aggregator)), ["f11 7  2"]);
    }

    #[test]
    fn what_is_missing_is_marked_and_counted() {
        let mut aggregator = Aggregator::default();
        aggregator.add_stack(stack(1, &[5, 6, 7], Some(2)));
        aggregator.add_stack(stack(2, &[5, 0], None));
        aggregator.add_sample(&sample(1, 1, 1, WalkEnd::ROOT));
        aggregator.add_sample(&sample(2, 2, 2, WalkEnd::FRAME_FAULT));
        aggregator.add_sample(&sample(3, 3, 1, WalkEnd::ROOT));
        aggregator.add_sample(&sample(0, 4, 1, WalkEnd::NO_THREAD_STATE));
        let profile = profile(&aggregator);
        assert_eq!(
            lines(&profile),
            [
                "f5<f6<[frames left out]<f7 1  1",
                "f5<[function could not be read]<[incomplete: a frame was not in memory] 2  2",
                "[stack lost] 3  1",
                "[no Python] 4  1",
            ]
        );
        let losses = profile.losses;
        assert_eq!(losses.truncated, 1);
        assert_eq!(losses.unresolved_frames, 2);
        assert_eq!(losses.incomplete, 3);
        assert_eq!(losses.not_python, 1);
    }
}
