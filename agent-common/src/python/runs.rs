//! Which Python frames run in one evaluation loop.
//!
//! From 3.11 on a loop runs the functions that Python code calls from Python code. Where such a
//! *run* of frames ends, a structure of the loop lies on the native stack: its address
//! identifies the native frame that the run belongs to, whatever the loop's name and wherever its
//! code is.
//!
//! Invariant: of more than [`MAX_PYTHON_RUNS`] runs those nearest the root are one.

use crate::{
    limits::MAX_PYTHON_RUNS,
    volatile::{Volatile, masked},
};

/// The end of a run.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PythonRun {
    /// An address within the native frame of the loop.
    pub address: u64,
    /// Frames from the leaf up to the end of the run.
    pub depth: u32,
    /// Zero.
    pub reserved: u32,
}

const NO_RUN: PythonRun = PythonRun {
    address: 0,
    depth: 0,
    reserved: 0,
};

/// The runs of a stack, leaf first.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonRuns {
    count: Volatile<u32>,
    depth: Volatile<u32>,
    all: [PythonRun; MAX_PYTHON_RUNS],
}

impl PythonRuns {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            count: Volatile::new(0),
            depth: Volatile::new(0),
            all: [NO_RUN; MAX_PYTHON_RUNS],
        }
    }

    /// No runs.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.count.set(0);
        self.depth.set(0);
    }

    /// Ends a run after `depth` frames; nothing happens when there was no frame since the one
    /// before.
    #[inline(always)]
    pub fn end(&mut self, address: u64, depth: u32) {
        let count = self.count.get();
        if depth == self.depth.get() {
            return;
        }
        self.depth.set(depth);
        let last = MAX_PYTHON_RUNS as u32 - 1;
        let index = if count < last { count } else { last };
        self.all[masked(index, last) as usize] = PythonRun {
            address,
            depth,
            reserved: 0,
        };
        self.count.set(index + 1);
    }

    /// How many there are.
    #[inline(always)]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count.get()
    }

    /// The `nth` one.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, nth: u32) -> &PythonRun {
        &self.all[masked(nth, MAX_PYTHON_RUNS as u32 - 1) as usize]
    }
}

impl Default for PythonRuns {
    fn default() -> Self {
        Self::new()
    }
}

const _: () = assert!(MAX_PYTHON_RUNS.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::PythonRuns;
    use crate::limits::MAX_PYTHON_RUNS;

    #[test]
    fn a_run_without_frames_is_none() {
        let mut runs = PythonRuns::new();
        runs.end(0x10, 0);
        runs.end(0x20, 3);
        runs.end(0x30, 3);
        runs.end(0x40, 4);
        assert_eq!(runs.count(), 2);
        assert_eq!((runs.get(0).address, runs.get(0).depth), (0x20, 3));
        assert_eq!((runs.get(1).address, runs.get(1).depth), (0x40, 4));
    }

    #[test]
    fn what_does_not_fit_is_part_of_the_last() {
        let mut runs = PythonRuns::new();
        let most = u32::try_from(MAX_PYTHON_RUNS).unwrap();
        for nth in 1..=most + 7 {
            runs.end(u64::from(nth), nth);
        }
        assert_eq!(runs.count(), most);
        assert_eq!(runs.get(most - 1).depth, most + 7);
        runs.clear();
        assert_eq!(runs.count(), 0);
    }
}
