//! Merges profiles: samples of equal stacks of a thread are added up.
//!
//! Counts and values are exact sums. The agent may lower its rate, so periods may differ: that of the merged profile
//! is the shortest one, and then a sample of it is not one period.
//!
//! All profiles are of the same kind.
//!
//! The duration is the time covered by the windows: overlapping windows count once, gaps do not count.
//!
//! The processes of a service become one, named after the service, unless all profiles are of the same
//! process: most profiles do not contain the process of a sample, and those of an hour may be of
//! thousands. Profiles that a person names keep theirs: a process is one with its name and id.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, SystemTime},
};

use crate::{
    aggregate::{Interner, index},
    profile::{
        Amount, CodeAddress, Executable, ExecutableId, FilteredOut, Function, FunctionId, Kind,
        Line, Location, LocationId, Losses, Process, ProcessIndex, Profile, Sample, Sampled, Stack,
        StackId, TaskIndex, Thread, ThreadIndex,
    },
};

/// Limit of the approximate memory of a merged profile, in bytes.
const MAX_BYTES: usize = 512 << 20;

/// Approximate memory of the value of a stack in a thread, in bytes.
const COUNT_BYTES: usize = 56;

/// A profile would exceed the limit of the merged one.
#[derive(Debug, thiserror::Error)]
#[error("the merged profile would be too large: select fewer profiles")]
pub struct MergeLimitExceeded;

/// Merges profiles.
#[derive(Default)]
pub(crate) struct Merger {
    executables: Interner<Executable>,
    functions: Interner<Function>,
    locations: Interner<Location>,
    stacks: Interner<Stack>,
    threads: Interner<Thread>,
    processes: Vec<Process>,
    /// The process of each service.
    services: HashMap<String, ProcessIndex>,
    /// Processes that are kept, by id and name.
    kept: HashMap<(u32, String), ProcessIndex>,
    tasks: Interner<String>,
    values: HashMap<Sampled, Amount>,
    total: Amount,
    kind_and_period: Option<(&'static Kind, u64)>,
    windows: Vec<(SystemTime, Duration)>,
    labels: BTreeMap<String, String>,
    losses: Losses,
    filtered_out: FilteredOut,
    bytes: usize,
}

impl Merger {
    /// Number of profiles added.
    pub(super) fn files(&self) -> u64 {
        self.windows.len() as u64
    }

    /// Adds a profile of a service.
    pub(super) fn add(
        &mut self,
        service: &str,
        profile: &Profile,
    ) -> Result<(), MergeLimitExceeded> {
        self.check_limits(profile)?;
        let process = self.process(service, profile);
        self.add_samples(profile, &vec![process; profile.processes.len()]);
        Ok(())
    }

    /// Adds a profile whose processes are kept.
    ///
    /// # Errors
    ///
    /// When it is too much.
    pub(crate) fn add_processes(&mut self, profile: &Profile) -> Result<(), MergeLimitExceeded> {
        self.check_limits(profile)?;
        let processes = profile.processes.iter();
        let processes: Vec<_> = processes.map(|process| self.kept(process)).collect();
        self.add_samples(profile, &processes);
        Ok(())
    }

    fn check_limits(&self, profile: &Profile) -> Result<(), MergeLimitExceeded> {
        let mut total = self.total;
        total += total_of(profile);
        let is_too_much = total.count.max(total.value) > i64::MAX.unsigned_abs();
        if is_too_much || self.bytes + size_bytes(profile) > MAX_BYTES {
            return Err(MergeLimitExceeded);
        }
        Ok(())
    }

    /// Adds the samples of a profile; `processes` are what its own processes are here.
    fn add_samples(&mut self, profile: &Profile, processes: &[ProcessIndex]) {
        self.total += total_of(profile);
        self.add_labels(profile);
        let (threads, counts) = (self.threads.len(), self.values.len());
        let mut stacks = vec![None; profile.stacks.len()];
        let mut locations = vec![None; profile.locations.len()];
        for sample in &profile.samples {
            let thread = &profile.threads[sample.thread.0 as usize];
            let thread = ThreadIndex(self.threads.index(Thread {
                process: processes[thread.process.0 as usize],
                ..thread.clone()
            }));
            let at = sample.stack.0 as usize;
            let stack = *stacks[at]
                .get_or_insert_with(|| self.stack(profile, &profile.stacks[at], &mut locations));
            let task = profile.task_of(sample).map(|name| self.task(name));
            let sampled = Sampled {
                thread,
                stack,
                task,
            };
            *self.values.entry(sampled).or_default() += sample.amount();
        }
        if self.threads.len() != threads {
            self.bytes += threads_bytes(profile);
        }
        self.bytes += (self.values.len() - counts) * COUNT_BYTES;
        let period = match self.kind_and_period {
            Some((_, period)) => period.min(profile.period),
            None => profile.period,
        };
        self.kind_and_period = Some((profile.kind, period));
        self.windows.push((profile.start, profile.duration));
        self.losses.merge(&profile.losses);
        self.filtered_out.merge(&profile.filtered_out);
    }

    /// The profile, with the start of the first window and the end of the last one; [`None`] if no
    /// profile was added.
    pub(crate) fn finish(mut self) -> Option<(Profile, (SystemTime, SystemTime))> {
        let (kind, period) = self.kind_and_period?;
        self.windows.sort_unstable();
        let (duration, times) = covered(&self.windows)?;
        let profile = Profile {
            start: times.0,
            duration,
            kind,
            period,
            labels: self.labels,
            processes: self.processes,
            executables: self.executables.into_items(),
            functions: self.functions.into_items(),
            locations: self.locations.into_items(),
            stacks: self.stacks.into_items(),
            threads: self.threads.into_items(),
            tasks: self.tasks.into_items(),
            samples: samples(self.values),
            timeline: None,
            unwind_stats: Vec::new(),
            losses: self.losses,
            filtered_out: self.filtered_out,
        };
        Some((profile, times))
    }

    /// Keeps the labels common to all.
    fn add_labels(&mut self, profile: &Profile) {
        if self.windows.is_empty() {
            self.labels.clone_from(&profile.labels);
        } else {
            let labels = &profile.labels;
            self.labels
                .retain(|name, value| labels.get(name) == Some(value));
        }
    }

    /// The process of a service.
    fn process(&mut self, service: &str, profile: &Profile) -> ProcessIndex {
        let merged = merged_process(service, profile);
        if let Some(&index) = self.services.get(service) {
            let process = &mut self.processes[index.0 as usize];
            if (process.pid, &process.name) != (merged.pid, &merged.name) {
                process.pid = 0;
                service.clone_into(&mut process.name);
            }
            if merged.is_python {
                if !process.is_python {
                    process.runtime = merged.runtime;
                } else if process.runtime != merged.runtime {
                    // Several runtimes: name none.
                    process.runtime.clear();
                }
                process.is_python = true;
            }
            return index;
        }
        let index = ProcessIndex(index(self.processes.len()));
        self.bytes += process_bytes(&merged) + 2 * service.len();
        self.processes.push(merged);
        self.services.insert(service.to_owned(), index);
        index
    }

    /// A process that is kept.
    fn kept(&mut self, process: &Process) -> ProcessIndex {
        let key = (process.pid, process.name.clone());
        if let Some(&index) = self.kept.get(&key) {
            return index;
        }
        let index = ProcessIndex(index(self.processes.len()));
        self.bytes += process_bytes(process) + 2 * process.name.len();
        self.processes.push(process.clone());
        self.kept.insert(key, index);
        index
    }

    fn task(&mut self, name: &str) -> TaskIndex {
        let before = self.tasks.len();
        let index = TaskIndex(self.tasks.index_of(name, || name.to_owned()));
        if self.tasks.len() != before {
            self.bytes += task_bytes(name);
        }
        index
    }

    fn stack(
        &mut self,
        profile: &Profile,
        stack: &Stack,
        merged: &mut [Option<LocationId>],
    ) -> StackId {
        let locations = stack.iter().map(|id| {
            let merged = &mut merged[id.0 as usize];
            *merged.get_or_insert_with(|| self.location(profile, profile.location(*id)))
        });
        let stack: Stack = locations.collect();
        let before = self.stacks.len();
        let frames = stack.len();
        let id = StackId(self.stacks.index(stack));
        if self.stacks.len() != before {
            self.bytes += stack_bytes(frames);
        }
        id
    }

    fn location(&mut self, profile: &Profile, location: &Location) -> LocationId {
        let code = location.code.map(|code| {
            let executable = profile.executable(code.executable);
            let before = self.executables.len();
            let id = ExecutableId(self.executables.index(executable.clone()));
            if self.executables.len() != before {
                self.bytes += executable_bytes(executable);
            }
            CodeAddress {
                executable: id,
                address: code.address,
            }
        });
        let mut lines = Vec::with_capacity(location.lines.len());
        for line in &location.lines {
            let function = profile.function(line.function);
            let before = self.functions.len();
            let id = FunctionId(self.functions.index(function.clone()));
            if self.functions.len() != before {
                self.bytes += function_bytes(function);
            }
            lines.push(Line {
                function: id,
                ..*line
            });
        }
        let before = self.locations.len();
        let bytes = location_bytes(location);
        let id = LocationId(self.locations.index(Location {
            lines: lines.into(),
            code,
        }));
        if self.locations.len() != before {
            self.bytes += bytes;
        }
        id
    }
}

/// The processes of a profile, merged into one.
fn merged_process(service: &str, profile: &Profile) -> Process {
    if let [process] = &*profile.processes {
        return match process.pid {
            0 => Process {
                name: service.to_owned(),
                ..process.clone()
            },
            _ => process.clone(),
        };
    }
    let pythons = || profile.processes.iter().filter(|process| process.is_python);
    let runtime = pythons().next().map_or("", |process| &process.runtime);
    let is_same = pythons().all(|process| process.runtime == runtime);
    let first = profile.processes.first().cloned().unwrap_or_default();
    Process {
        pid: 0,
        parent: None,
        name: service.to_owned(),
        is_python: pythons().next().is_some(),
        runtime: if is_same { runtime } else { "" }.to_owned(),
        ..first
    }
}

/// What all samples of a profile measured.
fn total_of(profile: &Profile) -> Amount {
    let amounts = profile.samples.iter().map(Sample::amount);
    amounts.fold(Amount::default(), |mut total, amount| {
        total += amount;
        total
    })
}

fn samples(values: HashMap<Sampled, Amount>) -> Vec<Sample> {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_unstable_by_key(|&(key, _)| key);
    let samples = values.into_iter();
    samples
        .map(|(sampled, amount)| Sample::new(sampled, amount))
        .collect()
}

/// The time covered by sorted windows, the start of the first and the end of the last one.
fn covered(windows: &[(SystemTime, Duration)]) -> Option<(Duration, (SystemTime, SystemTime))> {
    let (first, _) = *windows.first()?;
    let mut covered = Duration::ZERO;
    let mut end = first;
    for &(start, duration) in windows {
        let ends = start.checked_add(duration).unwrap_or(start);
        let begins = start.max(end);
        covered += ends.duration_since(begins).unwrap_or_default();
        end = end.max(ends);
    }
    Some((covered, (first, end)))
}

/// Upper bound of the memory that a profile adds, in bytes.
fn size_bytes(profile: &Profile) -> usize {
    let functions = profile.functions.iter().map(function_bytes).sum::<usize>();
    let locations = profile.locations.iter().map(location_bytes).sum::<usize>();
    let stacks = profile.stacks.iter().map(|stack| stack_bytes(stack.len()));
    let executables = profile.executables.iter().map(executable_bytes);
    let processes = profile.processes.iter().map(process_bytes).sum::<usize>();
    let tasks = profile.tasks.iter().map(|name| task_bytes(name));
    let counts = profile.samples.len() * COUNT_BYTES + threads_bytes(profile);
    let counts = counts + tasks.sum::<usize>();
    functions + locations + stacks.sum::<usize>() + executables.sum::<usize>() + processes + counts
}

fn threads_bytes(profile: &Profile) -> usize {
    let threads = profile.threads.iter();
    threads
        .map(|thread| 2 * (size_of::<Thread>() + thread.name.len()))
        .sum()
}

fn task_bytes(name: &str) -> usize {
    2 * (size_of::<String>() + name.len())
}

fn process_bytes(process: &Process) -> usize {
    let images = process.images.iter();
    let images: usize = images
        .map(|image| size_of_val(image) + image.path.as_os_str().len())
        .sum();
    let executable = process.executable.as_os_str().len();
    2 * (size_of::<Process>() + process.name.len() + process.runtime.len() + executable) + images
}

fn executable_bytes(executable: &Executable) -> usize {
    let build_id = executable.build_id.as_ref().map_or(0, String::len);
    2 * (size_of::<Executable>() + executable.path.as_os_str().len() + build_id)
}

/// An interned value is stored twice: in the table and as the key of its index.
fn stack_bytes(frames: usize) -> usize {
    2 * (16 + frames * size_of::<LocationId>()) + 32
}

fn location_bytes(location: &Location) -> usize {
    2 * (size_of::<Location>() + location.lines.len() * size_of::<Line>())
}

fn function_bytes(function: &Function) -> usize {
    2 * (size_of::<Function>() + function.name.len() + function.file.len())
}

#[cfg(test)]
mod tests;
