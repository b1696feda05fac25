//! The stacks, processes and threads that samples refer to; builds profiles of windows.

use agent_common::decoded::{NativeStack, Stack};
use agent_common::record::{NativeFrame, NativeKind, NativeUnwindStatus, ProfileKind, WaitReason};
use foldhash::HashMap;

use super::{
    builder::{ProfileBuilder, ProfileTiming},
    filter::{Filter, NoSuchThread, SampledThread},
    idle::IdleThreads,
    import_errors,
    interleave::SampledStack,
    key::{SampleKey, ThreadKey},
    shown_tasks::ShownTasks,
    window::Window,
    window_times::TimelineBuilder,
};
use crate::{
    cache::GenerationalCache,
    profile::{Amount, FilteredOut, Kind, Process, Profile, Sampled},
    symbolize::SymbolizeFrames,
};

/// The stacks, processes and threads that samples refer to.
#[derive(Debug, Default)]
pub struct Catalog {
    stacks: GenerationalCache<u64, Stack>,
    native_stacks: GenerationalCache<u64, NativeStack>,
    /// How the walks of native stacks have ended at last that had to be continued.
    native_ends: GenerationalCache<u64, NativeUnwindStatus>,
    processes: HashMap<u32, ProcessEntry>,
    /// How many processes have been added.
    processes_added: usize,
    threads: GenerationalCache<ThreadKey, String>,
    /// Names of locks by their hashes.
    locks: GenerationalCache<u64, String>,
    /// Names of classes of exceptions by their hashes.
    exceptions: GenerationalCache<u64, String>,
    /// Names of tasks by their hashes.
    tasks: GenerationalCache<u64, String>,
}

/// Stands for the name of a class that could not be read.
const UNKNOWN_EXCEPTION: &str = "unknown";

/// A process, and its position among those that were added.
#[derive(Clone, Debug)]
struct ProcessEntry {
    /// How many other processes were added before it first was.
    order: usize,
    /// Whether it has ended.
    has_ended: bool,
    /// Whether it had ended at the last call of [`Catalog::remove_ended`].
    had_ended: bool,
    /// As it was added last.
    process: Process,
}

impl Catalog {
    /// Adds a Python stack that samples refer to.
    pub fn add_stack(&mut self, stack: Stack) {
        self.stacks.insert(stack.hash, stack);
    }

    /// Adds a native stack that samples refer to.
    pub fn add_native_stack(&mut self, stack: NativeStack) {
        self.native_stacks.insert(stack.hash, stack);
    }

    /// Adds frames to a native stack whose walk has been continued until it `end`ed; if `replaces_last`, the first one is
    /// in place of the last one that there was.
    pub fn finish_native_stack(
        &mut self,
        hash: u64,
        replaces_last: bool,
        frames: &[NativeFrame],
        end: NativeUnwindStatus,
    ) {
        let Some(stack) = self.native_stacks.get_mut(&hash) else {
            return;
        };
        if replaces_last {
            let last = stack.frames.last();
            let first = frames.first();
            let is_same = last
                .zip(first)
                .is_some_and(|(last, first)| last == first || first.kind == NativeKind::PYTHON);
            if !is_same {
                // Something else was mapped there meanwhile.
                return;
            }
            stack.frames.pop();
        }
        stack.frames.extend_from_slice(frames);
        self.native_ends.insert(hash, end);
    }

    /// Adds a process, or replaces the one with the same id. The last one holds for all samples with
    /// the id: after `execve` a process is its new program.
    ///
    /// A profile lists the processes in the order in which they were first added, then those that
    /// were never added, named by their ids.
    pub fn add_process(&mut self, process: Process) {
        let order = self.processes_added;
        let entry = self.processes.entry(process.pid).or_insert_with(|| {
            self.processes_added += 1;
            ProcessEntry {
                order,
                has_ended: false,
                had_ended: false,
                process: Process::default(),
            }
        });
        entry.has_ended = false;
        entry.had_ended = false;
        entry.process = process;
    }

    /// Marks a process as ended; it is kept until the second [`Self::remove_ended`].
    pub fn end_process(&mut self, pid: u32) {
        if let Some(entry) = self.processes.get_mut(&pid) {
            entry.has_ended = true;
        }
    }

    /// Removes the processes that had ended at the last call, and returns their ids: samples of those
    /// that have ended since may be in the window that is open now.
    pub fn remove_ended(&mut self) -> Vec<u32> {
        let ended = self.processes.extract_if(|_, entry| entry.had_ended);
        let removed = ended.map(|(pid, _)| pid).collect();
        for entry in self.processes.values_mut() {
            entry.had_ended = entry.has_ended;
        }
        removed
    }

    /// Evicts stacks and names of threads that were not sent again, see [`GenerationalCache`].
    pub fn rotate(&mut self) {
        self.stacks.rotate();
        self.native_stacks.rotate();
        self.native_ends.rotate();
        self.threads.rotate();
        self.locks.rotate();
        self.exceptions.rotate();
        self.tasks.rotate();
    }

    /// Number of cached stacks, Python and native, and of names of locks, exceptions and tasks.
    #[must_use]
    pub fn cached_stacks(&self) -> usize {
        let names = self.locks.len() + self.exceptions.len() + self.tasks.len();
        self.stacks.len() + self.native_stacks.len() + names
    }

    /// Sets the name of a thread; `process` and `tid` are ids in the agent's PID namespace.
    pub fn add_thread(&mut self, process: u32, tid: u32, name: String) {
        let thread = ThreadKey { tgid: process, tid };
        self.threads.insert(thread, name);
    }

    /// Adds the name of a lock that samples refer to by its hash.
    pub fn add_lock(&mut self, hash: u64, name: String) {
        self.locks.insert(hash, name);
    }

    /// Adds the name of a class of exceptions.
    pub fn add_exception(&mut self, hash: u64, name: String) {
        self.exceptions.insert(hash, name);
    }

    /// Adds the name of a task of asyncio.
    pub fn add_task(&mut self, hash: u64, name: String) {
        self.tasks.insert(hash, name);
    }

    /// The threads of the samples of a window that are of a kind, the one with the most samples first.
    fn sampled_threads(&self, window: &Window, kind: &Kind) -> Vec<SampledThread> {
        let mut samples = HashMap::<ThreadKey, u64>::default();
        let of_kind = |key: &SampleKey| kind.has_samples(key.kind, key.wait);
        for (key, amount) in window.counts.iter().filter(|(key, _)| of_kind(key)) {
            *samples.entry(key.thread).or_default() += amount.count;
        }
        let mut seen: Vec<_> = samples
            .into_iter()
            .map(|(thread, samples)| SampledThread {
                tgid: thread.tgid,
                tid: thread.tid,
                name: self.thread_name(thread).to_owned(),
                samples,
            })
            .collect();
        seen.sort_unstable_by(|a, b| (b.samples, a.tgid, a.tid).cmp(&(a.samples, b.tgid, b.tid)));
        seen
    }

    /// Checks that the filter includes one of the threads of the samples of a window.
    ///
    /// # Errors
    ///
    /// When there are samples, and none is of a thread that the filter includes.
    pub fn check_filter(
        &self,
        window: &Window,
        filter: &Filter,
        kind: &'static Kind,
    ) -> Result<(), NoSuchThread> {
        let Some(wanted) = &filter.thread else {
            return Ok(());
        };
        // A thread that has given all back that it had is not one that was never seen.
        if kind.pages().is_some() {
            return Ok(());
        }
        let seen = self.sampled_threads(window, kind);
        let is_wanted = |thread: &SampledThread| wanted.matches(thread.tid, &thread.name);
        if seen.is_empty() || seen.iter().any(is_wanted) {
            return Ok(());
        }
        Err(NoSuchThread {
            kind,
            wanted: wanted.clone(),
            seen,
        })
    }

    /// Builds the profile of the samples of a window, or of a part of one, that are of its kind and
    /// that `filter` includes.
    ///
    /// What the BPF programs count as lost is not included.
    pub fn profile(
        &self,
        window: &Window,
        about: &ProfileTiming,
        filter: &Filter,
        symbolizer: &mut impl SymbolizeFrames,
    ) -> Profile {
        let mut builder = ProfileBuilder::default();
        let mut filtered_out = FilteredOut::default();
        let mut idle = IdleThreads::default();
        let mut timeline = window.times.as_ref().map(TimelineBuilder::new);
        let mut keys: Vec<(&SampleKey, Amount)> = window
            .counts
            .iter()
            .filter(|(key, _)| about.kind.has_samples(key.kind, key.wait))
            .map(|(key, amount)| (key, *amount))
            .collect();
        let tasks = ShownTasks::of(keys.iter().map(|(key, amount)| (key.task, amount.value)));
        symbolizer.prepare(&self.native_frames(window, filter));
        keys.sort_unstable_by_key(|(key, _)| {
            let order = self.order(key.thread.tgid);
            let ends = (key.end.0, key.native_end.0);
            let stacks = (key.stack, key.native_stack);
            let activity = (key.holds_gil, key.collects_garbage, key.wait, key.blocked);
            (
                order, key.thread, stacks, ends, activity, key.memory, key.task,
            )
        });
        for (key, amount) in keys {
            let name = self.thread_name(key.thread);
            if !filter.includes_thread(key.thread.tid, name) {
                filtered_out.other_threads += amount.count;
            } else if filter.gil_only && !key.holds_gil && !about.kind.is_about_tasks() {
                filtered_out.without_gil += amount.count;
            } else {
                let python = self.stacks.get(&key.stack);
                let native = self.native_stacks.get(&key.native_stack);
                // Who keeps others waiting is not idle.
                let is_idle = !about.kind.is_about_gil()
                    && self.is_idle(key, &mut idle, &mut builder, symbolizer);
                if is_idle && !filter.idle {
                    filtered_out.idle_ns = filtered_out.idle_ns.saturating_add(amount.value);
                    continue;
                }
                let exception = self.exception(key);
                if exception.zip(python).is_some_and(|(class, stack)| {
                    import_errors::is_internal(class, stack, symbolizer)
                }) {
                    filtered_out.in_imports += amount.value;
                    continue;
                }
                let process = builder.process(key.thread.tgid, || self.process(key.thread.tgid));
                let thread = builder.thread(process, key.thread.tid, name);
                let blocked = ThreadKey {
                    tid: key.blocked.thread,
                    ..key.thread
                };
                let with_end = self.with_final_end(key);
                let sampled = SampledStack {
                    key: &with_end,
                    blocked: (key.blocked.thread != 0).then(|| self.thread_name(blocked)),
                    lock: self.locks.get(&key.blocked.lock).map(String::as_str),
                    exception,
                    python,
                    native,
                    process,
                    is_python: self.is_python(key.thread.tgid),
                    is_idle,
                    count: amount.count,
                };
                let stack = sampled.stack(&mut builder, symbolizer);
                let task = tasks.name(key.task, |hash| self.tasks.get(&hash));
                let sampled = Sampled {
                    thread,
                    stack,
                    task: task.map(|name| builder.task(name)),
                };
                builder.count(sampled, amount);
                if let Some(timeline) = &mut timeline {
                    timeline.include(key, sampled);
                }
            }
        }
        if builder.is_empty() {
            self.list_processes(&mut builder);
        }
        let mut profile = builder.finish(*about);
        profile.losses.malformed_records = window.malformed_records;
        profile.losses.lost_samples = window.lost_samples;
        if about.kind.is_about_allocations() {
            profile.losses.probe_ms = window.probe_ms;
        }
        if about.kind.is_about_exceptions() {
            profile.losses.unrecorded_ms = window.unrecorded_ms;
            profile.losses.raise_variance = window.raise_variance;
        }
        if about.kind.pages().is_some() {
            profile.losses.unwatched_samples = window.unwatched_samples;
        }
        profile.filtered_out = filtered_out;
        if let Some(timeline) = timeline {
            let (timeline, untimed) = timeline.finish(&profile.samples);
            profile.timeline = Some(timeline);
            profile.losses.untimed_samples = untimed;
        }
        profile
    }

    /// Has a profile without samples say of which processes there are none.
    fn list_processes(&self, builder: &mut ProfileBuilder) {
        let mut entries: Vec<_> = self.processes.values().collect();
        entries.sort_unstable_by_key(|entry| entry.order);
        for entry in entries {
            builder.process(entry.process.pid, || entry.process.clone());
        }
    }

    /// The key of samples, with how the walk of their native stack has ended at last.
    fn with_final_end(&self, key: &SampleKey) -> SampleKey {
        let was_cut = [NativeUnwindStatus::NO_TABLE, NativeUnwindStatus::UNMAPPED];
        let end = self.native_ends.get(&key.native_stack);
        let end = end.filter(|_| was_cut.contains(&key.native_end));
        SampleKey {
            native_end: end.copied().unwrap_or(key.native_end),
            ..*key
        }
    }

    /// Whether the thread of samples waits for work, or the one whose wait it has ended did.
    fn is_idle(
        &self,
        key: &SampleKey,
        idle: &mut IdleThreads,
        builder: &mut ProfileBuilder,
        symbolizer: &mut impl SymbolizeFrames,
    ) -> bool {
        let mut waiting = *key;
        if key.kind == ProfileKind::LOCK_RELEASE {
            (waiting.stack, waiting.native_stack) = key.blocked.stacks;
            waiting.wait = WaitReason::LOCK;
            waiting.thread.tid = key.blocked.thread;
        }
        let thread = self.thread_name(waiting.thread);
        let python = self.stacks.get(&waiting.stack);
        let native = self.native_stacks.get(&waiting.native_stack);
        idle.has(&waiting, thread, python, native, builder, symbolizer)
    }

    /// The native and kernel frames of the samples of a window that `filter` includes, each once and
    /// with the id of a process that has it.
    #[must_use]
    pub fn native_frames(&self, window: &Window, filter: &Filter) -> Vec<(u32, NativeFrame)> {
        let mut stacks = HashMap::<u64, u32>::default();
        for key in window.counts.keys() {
            let thread = key.thread;
            if filter.includes_thread(thread.tid, self.thread_name(thread))
                && (key.holds_gil || !filter.gil_only)
            {
                let tgid = stacks.entry(key.native_stack).or_insert(thread.tgid);
                *tgid = thread.tgid.min(*tgid);
            }
        }
        let mut frames = HashMap::<NativeFrame, u32>::default();
        for (hash, tgid) in stacks {
            let stack = self.native_stacks.get(&hash);
            for frame in stack.iter().flat_map(|stack| &stack.frames) {
                if frame.kind != NativeKind::PYTHON {
                    let known = frames.entry(*frame).or_insert(tgid);
                    *known = tgid.min(*known);
                }
            }
        }
        frames
            .into_iter()
            .map(|(frame, tgid)| (tgid, frame))
            .collect()
    }

    /// The class of the exception of samples, if they are about one.
    fn exception(&self, key: &SampleKey) -> Option<&str> {
        let name = self.exceptions.get(&key.exception).map(String::as_str);
        let is_raise = key.kind == ProfileKind::EXCEPTIONS;
        is_raise.then(|| name.unwrap_or(UNKNOWN_EXCEPTION))
    }

    /// The last name of a thread; empty if it is not known.
    fn thread_name(&self, thread: ThreadKey) -> &str {
        self.threads.get(&thread).map_or("", String::as_str)
    }

    fn is_python(&self, tgid: u32) -> bool {
        let entry = self.processes.get(&tgid);
        entry.is_some_and(|entry| entry.process.is_python)
    }

    /// Position of a process among those of a profile.
    fn order(&self, tgid: u32) -> usize {
        self.processes
            .get(&tgid)
            .map_or(usize::MAX, |entry| entry.order)
    }

    fn process(&self, tgid: u32) -> Process {
        self.processes.get(&tgid).map_or_else(
            || Process {
                pid: tgid,
                name: tgid.to_string(),
                ..Process::default()
            },
            |entry| entry.process.clone(),
        )
    }
}
