//! Windows and what their samples refer to, in one value, for tests.

use agent_common::{
    decoded::{NativeStack, Stack},
    record::{
        Header, MemoryType, NativeFrame, NativeUnwindStatus, ProfileKind, PythonUnwindStatus,
        RecordKind, Sample, WaitReason,
    },
};

use super::{Blocked, Catalog, Filter, NoSuchThread, ProfileTiming, Window, Windows};
use crate::{
    profile::{Kind, Process, Profile},
    symbolize::SymbolizeFrames,
};

/// A window with so many samples of one process.
pub fn window_of(process: u32, samples: u32) -> Window {
    let mut windows = Windows::default();
    windows.add_sample(&Sample {
        tgid: process,
        tid: process,
        value: samples.into(),
        count: samples,
        ..sample()
    });
    windows.take()
}

/// A sample of the process 1.
pub fn sample() -> Sample {
    Sample {
        header: Header {
            kind: RecordKind::SAMPLE,
            reserved: 0,
            bytes: 72,
        },
        time_ns: 0,
        stack: 0,
        native_stack: 0,
        tgid: 1,
        tid: 1,
        value: 1,
        count: 1,
        kind: ProfileKind::CPU,
        python_status: PythonUnwindStatus::NO_THREAD_STATE,
        holds_gil: 0,
        collects_garbage: 0,
        native_status: NativeUnwindStatus::NOT_WALKED,
        wait: WaitReason::NONE,
        memory: MemoryType::NONE,
        task: 0,
    }
}

/// Samples of one window, and what they refer to.
#[derive(Debug, Default)]
pub(super) struct Aggregator {
    windows: Windows,
    catalog: Catalog,
}

impl Aggregator {
    pub(super) fn add_sample(&mut self, sample: &Sample) {
        self.windows.add_sample(sample);
    }

    pub(super) fn add_blocking_sample(&mut self, sample: &Sample, blocked: Blocked) {
        self.windows.add_blocking_sample(sample, blocked);
    }

    pub(super) fn add_lock(&mut self, hash: u64, name: &str) {
        self.catalog.add_lock(hash, name.to_owned());
    }

    pub(super) fn add_stack(&mut self, stack: Stack) {
        self.catalog.add_stack(stack);
    }

    pub(super) fn add_native_stack(&mut self, stack: NativeStack) {
        self.catalog.add_native_stack(stack);
    }

    pub(super) fn finish_native_stack(
        &mut self,
        hash: u64,
        replaces_last: bool,
        frames: &[NativeFrame],
        end: NativeUnwindStatus,
    ) {
        let catalog = &mut self.catalog;
        catalog.finish_native_stack(hash, replaces_last, frames, end);
    }

    pub(super) fn add_process(&mut self, process: Process) {
        self.catalog.add_process(process);
    }

    pub(super) fn add_thread(&mut self, process: u32, tid: u32, name: String) {
        self.catalog.add_thread(process, tid, name);
    }

    pub(super) fn samples(&self) -> u64 {
        self.windows.samples()
    }

    pub(super) fn check_filter(
        &self,
        filter: &Filter,
        kind: &'static Kind,
    ) -> Result<(), NoSuchThread> {
        let window = self.windows.current();
        self.catalog.check_filter(window, filter, kind)
    }

    pub(super) fn profile(
        &self,
        about: &ProfileTiming,
        filter: &Filter,
        symbolizer: &mut impl SymbolizeFrames,
    ) -> Profile {
        let window = self.windows.current();
        self.catalog.profile(window, about, filter, symbolizer)
    }
}
