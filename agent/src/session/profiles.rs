//! Builds profiles: what samples refer to comes in, and windows with their samples.
//!
//! Invariant: no BPF map is read or written here.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use agent_common::{counter::Counter, decode::decode, decoded::Record, maps::KERNEL_THREADS};

use super::records::Records;
use crate::{
    aggregate::{Catalog, Filter, NoSuchThread, ProfileTiming, Window},
    binaries::executables::Executables,
    bpf::Counters,
    profile::{self, Profile},
    symbolize::{FrameSymbolizer, NativeSymbolizer, PythonSymbolizer},
};

/// Name of the process that stands for the threads of the kernel itself.
pub const KERNEL_THREADS_NAME: &str = "[kernel]";

/// What profiles are built of.
pub struct Profiles {
    /// Stacks, processes and threads.
    pub catalog: Catalog,
    /// Code objects that were received.
    pub python: PythonSymbolizer,
    /// Symbols of files, the kernel and JITs; [`None`] when only Python frames are wanted.
    pub native: Option<NativeSymbolizer>,
    executables: Executables,
    /// Profiles built, for whoever watches over the thread.
    pub(super) built: Arc<AtomicU64>,
    /// Records that could not be decoded.
    malformed: u64,
}

impl Profiles {
    /// Without samples; `native` symbolizes the addresses of `executables`.
    pub fn new(native: Option<NativeSymbolizer>, executables: Executables) -> Self {
        Self {
            catalog: Catalog::default(),
            python: PythonSymbolizer::default(),
            native,
            executables,
            built: Arc::default(),
            malformed: 0,
        }
    }

    /// Adds what samples refer to.
    pub fn receive(&mut self, records: &Records) {
        let Self {
            catalog,
            python,
            malformed,
            ..
        } = self;
        for bytes in records.iter() {
            match decode(bytes) {
                Ok(Record::Stack(stack)) => catalog.add_stack(stack),
                Ok(Record::NativeStack(stack)) => catalog.add_native_stack(stack),
                Ok(Record::CodeObject(code)) => python.add(&code),
                Ok(Record::LineTablePiece(piece)) => python.add_piece(&piece),
                Ok(Record::ThreadName(thread)) => catalog.add_thread(
                    thread.head.tgid,
                    thread.head.tid,
                    python.thread_name(&thread),
                ),
                Ok(_) | Err(_) => *malformed += 1,
            }
        }
    }

    /// Adds the process that stands for the threads of the kernel, and returns it.
    #[must_use]
    pub fn kernel_threads() -> profile::Process {
        profile::Process {
            pid: KERNEL_THREADS,
            name: KERNEL_THREADS_NAME.to_owned(),
            ..profile::Process::default()
        }
    }

    /// The profile of a capture, with the losses that the BPF programs have counted.
    ///
    /// # Errors
    ///
    /// When the filter's thread was never seen.
    pub fn profile(
        &mut self,
        window: &Window,
        about: &ProfileTiming,
        filter: &Filter,
        counters: &Counters,
    ) -> Result<Profile, NoSuchThread> {
        self.catalog.check_filter(window, filter, about.kind)?;
        let mut profile = self.build(window, about, filter);
        let losses = &mut profile.losses;
        losses.lost_samples += counters.get(Counter::LOST_SAMPLES);
        losses.untracked_processes = counters.get(Counter::UNTRACKED_PROCESSES);
        losses.lost_native_stacks = counters.get(Counter::LOST_NATIVE_STACKS);
        losses.lost_process_events = counters.get(Counter::LOST_PROCESS_EVENTS);
        Ok(profile)
    }

    /// The profile of a window or a part of one.
    pub fn profile_of(&mut self, window: &Window, about: &ProfileTiming) -> Profile {
        self.build(window, about, &Filter::default())
    }

    fn build(&mut self, window: &Window, about: &ProfileTiming, filter: &Filter) -> Profile {
        let native = self.native.as_mut();
        let native = native.map(|native| (native, &self.executables));
        let mut frames = FrameSymbolizer::new(&mut self.python, native);
        let mut profile = self.catalog.profile(window, about, filter, &mut frames);
        self.built.fetch_add(1, Ordering::Relaxed);
        profile.losses.malformed_records += std::mem::take(&mut self.malformed);
        profile
    }

    /// Evicts processes that have ended before the last call.
    pub fn remove_ended(&mut self) {
        let ended = self.catalog.remove_ended();
        if let Some(native) = &mut self.native {
            native.remove_processes(&ended);
        }
    }

    /// Evicts stacks and code objects that were not sent again.
    pub fn rotate(&mut self) {
        self.catalog.rotate();
        self.python.rotate();
    }
}
