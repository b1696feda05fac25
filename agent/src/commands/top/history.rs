//! What was sampled: the last windows with their stacks, and sums since the start.
//!
//! Invariant: memory is bounded, however long it goes on. There are at most [`MAX_WINDOWS`] windows and
//! [`MAX_FRAMES`] frames in them, of which the oldest windows are dropped first; and at most
//! [`MAX_SUMS`] sums of a kind, of which those with the least time are. A sum that is dropped begins at
//! zero when its function has time again.

use std::{collections::VecDeque, hash::Hash, num::NonZeroU32, sync::Arc, time::Duration};

use foldhash::{HashMap, HashSet};

use super::{
    choices::{Detail, Event},
    frames::{FunctionRef, Functions, Stack},
    window::{Activity, Process, Sample, Scope, Window},
};
use crate::profile::{
    CPU, Kind, Profile,
    kinds::{gil_held, wall},
};

/// Most windows: those of a trend.
pub(super) const MAX_WINDOWS: usize = 20;

/// Most frames of all windows together: 24 bytes each.
const MAX_FRAMES: usize = 1 << 20;

/// Most sums of functions, of lines, of threads and of processes each.
const MAX_SUMS: usize = 1 << 14;

/// What was sampled.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    cpu: Series,
    wall: Series,
    /// Command lines of processes; at most twice [`MAX_SUMS`], then those without time are dropped.
    commands: HashMap<u32, String>,
}

/// One kind of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// The oldest first.
    windows: VecDeque<Window>,
    since_start: Sums,
}

/// Sums since the start, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) functions: HashMap<(u32, FunctionRef), Times>,
    pub(super) lines: HashMap<(u32, FunctionRef, Option<NonZeroU32>), Times>,
    /// By process and thread.
    pub(super) threads: HashMap<(u32, u32), u64>,
    pub(super) processes: HashMap<u32, (Arc<Process>, u64)>,
}

/// Time in a function, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// In itself, by [`Detail`].
    pub(super) own: [u64; Detail::COUNT],
    /// In it and all that it calls, as far as it is shown; by [`Detail`].
    pub(super) total: [u64; Detail::COUNT],
}

impl History {
    /// Adds the profiles of a window, in which threads were looked at for so long.
    pub(super) fn add(
        &mut self,
        profiles: &[Profile],
        looked_at: Duration,
        functions: &mut Functions,
    ) {
        let of = |kind: &Kind| profiles.iter().find(|it| it.kind == kind);
        if let Some(profile) = of(&CPU) {
            self.cpu.add(Window::new(profile, functions));
        }
        if let Some(profile) = of(&wall::KIND) {
            let gil_held = of(&gil_held::KIND);
            self.wall
                .add(Window::of_passes(profile, gil_held, looked_at, functions));
        }
        functions.evict_unused();
    }

    pub(super) fn series(&self, event: Event) -> &Series {
        match event {
            Event::Cpu => &self.cpu,
            Event::Wall => &self.wall,
        }
    }

    /// Adds command lines of processes.
    pub(super) fn add_commands(&mut self, commands: Vec<(u32, String)>) {
        self.commands.extend(commands);
        if self.commands.len() > 2 * MAX_SUMS {
            let series = [&self.cpu, &self.wall].map(|it| &it.since_start.processes);
            self.commands
                .retain(|pid, _| series.iter().any(|it| it.contains_key(pid)));
        }
    }

    /// A process that has been seen, whether it has run or waited.
    pub(super) fn process(&self, pid: u32) -> Option<&Process> {
        let series = [&self.cpu, &self.wall];
        let sums = series.map(|it| it.since_start.processes.get(&pid));
        if let Some((process, _)) = sums.into_iter().flatten().next() {
            return Some(process);
        }
        // It only waits for work.
        let windows = self.wall.newest_first();
        let mut samples = windows.flat_map(|window| &window.samples);
        let sample = samples.find(|it| it.thread.process.pid == pid)?;
        Some(&sample.thread.process)
    }

    /// The command line of a process, if it is known.
    pub(super) fn command(&self, pid: u32) -> Option<&str> {
        self.commands.get(&pid).map(String::as_str)
    }

    /// Forgets the sums since the start.
    pub(super) fn restart(&mut self) {
        self.cpu.since_start = Sums::default();
        self.wall.since_start = Sums::default();
    }

    /// The share of the last windows in which one of these threads had the GIL, 1 for all of it; [`None`] if
    /// that was not looked at.
    pub(super) fn gil_held(&self, windows: usize, scope: Scope) -> Option<f64> {
        let looked_at = self.wall.looked_at(windows);
        let threads = self.threads_with_gil(windows);
        let held = threads.filter(|(pid, tid, _)| scope.has_thread(*pid, *tid));
        (!looked_at.is_zero()).then(|| ratio(held.map(|(.., time)| time).sum(), looked_at))
    }

    /// Processes and threads that had the GIL in the last windows, with the nanoseconds in each.
    pub(super) fn threads_with_gil(&self, windows: usize) -> impl Iterator<Item = (u32, u32, u64)> {
        let last = self.wall.newest_first().take(windows);
        let threads = last.flat_map(|window| &window.gil_held);
        threads.copied()
    }
}

impl Series {
    fn add(&mut self, window: Window) {
        self.since_start.add(&window);
        self.windows.push_back(window);
        let mut frames: usize = self.windows.iter().map(|it| it.frames).sum();
        while self.windows.len() > MAX_WINDOWS || (frames > MAX_FRAMES && self.windows.len() > 1) {
            let oldest = self.windows.pop_front();
            frames -= oldest.map_or(0, |it| it.frames);
        }
    }

    /// All windows, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Window> {
        self.windows.iter().rev()
    }

    /// How long the last windows were together.
    pub(super) fn elapsed(&self, windows: usize) -> Duration {
        let last = self.newest_first().take(windows);
        last.map(|window| window.elapsed).sum()
    }

    /// For how long the last windows have samples, together.
    pub(super) fn looked_at(&self, windows: usize) -> Duration {
        let last = self.newest_first().take(windows);
        last.map(|window| window.looked_at).sum()
    }

    pub(super) fn since_start(&self) -> &Sums {
        &self.since_start
    }

    /// Time of the samples of the last windows that are `counted`, as a multiple of elapsed time: 1 is
    /// one CPU, or one thread.
    pub(super) fn load(&self, windows: usize, counted: impl Fn(&Sample) -> bool) -> f64 {
        let last = self.newest_first().take(windows);
        let samples = last.flat_map(|window| &window.samples);
        let counted = samples.filter(|sample| counted(sample));
        ratio(counted.map(|it| it.value).sum(), self.looked_at(windows))
    }

    /// Samples per second in the last windows.
    pub(super) fn rate(&self, windows: usize) -> f64 {
        let taken = self.newest_first().take(windows).map(|it| it.taken).sum();
        let elapsed = self.elapsed(windows).as_secs_f64();
        float(taken) / elapsed.max(f64::MIN_POSITIVE)
    }
}

impl Sums {
    fn add(&mut self, window: &Window) {
        // Thousands of threads may wait with one stack.
        let mut stacks = HashMap::<_, (&Stack, u64)>::default();
        for sample in &window.samples {
            let process = &sample.thread.process;
            let pid = process.pid;
            if sample.activity == Activity::Idle {
                continue;
            }
            *self.threads.entry((pid, sample.thread.tid)).or_default() += sample.value;
            let of_process = self.processes.entry(pid);
            of_process.or_insert_with(|| (Arc::clone(process), 0)).1 += sample.value;
            let stack = stacks.entry((pid, sample.stack.id()));
            stack.or_insert((&sample.stack, 0)).1 += sample.value;
        }
        for ((pid, _), (stack, value)) in stacks {
            self.add_stack(pid, stack, value);
        }
        keep_longest(&mut self.functions, Times::longest);
        keep_longest(&mut self.lines, Times::longest);
        keep_longest(&mut self.threads, |time| *time);
        keep_longest(&mut self.processes, |(_, time)| *time);
    }

    fn add_stack(&mut self, pid: u32, stack: &Stack, value: u64) {
        let mut seen_functions = HashSet::default();
        let mut seen_lines = HashSet::default();
        for detail in Detail::EACH {
            seen_functions.clear();
            seen_lines.clear();
            for (depth, frame) in stack.shown(detail).enumerate() {
                let function = &frame.function;
                let times = self.functions.entry((pid, function.clone())).or_default();
                let is_first = seen_functions.insert(function);
                times.count(detail, depth == 0, is_first, value);
                let line = (pid, function.clone(), frame.line);
                let times = self.lines.entry(line).or_default();
                let is_first = seen_lines.insert(frame);
                times.count(detail, depth == 0, is_first, value);
            }
        }
    }
}

impl Times {
    fn longest(&self) -> u64 {
        self.total.into_iter().max().unwrap_or(0)
    }

    /// Counts a frame of a stack: `is_first` unless the stack has its function further up.
    fn count(&mut self, detail: Detail, is_leaf: bool, is_first: bool, value: u64) {
        self.own[detail as usize] += if is_leaf { value } else { 0 };
        self.total[detail as usize] += if is_first { value } else { 0 };
    }
}

/// Drops the quarter of the entries with the least time where there are too many.
fn keep_longest<K: Eq + Hash, V>(sums: &mut HashMap<K, V>, time: impl Fn(&V) -> u64) {
    if sums.len() <= MAX_SUMS {
        return;
    }
    let mut times: Vec<u64> = sums.values().map(&time).collect();
    let dropped = times.len() - MAX_SUMS / 4 * 3;
    let (_, &mut longest, _) = times.select_nth_unstable(dropped - 1);
    // Of those with this time some may stay.
    let mut left = dropped;
    sums.retain(|_, value| {
        let is_dropped = left > 0 && time(value) <= longest;
        left -= usize::from(is_dropped);
        !is_dropped
    });
}

fn ratio(nanoseconds: u64, elapsed: Duration) -> f64 {
    let elapsed = elapsed.as_secs_f64();
    if elapsed == 0.0 {
        return 0.0;
    }
    Duration::from_nanos(nanoseconds).as_secs_f64() / elapsed
}

#[expect(
    clippy::cast_precision_loss,
    reason = "what is shown has three digits, and so many samples nobody takes"
)]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{
        fixtures::{PERIOD_NS, example_profile, of_kind},
        kinds::gil_held,
    };

    #[test]
    fn windows_and_sums_are_bounded() {
        let mut functions = Functions::default();
        let mut history = History::default();
        // Each window has functions of its own, some of which use more and more time.
        for number in 0..800 {
            let mut profile = example_profile("app.py");
            for function in &mut profile.functions {
                function.name = format!("{} {number}", function.name);
            }
            for sample in &mut profile.samples {
                sample.value += number;
            }
            history.add(&[profile], Duration::ZERO, &mut functions);
        }
        let series = history.series(Event::Cpu);
        assert_eq!(series.newest_first().count(), MAX_WINDOWS);
        let sums = series.since_start();
        assert!(sums.functions.len() > MAX_SUMS / 2 && sums.functions.len() <= MAX_SUMS);
        assert!(sums.lines.len() <= MAX_SUMS);
        // Nothing is kept but what is in these, and in the last windows.
        let in_windows = MAX_WINDOWS * 60;
        assert!(functions.len() <= 2 * MAX_SUMS + in_windows);
    }

    #[test]
    fn the_least_times_are_dropped_and_the_longest_stay() {
        let mut sums: HashMap<u64, u64> = (0..=MAX_SUMS as u64).map(|it| (it, it)).collect();
        keep_longest(&mut sums, |time| *time);
        assert_eq!(sums.len(), MAX_SUMS / 4 * 3);
        assert!(sums.contains_key(&(MAX_SUMS as u64)) && !sums.contains_key(&0));
        // Where all are equal, no more than that are dropped.
        let mut equal: HashMap<u64, u64> = (0..=MAX_SUMS as u64).map(|it| (it, 7)).collect();
        keep_longest(&mut equal, |time| *time);
        assert_eq!(equal.len(), MAX_SUMS / 4 * 3);
    }

    #[test]
    fn time_since_the_start_is_the_sum_of_all_windows() {
        let mut functions = Functions::default();
        let mut history = History::default();
        let windows = 2 * MAX_WINDOWS as u64;
        for _ in 0..windows {
            history.add(&[example_profile("app.py")], Duration::ZERO, &mut functions);
        }
        let sums = history.series(Event::Cpu).since_start();
        let main = sums
            .functions
            .iter()
            .find(|((_, function), _)| function.get().name == "main");
        let (_, times) = main.unwrap();
        assert_eq!(times.total, [windows * 361 * PERIOD_NS; Detail::COUNT]);
        let own = [Detail::Python, Detail::All].map(|it| times.own[it as usize]);
        assert_eq!(own, [25, 5].map(|periods| windows * periods * PERIOD_NS));
        let all: u64 = sums.processes.values().map(|(_, time)| time).sum();
        assert_eq!(all, windows * example_profile("").total_value());
        history.restart();
        assert!(history.cpu.since_start().functions.is_empty());
    }

    #[test]
    fn loads_are_multiples_of_elapsed_time() {
        let mut functions = Functions::default();
        let mut history = History::default();
        let held = of_kind(example_profile(""), &gil_held::KIND);
        let elapsed = of_kind(example_profile(""), &wall::KIND);
        let looked_at = elapsed.duration / 2;
        let profiles = [example_profile(""), elapsed, held];
        history.add(&profiles, looked_at, &mut functions);
        let cpu = history.series(Event::Cpu);
        let load = cpu.load(10, |_| true);
        assert!((load - 4.0 / 10.012).abs() < 1e-9, "{load}");
        assert!((cpu.rate(10) - 400.0 / 10.012).abs() < 1e-9);
        assert!(cpu.load(10, |_| false).abs() < 1e-9);
        let held = |scope| history.gil_held(10, scope);
        // Of the time in which threads were looked at.
        let load = 2.0 * load;
        assert!((held(Scope::default()).unwrap() - load).abs() < 1e-6);
        let scope = |pid, tid| Scope {
            pid: Some(pid),
            tid: Some(tid),
        };
        let main = held(scope(4242, 4242)).unwrap();
        assert!(main > load / 2.0 && main < load, "{main} of {load}");
        assert_eq!(held(scope(7, 4242)), Some(0.0));
        assert_eq!(History::default().gil_held(10, Scope::default()), None);
    }
}
