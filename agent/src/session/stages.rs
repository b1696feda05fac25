//! The stages of a session that need no kernel: records, examined processes and process events in,
//! profiles out.
//!
//! Invariant: no BPF map is read or written here; what belongs into them is returned.

use std::mem;

use agent_common::{
    counter::Counter,
    decode::decode,
    decoded::Record,
    maps::{KERNEL_THREADS, Mapping},
    record::{AbsentPage, ProcessEvent, ProcessEventKind, WantedTable},
};

use super::observer::Observer;
#[cfg(feature = "recorder")]
use super::recorder;
use crate::{
    aggregate::{Aggregator, Filter, NoSuchThread, ProfileTiming, Window},
    binaries::executables::Executables,
    bpf::Counters,
    process::Process,
    profile::{self, Profile},
    symbolize::{FrameSymbolizer, NativeSymbolizer, PythonSymbolizer},
};

/// Name of the process that stands for the threads of the kernel itself.
pub const KERNEL_THREADS_NAME: &str = "[kernel]";

/// The stages of a session that need no kernel.
pub struct Stages {
    /// Samples that were not reported yet.
    pub aggregator: Aggregator,
    /// Code objects that were received.
    pub python: PythonSymbolizer,
    /// Symbols of files, the kernel and JITs.
    pub native: NativeSymbolizer,
    /// Executables that targets map; empty when only Python frames are wanted.
    pub executables: Executables,
    has_native: bool,
    is_host: bool,
    pending: Pending,
}

/// What was received and not yet acted on.
#[derive(Debug, Default)]
pub struct Pending {
    /// What happened to processes.
    pub events: Vec<ProcessEvent>,
    /// Pages that samples missed.
    pub absent_pages: Vec<AbsentPage>,
    /// Unwind tables that samples missed.
    pub wanted_tables: Vec<WantedTable>,
}

/// What belongs into the BPF maps of an added process.
#[derive(Debug)]
pub struct Added {
    /// Its executable mappings; [`None`] if they stay as they are.
    pub mappings: Option<Vec<Mapping>>,
    /// Whether to exclude it from sampling; [`None`] if that stays as it is.
    pub exclude: Option<bool>,
}

impl Stages {
    /// Without samples; `has_native` says whether native frames are wanted, `is_host` whether every
    /// process is sampled, `symbol_bytes` limits the symbols of files.
    pub fn new(has_native: bool, is_host: bool, symbol_bytes: usize) -> Self {
        Self {
            aggregator: Aggregator::default(),
            python: PythonSymbolizer::default(),
            native: NativeSymbolizer::new(symbol_bytes),
            executables: Executables::default(),
            has_native,
            is_host,
            pending: Pending::default(),
        }
    }

    /// Adds a record of the ring buffer; those that need the kernel wait in [`Self::take_pending`].
    pub fn receive(&mut self, bytes: &[u8]) {
        #[cfg(feature = "recorder")]
        recorder::record(bytes);
        let Self {
            aggregator,
            python,
            pending,
            ..
        } = self;
        match decode(bytes) {
            Ok(Record::Sample(sample)) => aggregator.add_sample(&sample),
            Ok(Record::Stack(stack)) => aggregator.add_stack(stack),
            Ok(Record::CodeObject(code)) => python.add(&code),
            Ok(Record::LineTablePiece(piece)) => python.add_piece(&piece),
            Ok(Record::ThreadName(thread)) => aggregator.add_thread(
                thread.head.tgid,
                thread.head.tid,
                python.thread_name(&thread),
            ),
            Ok(Record::ProcessEvent(event)) => pending.events.push(event),
            Ok(Record::AbsentPage(page)) => pending.absent_pages.push(page),
            Ok(Record::NativeStack(stack)) => aggregator.add_native_stack(stack),
            Ok(Record::WantedTable(wanted)) => pending.wanted_tables.push(wanted),
            Err(_) => aggregator.add_malformed(),
        }
    }

    /// Takes what was received and needs the kernel.
    pub fn take_pending(&mut self) -> Pending {
        mem::take(&mut self.pending)
    }

    /// Adds a process that was examined, or forked from one that was: then `opened` is [`None`].
    pub fn add_process<O: Observer>(
        &mut self,
        process: profile::Process,
        opened: Option<&Process>,
        observer: &mut O,
    ) -> Added {
        // One that has exited keeps what it had.
        let mappings = opened
            .filter(|_| self.has_native)
            .and_then(|opened| self.executables.read_mappings(opened).ok());
        #[cfg(feature = "recorder")]
        recorder::process(&process, opened, &self.executables);
        let exclude = observer.on_process(&process, opened);
        self.aggregator.add_process(process);
        Added { mappings, exclude }
    }

    /// Adds the process that stands for the threads of the kernel.
    pub fn add_kernel_threads<O: Observer>(&mut self, observer: &mut O) -> Added {
        let process = profile::Process {
            pid: KERNEL_THREADS,
            name: KERNEL_THREADS_NAME.to_owned(),
            ..profile::Process::default()
        };
        self.add_process(process, None, observer)
    }

    /// Acts on a process event.
    pub fn on_event<O: Observer>(&mut self, event: &ProcessEvent, observer: &mut O) {
        #[cfg(feature = "recorder")]
        recorder::event(event);
        match event.kind {
            ProcessEventKind::FORKED => self.executables.add_forked(event.tgid, event.parent),
            ProcessEventKind::EXECUTED | ProcessEventKind::EXITED => {
                self.executables.remove_process(event.tgid);
            }
            _ => {}
        }
        if event.kind == ProcessEventKind::EXITED && self.is_host {
            observer.on_exit(event.tgid);
            self.aggregator.end_process(event.tgid);
        }
    }

    /// The profile of all samples, with the losses that the BPF programs have counted.
    ///
    /// # Errors
    ///
    /// When the filter's thread was never seen.
    pub fn profile(
        &mut self,
        about: &ProfileTiming,
        filter: &Filter,
        counters: &Counters,
    ) -> Result<Profile, NoSuchThread> {
        self.aggregator.check_filter(filter, about.kind)?;
        let native = (&mut self.native, &self.executables);
        let mut frames = FrameSymbolizer::new(&mut self.python, self.has_native.then_some(native));
        let mut profile = self.aggregator.profile(about, filter, &mut frames);
        let losses = &mut profile.losses;
        losses.lost_samples += counters.get(Counter::LOST_SAMPLES);
        losses.untracked_processes = counters.get(Counter::UNTRACKED_PROCESSES);
        losses.lost_native_stacks = counters.get(Counter::LOST_NATIVE_STACKS);
        losses.lost_process_events = counters.get(Counter::LOST_PROCESS_EVENTS);
        Ok(profile)
    }

    /// The profile of a window or a part of one.
    pub fn profile_of(&mut self, window: &Window, about: &ProfileTiming) -> Profile {
        let native = (&mut self.native, &self.executables);
        let mut frames = FrameSymbolizer::new(&mut self.python, self.has_native.then_some(native));
        self.aggregator
            .profile_of(window, about, &Filter::default(), &mut frames)
    }
}
