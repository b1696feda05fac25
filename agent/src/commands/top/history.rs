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
    frames::{FunctionRef, Functions},
    window::{Activity, Process, Sample, Window},
};
use crate::profile::{
    Profile,
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
    /// Time with the GIL in each of the last windows, and the windows' lengths.
    held: VecDeque<(u64, Duration)>,
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
    /// Adds the profiles of a window.
    pub(super) fn add(&mut self, profiles: &[Profile], functions: &mut Functions) {
        for profile in profiles {
            if profile.kind.is_cpu() {
                self.cpu.add(Window::new(profile, functions));
            } else if *profile.kind == wall::KIND {
                self.wall.add(Window::new(profile, functions));
            } else if *profile.kind == gil_held::KIND {
                self.held
                    .push_back((profile.total_value(), profile.duration));
                while self.held.len() > MAX_WINDOWS {
                    self.held.pop_front();
                }
            }
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
            let processes = &self.cpu.since_start.processes;
            self.commands.retain(|pid, _| processes.contains_key(pid));
        }
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

    /// The share of the last windows in which a thread had the GIL, 1 for all of it; [`None`] if that was
    /// not looked at.
    pub(super) fn gil_held(&self, windows: usize) -> Option<f64> {
        let last = self.held.iter().rev().take(windows);
        let (held, elapsed) = last.fold((0, Duration::ZERO), |(held, elapsed), it| {
            (held + it.0, elapsed + it.1)
        });
        (!elapsed.is_zero()).then(|| ratio(held, elapsed))
    }
}

impl Series {
    fn add(&mut self, window: Window) {
        self.since_start.add(&window);
        self.windows.push_back(window);
        let mut frames: usize = self.windows.iter().map(Window::frames).sum();
        while self.windows.len() > MAX_WINDOWS || (frames > MAX_FRAMES && self.windows.len() > 1) {
            let oldest = self.windows.pop_front();
            frames -= oldest.as_ref().map_or(0, Window::frames);
        }
    }

    /// All windows, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Window> {
        self.windows.iter().rev()
    }

    pub(super) fn since_start(&self) -> &Sums {
        &self.since_start
    }

    /// Time of the samples of the last windows that are `counted`, as a multiple of elapsed time: 1 is
    /// one CPU, or one thread.
    pub(super) fn load(&self, windows: usize, counted: impl Fn(&Sample) -> bool) -> f64 {
        let last = self.newest_first().take(windows);
        let (time, elapsed) = last.fold((0, Duration::ZERO), |(time, elapsed), window| {
            let samples = window.samples.iter().filter(|sample| counted(sample));
            let of_window: u64 = samples.map(|sample| sample.value).sum();
            (time + of_window, elapsed + window.elapsed)
        });
        ratio(time, elapsed)
    }

    /// Samples per second in the last windows.
    pub(super) fn rate(&self, windows: usize) -> f64 {
        let last = self.newest_first().take(windows);
        let (taken, elapsed) = last.fold((0, Duration::ZERO), |(taken, elapsed), window| {
            (taken + window.taken, elapsed + window.elapsed)
        });
        float(taken) / elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl Sums {
    fn add(&mut self, window: &Window) {
        let mut seen_functions = HashSet::default();
        let mut seen_lines = HashSet::default();
        for sample in &window.samples {
            let process = &sample.thread.process;
            let pid = process.pid;
            if sample.activity == Activity::Idle {
                continue;
            }
            *self.threads.entry((pid, sample.thread.tid)).or_default() += sample.value;
            let of_process = self.processes.entry(pid);
            of_process.or_insert_with(|| (Arc::clone(process), 0)).1 += sample.value;
            for detail in Detail::EACH {
                seen_functions.clear();
                seen_lines.clear();
                for (depth, frame) in sample.stack.shown(detail).enumerate() {
                    let function = &frame.function;
                    let times = self.functions.entry((pid, function.clone())).or_default();
                    let is_first = seen_functions.insert(function);
                    times.count(detail, depth == 0, is_first, sample.value);
                    let line = (pid, function.clone(), frame.line);
                    let times = self.lines.entry(line).or_default();
                    let is_first = seen_lines.insert(frame);
                    times.count(detail, depth == 0, is_first, sample.value);
                }
            }
        }
        keep_longest(&mut self.functions, Times::longest);
        keep_longest(&mut self.lines, Times::longest);
        keep_longest(&mut self.threads, |time| *time);
        keep_longest(&mut self.processes, |(_, time)| *time);
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
            history.add(&[profile], &mut functions);
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
            history.add(&[example_profile("app.py")], &mut functions);
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
        history.add(&[example_profile(""), held], &mut functions);
        let cpu = history.series(Event::Cpu);
        let load = cpu.load(10, |_| true);
        assert!((load - 4.0 / 10.012).abs() < 1e-9, "{load}");
        assert!((cpu.rate(10) - 400.0 / 10.012).abs() < 1e-9);
        assert!(cpu.load(10, |_| false).abs() < 1e-9);
        let held = history.gil_held(10).unwrap();
        assert!((held - load).abs() < 1e-9);
        assert_eq!(History::default().gil_held(10), None);
    }
}
