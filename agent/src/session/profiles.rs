//! Builds profiles: what samples refer to comes in, and windows with their samples.
//!
//! Invariant: no BPF map is read or written here.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use agent_common::{
    counter::Counter,
    decode::decode,
    decoded::{Record, ThreadRecord},
    maps::{KERNEL_THREADS, WaitClass},
    record::{TaskName, ThreadName},
};

use zerocopy::IntoBytes as _;

use super::thread_names::ThreadNames;
use crate::bpf::Records;
use crate::{
    aggregate::{Catalog, Filter, NoSuchThread, ProfileTiming, Window},
    binaries::executables::Executables,
    bpf::Counters,
    profile::{self, Profile, WaitTotals},
    python::text,
    symbolize::{FrameSymbolizer, LookupTotals, NativeSymbolizer, PythonSymbolizer},
    threads::StackRest,
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
    thread_names: ThreadNames,
    /// Profiles built, for whoever watches over the thread.
    pub(super) built: Arc<AtomicU64>,
    /// Records that could not be decoded.
    malformed: u64,
}

/// The name of a class of exceptions, which zeros end.
fn class_name(name: &[u8]) -> String {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    // As Python 2 has built-in ones.
    let name = name.strip_prefix(b"exceptions.").unwrap_or(name);
    String::from_utf8_lossy(name).into_owned()
}

/// The characters of the name of a task.
fn task_characters(name: &TaskName) -> &[u8] {
    let characters = name.name.as_bytes();
    characters
        .get(..name.text.bytes.into())
        .unwrap_or(characters)
}

/// The time of the traced waits.
fn wait_totals(counters: &Counters) -> WaitTotals {
    let of = |class| milliseconds(counters.get(Counter::of_waits(class)));
    WaitTotals {
        lock: of(WaitClass::LOCK),
        sleep: of(WaitClass::SLEEP),
        poll: of(WaitClass::POLL),
        io: of(WaitClass::IO),
        child: of(WaitClass::CHILD),
        page_fault: of(WaitClass::PAGE_FAULT),
        other: of(WaitClass::OTHER),
    }
}

fn milliseconds(nanoseconds: u64) -> u64 {
    (nanoseconds + 500_000) / 1_000_000
}

impl Profiles {
    /// Without samples; `native` symbolizes the addresses of `executables`.
    #[must_use]
    pub fn new(native: Option<NativeSymbolizer>, executables: Executables) -> Self {
        Self {
            catalog: Catalog::default(),
            python: PythonSymbolizer::default(),
            native,
            executables,
            thread_names: ThreadNames::default(),
            built: Arc::default(),
            malformed: 0,
        }
    }

    /// Adds what samples refer to.
    pub fn receive(&mut self, records: &Records) {
        let Self {
            catalog,
            python,
            native,
            thread_names,
            malformed,
            ..
        } = self;
        let mut has_new_code = false;
        for bytes in records.iter() {
            match decode(bytes) {
                Ok(Record::Stack(stack)) => catalog.add_stack(stack),
                Ok(Record::NativeStack(stack)) => {
                    if let Some(native) = native {
                        native.note_stack(&stack.frames);
                    }
                    catalog.add_native_stack(stack);
                }
                Ok(Record::CodeObject(code)) => {
                    python.add(&code);
                    has_new_code = true;
                }
                Ok(Record::LineTablePiece(piece)) => python.add_piece(&piece),
                Ok(Record::ThreadName(thread)) => {
                    if thread_names.add(&thread, python) {
                        add_thread(catalog, python, &thread);
                    }
                }
                Ok(Record::LockName(lock)) => {
                    catalog.add_lock(lock.head.lock, text::decode(lock.head.name, lock.name));
                }
                Ok(Record::ExceptionName(of)) => {
                    catalog.add_exception(of.exception, class_name(&of.name));
                }
                Ok(Record::TaskName(of)) => {
                    catalog.add_task(of.task, text::decode(of.text, task_characters(&of)));
                }
                Ok(_) | Err(_) => *malformed += 1,
            }
        }
        if has_new_code {
            thread_names.resolve(python, |thread| add_thread(catalog, python, thread));
        }
        self.read_jit_names();
    }

    /// Adds the rest of a native stack that was not walked to its end.
    pub(super) fn finish_stack(&mut self, rest: StackRest) {
        if let Some(native) = &mut self.native {
            native.note_stack(&rest.frames);
        }
        let StackRest {
            stack,
            replaces_last,
            frames,
            status,
        } = rest;
        self.catalog
            .finish_native_stack(stack, replaces_last, &frames, status);
    }

    /// Has the names of JIT code read that are missing while its processes run; does not wait for them.
    pub fn read_jit_names(&mut self) {
        if let Some(native) = &mut self.native {
            native.read_jit_names();
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
        let mut profile = self.profile_of(window, about, filter);
        let losses = &mut profile.losses;
        losses.lost_samples += counters.get(Counter::LOST_SAMPLES);
        losses.untracked_processes = counters.get(Counter::UNTRACKED_PROCESSES);
        losses.lost_native_stacks = counters.get(Counter::LOST_NATIVE_STACKS);
        losses.lost_process_events = counters.get(Counter::LOST_PROCESS_EVENTS);
        if about.kind.is_about_exceptions() {
            losses.lost_samples += counters.get(Counter::LOST_RAISES);
        }
        if about.kind.is_about_allocations() {
            losses.lost_samples += counters.get(Counter::LOST_ALLOCATIONS);
            losses.refused_announcements = counters.get(Counter::REFUSED_ANNOUNCEMENTS);
        }
        if about.kind.needs_stacks_of_passes() {
            losses.switch_ms = milliseconds(counters.get(Counter::SWITCH_NS));
            losses.waits = wait_totals(counters);
            losses.lost_samples += counters.get(Counter::LOST_WAITS);
        }
        if about.kind.pages().is_some() {
            losses.lost_moves = counters.get(Counter::LOST_MOVES);
        }
        if about.kind.is_growth() {
            losses.given_back = pages_in_bytes(counters.get(Counter::GIVEN_BACK_PAGES));
        }
        Ok(profile)
    }

    /// The profile of a window or a part of one.
    pub fn profile_of(
        &mut self,
        window: &Window,
        about: &ProfileTiming,
        filter: &Filter,
    ) -> Profile {
        let before = self.lookups();
        let native = self.native.as_mut();
        let native = native.map(|native| (native, &self.executables));
        let mut frames = FrameSymbolizer::new(&mut self.python, native);
        let mut profile = self.catalog.profile(window, about, filter, &mut frames);
        self.built.fetch_add(1, Ordering::Relaxed);
        let lookups = self.lookups();
        let losses = &mut profile.losses;
        losses.names_only += lookups.incomplete - before.incomplete;
        losses.unread_files += lookups.given_up - before.given_up;
        losses.malformed_records += std::mem::take(&mut self.malformed);
        profile
    }

    /// Counts of look-ups in files so far.
    fn lookups(&self) -> LookupTotals {
        let native = self.native.as_ref();
        native.map_or_else(LookupTotals::default, NativeSymbolizer::totals)
    }

    /// Evicts processes that have ended before the last call.
    pub fn remove_ended(&mut self) {
        let ended = self.catalog.remove_ended();
        if let Some(native) = &mut self.native {
            native.remove_processes(&ended);
        }
    }

    /// Evicts the symbols of files that are closed.
    pub fn release_files(&mut self) {
        if let Some(native) = &mut self.native {
            native.release_files(&self.executables);
        }
    }

    /// Evicts stacks and code objects that were not sent again.
    pub fn rotate(&mut self) {
        self.catalog.rotate();
        self.python.rotate();
        self.thread_names.rotate();
    }
}

fn pages_in_bytes(pages: u64) -> u64 {
    pages.saturating_mul(rustix::param::page_size() as u64)
}

fn add_thread(catalog: &mut Catalog, python: &PythonSymbolizer, thread: &ThreadRecord<'_>) {
    let ThreadName { tgid, tid, .. } = thread.head;
    catalog.add_thread(tgid, tid, python.thread_name(thread));
}

#[cfg(test)]
mod tests {
    use super::Profiles;
    use crate::{
        aggregate::{Filter, ProfileTiming, Windows},
        binaries::executables::Executables,
        process::Process,
        profile::{CPU, Periods},
        symbolize::{CpuShare, CpuShares, NativeSymbolizer},
        workers::Workers,
    };
    use agent_common::{
        decoded::NativeStack,
        record::{
            Header, MemoryType, NativeFrame, NativeKind, NativeUnwindStatus, ProfileKind,
            PythonUnwindStatus, RecordKind, Sample, WaitReason,
        },
    };
    use std::{
        process::id,
        time::{Duration, SystemTime},
    };

    /// A frame of this process in one of its own functions.
    fn own_frame(executables: &Executables) -> NativeFrame {
        let process = Process::open(id()).unwrap();
        let mappings = executables.read_mappings(&process).unwrap().mappings;
        let address = what_there_was_no_time_for_is_a_loss as fn() as usize as u64;
        let mapping = mappings
            .iter()
            .find(|mapping| (mapping.start..mapping.end).contains(&address))
            .unwrap();
        NativeFrame {
            address: address.wrapping_sub(mapping.bias),
            id_or_count: mapping.executable,
            kind: NativeKind::FILE,
        }
    }

    fn sample() -> Sample {
        Sample {
            header: Header {
                kind: RecordKind::SAMPLE,
                reserved: 0,
                bytes: 72,
            },
            time_ns: 0,
            stack: 0,
            native_stack: 7,
            tgid: id(),
            tid: id(),
            value: 10_000_000,
            count: 1,
            kind: ProfileKind::CPU,
            python_status: PythonUnwindStatus::NO_THREAD_STATE,
            holds_gil: 0,
            collects_garbage: 0,
            native_status: NativeUnwindStatus::COMPLETE,
            wait: WaitReason::NONE,
            memory: MemoryType::NONE,
            task: 0,
        }
    }

    #[test]
    fn what_there_was_no_time_for_is_a_loss() {
        let executables = Executables::default();
        let frame = own_frame(&executables);
        let native = NativeSymbolizer::new(16 << 20, Workers::default());
        let mut profiles = Profiles::new(Some(native), executables);
        profiles.catalog.add_native_stack(NativeStack {
            hash: 7,
            frames: vec![frame],
        });
        let mut windows = Windows::default();
        windows.add_sample(&sample());
        let window = windows.take();
        let about = ProfileTiming {
            kind: &CPU,
            start: SystemTime::UNIX_EPOCH,
            duration: Duration::from_secs(1),
            periods: Periods::new(100, None),
        };
        for (burst, names_only) in [(0, 1), (100, 0)] {
            let native = profiles.native.as_mut().unwrap();
            let share = CpuShare {
                burst: Duration::from_secs(burst),
                per_second: Duration::ZERO,
            };
            native.limit_cpu(CpuShares {
                opening: share,
                look_ups: share,
            });
            let profile = profiles.profile_of(&window, &about, &Filter::default());
            assert_eq!(profile.losses.names_only, names_only);
            assert_eq!(profile.losses.unread_files, 0);
        }
    }
}
