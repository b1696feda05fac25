//! A profile in the making: gives equal things the same index.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use agent_common::record::{self as wire, Frame, WalkEnd};

use super::{About, Key};
use crate::{
    profile::{
        FrameKind, Function, FunctionId, LeftOut, Location, LocationId, Losses, Process,
        ProcessIndex, Profile, Resolved, Sample, Stack, StackId, Thread, ThreadIndex,
    },
    record,
};

/// What a profile is made of.
#[derive(Default)]
pub(super) struct Builder {
    functions: Interned<Function>,
    locations: Interned<Location>,
    stacks: Interned<Stack>,
    processes: Vec<Process>,
    process_indices: HashMap<u32, ProcessIndex>,
    threads: Vec<Thread>,
    thread_indices: HashMap<(ProcessIndex, u32), ThreadIndex>,
    counts: BTreeMap<(ThreadIndex, StackId), u64>,
    losses: Losses,
}

impl Builder {
    /// Whether nothing has been counted.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The index of the process with this id; `describe` says what it is when it is new.
    pub(super) fn process(
        &mut self,
        tgid: u32,
        describe: impl FnOnce() -> Process,
    ) -> ProcessIndex {
        *self.process_indices.entry(tgid).or_insert_with(|| {
            self.processes.push(describe());
            ProcessIndex(index(self.processes.len() - 1))
        })
    }

    /// The index of a thread.
    pub(super) fn thread(&mut self, process: ProcessIndex, tid: u32, name: &str) -> ThreadIndex {
        *self
            .thread_indices
            .entry((process, tid))
            .or_insert_with(|| {
                self.threads.push(Thread {
                    process,
                    tid,
                    name: name.to_owned(),
                });
                ThreadIndex(index(self.threads.len() - 1))
            })
    }

    /// The index of the stack that `count` samples had; says what is missing of it.
    pub(super) fn stack(
        &mut self,
        key: &Key,
        stack: Option<&record::Stack>,
        count: u64,
        resolve: &mut impl FnMut(&Frame) -> Option<Resolved>,
    ) -> StackId {
        let mut locations = Vec::new();
        match stack {
            Some(stack) => {
                for (index, frame) in stack.frames.iter().enumerate() {
                    if stack.gap.is_some_and(|gap| gap.after == index) {
                        locations.push(self.marker("[frames left out]"));
                    }
                    if frame.kind == wire::FrameKind::HIDDEN {
                        continue;
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
            WalkEnd::NO_THREAD_STATE | WalkEnd::NO_FRAME | WalkEnd::NO_PYTHON => {
                self.losses.not_python += count;
                locations.push(self.marker("[no Python]"));
            }
            end => {
                self.losses.incomplete += count;
                locations.push(self.marker(incomplete(end)));
            }
        }
        StackId(self.stacks.index(locations.into()))
    }

    /// Counts `count` samples.
    pub(super) fn count(&mut self, stack: StackId, thread: ThreadIndex, count: u64) {
        *self.counts.entry((thread, stack)).or_default() += count;
    }

    /// The profile.
    pub(super) fn finish(self, about: About) -> Profile {
        let samples = self.counts.into_iter();
        Profile {
            start: about.start,
            duration: about.duration,
            period: about.period,
            processes: self.processes,
            functions: self.functions.items,
            locations: self.locations.items,
            stacks: self.stacks.items,
            threads: self.threads,
            samples: samples
                .map(|((thread, stack), count)| Sample {
                    stack,
                    thread,
                    count,
                })
                .collect(),
            losses: self.losses,
            left_out: LeftOut::default(),
        }
    }

    fn resolved(&mut self, resolved: Resolved) -> LocationId {
        LocationId(self.locations.index(Location {
            function: FunctionId(self.functions.index(resolved.function)),
            line: resolved.line,
        }))
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
}

/// Things, each once.
struct Interned<T> {
    items: Vec<T>,
    indices: HashMap<T, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            indices: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Interned<T> {
    fn index(&mut self, item: T) -> u32 {
        if let Some(index) = self.indices.get(&item) {
            return *index;
        }
        let index = index(self.items.len());
        self.items.push(item.clone());
        self.indices.insert(item, index);
        index
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
