//! Counts samples in the windows that are open.
//!
//! Invariant: nothing here waits, and what it takes is bounded: this runs on the thread that drains
//! the ring buffer.

use std::mem::{replace, take};

use agent_common::record::{Raise, Sample};

use super::{
    key::{Blocked, SampleKey, ThreadKey},
    resting::Resting,
    window::Window,
};
use crate::profile::{Amount, Kind};

/// The open windows.
#[derive(Debug, Default)]
pub struct Windows {
    window: Window,
    /// Windows with a start of their own, each with its number.
    others: Vec<(u64, Window)>,
    /// How many of these have been opened.
    opened: u64,
    /// Threads of which each pass finds the same.
    resting: Resting,
}

impl Windows {
    /// Windows of which the one that is always open keeps the times of its samples.
    #[must_use]
    pub fn with_times() -> Self {
        Self {
            window: Window::with_times(),
            ..Self::default()
        }
    }

    /// Counts a sample; one of an unknown kind is malformed.
    pub fn add_sample(&mut self, sample: &Sample) {
        self.add_blocking_sample(sample, Blocked::default());
    }

    /// Counts a sample of a thread that waits for a lock, by the hash of its name, 0 where it is not known.
    pub fn add_lock_sample(&mut self, sample: &Sample, lock: u64) {
        let blocked = Blocked {
            lock,
            ..Blocked::default()
        };
        self.add_blocking_sample(sample, blocked);
    }

    /// Counts a sample of a thread that raises an exception.
    pub fn add_raise(&mut self, raise: &Raise) {
        self.add_detailed(&raise.sample, Blocked::default(), raise.exception);
    }

    /// Counts a sample of a thread that keeps another one waiting.
    pub fn add_blocking_sample(&mut self, sample: &Sample, blocked: Blocked) {
        self.add_detailed(sample, blocked, 0);
    }

    fn add_detailed(&mut self, sample: &Sample, blocked: Blocked, exception: u64) {
        if !Kind::is_recorded(sample.kind) {
            self.add_malformed();
            return;
        }
        let key = SampleKey {
            kind: sample.kind,
            thread: ThreadKey {
                tgid: sample.tgid,
                tid: sample.tid,
            },
            stack: sample.stack,
            end: sample.python_status,
            native_stack: sample.native_stack,
            native_end: sample.native_status,
            holds_gil: sample.holds_gil != 0,
            collects_garbage: sample.collects_garbage != 0,
            wait: sample.wait,
            memory: sample.memory,
            exception,
            task: sample.task,
            blocked,
        };
        let amount = Amount {
            count: sample.count.into(),
            value: sample.value,
        };
        for (_, window) in &mut self.others {
            window.add(key, amount);
        }
        self.window.add_at(key, amount, sample.time_ns);
    }

    /// A thread rests: this is its sample in each pass from the next one on, but for when, and for how long.
    pub fn begin_rest(&mut self, sample: Sample) {
        let earlier = self.resting.begin(sample);
        self.add_all(earlier);
    }

    /// A thread does not rest any more, or has ended.
    pub fn end_rest(&mut self, tid: u32) {
        let sample = self.resting.end(tid);
        self.add_all(sample);
    }

    /// No thread rests any more, as far as is known.
    pub fn end_rests(&mut self) {
        let samples = self.resting.end_all();
        self.add_all(samples);
    }

    /// Counts the threads that rest in a pass at this time, which stands for so many nanoseconds.
    pub fn add_pass(&mut self, time_ns: u64, elapsed_ns: u64) {
        self.resting.pass(elapsed_ns);
        if self.window.times.is_some() {
            self.add_resting(Some(time_ns));
        }
    }

    /// Adds what is not counted yet of the threads that rest: before a window begins or ends.
    fn add_resting(&mut self, time_ns: Option<u64>) {
        let mut resting = take(&mut self.resting);
        resting.count(|sample| {
            let time_ns = time_ns.unwrap_or(sample.time_ns);
            self.add_sample(&Sample { time_ns, ..*sample });
        });
        self.resting = resting;
    }

    fn add_all(&mut self, samples: impl IntoIterator<Item = Sample>) {
        for sample in samples {
            self.add_sample(&sample);
        }
    }

    /// Counts a record that could not be decoded.
    pub fn add_malformed(&mut self) {
        self.window.malformed_records += 1;
    }

    /// Samples of the window that is always open, before any filter.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.window.samples.saturating_add(self.resting.uncounted())
    }

    /// The window that is always open.
    #[cfg(test)]
    pub(super) fn current(&self) -> &Window {
        &self.window
    }

    /// Closes the window that is always open and starts the next.
    pub fn take(&mut self) -> Window {
        self.add_resting(None);
        let next = match self.window.times {
            Some(_) => Window::with_times(),
            None => Window::default(),
        };
        replace(&mut self.window, next)
    }

    /// Opens a window in addition to the one that is always open, and returns its number.
    pub fn open(&mut self) -> u64 {
        self.add_resting(None);
        self.opened += 1;
        self.others.push((self.opened, Window::default()));
        self.opened
    }

    /// Closes a window; [`None`] if no open window has this number.
    pub fn close(&mut self, number: u64) -> Option<Window> {
        self.add_resting(None);
        let index = self.others.iter().position(|(open, _)| *open == number)?;
        Some(self.others.swap_remove(index).1)
    }
}
