//! Builds a profile: equal items of a table have the same index.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, SystemTime},
};

use agent_common::record::{Frame, NativeFrame};
use foldhash::{HashMap, fast::RandomState};
use indexmap::{Equivalent, IndexMap};

use super::{
    interner::{Interner, index},
    unwind_tally::UnwindTally,
};
use crate::{
    profile::{
        Amount, CodeAddress, Executable, ExecutableId, ExecutableKind, FilteredOut, FrameKind,
        Function, FunctionId, Kind, Line, Location, LocationId, Losses, Period, Periods, Process,
        ProcessIndex, Profile, Sample, Sampled, Stack, StackId, TaskIndex, Thread, ThreadIndex,
    },
    symbolize::{NativeFunction, SymbolizeFrames, SymbolizedNativeFrame, SymbolizedPythonFrame},
};

/// Kind, start, duration and sampling period of a profile.
#[derive(Clone, Copy, Debug)]
pub struct ProfileTiming {
    /// What it measures.
    pub kind: &'static Kind,
    /// When sampling began.
    pub start: SystemTime,
    /// For how long samples were taken.
    pub duration: Duration,
    /// Time between two samples.
    pub periods: Periods,
}

impl ProfileTiming {
    /// The same for another kind.
    #[must_use]
    pub fn of_kind(self, kind: &'static Kind) -> Self {
        Self { kind, ..self }
    }

    /// Distance of two samples, in the unit of the kind.
    fn kind_period(&self) -> u64 {
        match self.kind.period {
            Period::Rate => {
                u64::try_from(self.periods.of(self.kind).as_nanos()).unwrap_or(u64::MAX)
            }
            Period::Events(distance) | Period::Bytes(distance) => distance,
        }
    }
}

/// A profile being built.
#[derive(Default)]
pub(super) struct ProfileBuilder {
    executables: Interner<Executable>,
    /// By the address of an executable that [`Self::native_frames`] refers to.
    executable_ids: HashMap<usize, ExecutableId>,
    functions: Interner<Function>,
    locations: Interner<Location>,
    stacks: Interner<Stack>,
    processes: Vec<Process>,
    process_indices: HashMap<u32, ProcessIndex>,
    threads: Vec<Thread>,
    thread_indices: HashMap<(ProcessIndex, u32), ThreadIndex>,
    tasks: Interner<String>,
    counts: BTreeMap<Sampled, Amount>,
    python_locations: HashMap<Frame, Option<LocationId>>,
    native_frames: IndexMap<NativeFrame, NativeFrameEntry, RandomState>,
    /// Statistics of native unwinding so far.
    pub(super) walks: UnwindTally,
    /// Losses so far.
    pub(super) losses: Losses,
}

/// A native or kernel frame that was symbolized.
struct NativeFrameEntry {
    frame: SymbolizedNativeFrame,
    /// Its location, once it is in the profile.
    location: Option<LocationId>,
}

/// Index of a native or kernel frame among those of a builder.
#[derive(Clone, Copy)]
pub(super) struct NativeFrameIndex(usize);

/// A [`Function`] of native code that may be in the profile already.
#[derive(Hash)]
struct FunctionKey<'a> {
    name: &'a str,
    file: &'a str,
    first_line: Option<NonZeroU32>,
    kind: FrameKind,
}

impl Equivalent<Function> for FunctionKey<'_> {
    fn equivalent(&self, function: &Function) -> bool {
        self.kind == function.kind
            && self.name == function.name
            && self.file == function.file
            && self.first_line == function.first_line
    }
}

impl From<&FunctionKey<'_>> for Function {
    fn from(key: &FunctionKey<'_>) -> Self {
        Self {
            name: key.name.to_owned(),
            file: key.file.to_owned(),
            first_line: key.first_line,
            kind: key.kind,
        }
    }
}

impl ProfileBuilder {
    /// Whether nothing has been counted.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The index of the process with this id; `describe` is called if it is new.
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

    /// The index of a stack, leaf first.
    pub(super) fn stack(&mut self, locations: Vec<LocationId>) -> StackId {
        StackId(self.stacks.index(locations.into()))
    }

    /// Counts samples.
    pub(super) fn count(&mut self, sampled: Sampled, amount: Amount) {
        *self.counts.entry(sampled).or_default() += amount;
    }

    /// The index of the name of a task.
    pub(super) fn task(&mut self, name: &str) -> TaskIndex {
        TaskIndex(self.tasks.index_of(name, || name.to_owned()))
    }

    /// Finishes the profile.
    pub(super) fn finish(self, about: ProfileTiming) -> Profile {
        let samples = self.counts.into_iter();
        Profile {
            start: about.start,
            duration: about.duration,
            kind: about.kind,
            period: about.kind_period(),
            labels: BTreeMap::new(),
            processes: self.processes,
            executables: self.executables.into_items(),
            functions: self.functions.into_items(),
            locations: self.locations.into_items(),
            stacks: self.stacks.into_items(),
            threads: self.threads,
            tasks: self.tasks.into_items(),
            samples: samples
                .map(|(sampled, amount)| Sample::new(sampled, amount))
                .collect(),
            timeline: None,
            unwind_stats: self.walks.finish(),
            losses: self.losses,
            filtered_out: FilteredOut::default(),
        }
    }

    /// The location of a Python frame; [`None`] if its code object is not known.
    pub(super) fn python(
        &mut self,
        frame: &Frame,
        symbolizer: &mut impl SymbolizeFrames,
    ) -> Option<LocationId> {
        if let Some(known) = self.python_locations.get(frame) {
            return *known;
        }
        let resolved = symbolizer.python(frame);
        let location = resolved.map(|resolved| self.python_location(resolved));
        self.python_locations.insert(*frame, location);
        location
    }

    fn python_location(&mut self, resolved: SymbolizedPythonFrame) -> LocationId {
        let line = Line {
            function: FunctionId(self.functions.index(resolved.function)),
            line: resolved.line,
        };
        LocationId(self.locations.index(Location {
            lines: [line].into(),
            code: None,
        }))
    }

    /// Symbolizes a native or kernel frame, each once; only [`Self::native`] adds it to the profile.
    pub(super) fn symbolize(
        &mut self,
        tgid: u32,
        frame: &NativeFrame,
        symbolizer: &mut impl SymbolizeFrames,
    ) -> NativeFrameIndex {
        let entry = self.native_frames.entry(*frame);
        let index = NativeFrameIndex(entry.index());
        entry.or_insert_with(|| NativeFrameEntry {
            frame: symbolizer.native(tgid, frame),
            location: None,
        });
        index
    }

    /// A native or kernel frame.
    pub(super) fn symbolized(&self, index: NativeFrameIndex) -> &SymbolizedNativeFrame {
        &self.native_frames[index.0].frame
    }

    /// The location of a native or kernel frame. All code in anonymous memory without a name, that of
    /// a JIT compiler as a rule, is one function at one location.
    pub(super) fn native(&mut self, index: NativeFrameIndex) -> LocationId {
        let entry = &mut self.native_frames[index.0];
        if let Some(location) = entry.location {
            return location;
        }
        let SymbolizedNativeFrame {
            executable,
            address,
            functions,
        } = &entry.frame;
        let mut address = *address;
        let mut functions = functions.as_deref().unwrap_or_default();
        let unnamed;
        if functions.is_empty() && executable.kind == ExecutableKind::Anonymous {
            unnamed = [NativeFunction {
                name: executable.name().as_ref().into(),
                file: None,
                line: None,
            }];
            // Without a name the addresses of such code say nothing, and are others in the next run.
            functions = &unnamed;
            address = 0;
        }
        let kind = if executable.is_kernel() {
            FrameKind::Kernel
        } else {
            FrameKind::Native
        };
        let lines = functions.iter().map(|function| {
            let key = FunctionKey {
                name: &function.name,
                file: function.file.as_deref().unwrap_or_default(),
                first_line: None,
                kind,
            };
            Line {
                function: FunctionId(self.functions.index_of(&key, || (&key).into())),
                line: function.line,
            }
        });
        let executables = &mut self.executables;
        let executable = *self
            .executable_ids
            .entry(Arc::as_ptr(executable) as usize)
            .or_insert_with(|| {
                let model = &**executable;
                ExecutableId(executables.index_of(model, || model.clone()))
            });
        let location = Location {
            lines: lines.collect(),
            code: Some(CodeAddress {
                executable,
                address,
            }),
        };
        let location = LocationId(self.locations.index(location));
        entry.location = Some(location);
        location
    }

    /// The executable of a native or kernel frame.
    pub(super) fn executable(&mut self, index: NativeFrameIndex) -> Option<ExecutableId> {
        let location = self.native(index);
        let code = self.locations.get(location.0).code?;
        Some(code.executable)
    }

    /// The location of a marker, which stands for missing frames.
    pub(super) fn marker(&mut self, name: &str) -> LocationId {
        self.python_location(SymbolizedPythonFrame {
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
