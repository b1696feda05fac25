//! One sampling session: loads the BPF programs, drains their records into the aggregator and the
//! symbolizers, and keeps the maps that the programs read up to date.
//!
//! A capture, the agent of a host and `doctor` all start here, with [`Session::open`] and then
//! [`Session::start`].
//!
//! Invariants: this room alone connects the stages; what it finds out about processes goes to an
//! [`Observer`], so that it depends on none of its owners.

mod clock;
mod end;
pub mod memory;
mod observer;
mod seed;
mod signals;
mod unwind_tables;

pub use self::{
    clock::Began,
    end::{End, EndReason},
    observer::Observer,
    signals::Signals,
};

use std::time::{Duration, Instant};

use agent_common::{
    counter::Counter,
    maps::KERNEL_THREADS,
    record::{AbsentPage, ProcessEvent, ProcessEventKind},
};
use anyhow::Result;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep_until};
use tracing::warn;

use self::{
    seed::random_seed,
    unwind_tables::{TableJob, UnwindTables},
};
use crate::{
    aggregate::{Aggregator, Filter, ProfileTiming, Window},
    bpf::{Bpf, InterpreterLocation, LoadOptions, decode::decode, record::Record},
    process::{self, Descendant},
    profile::{self, Profile},
    symbolize::{FrameSymbolizer, NativeSymbolizer, PythonSymbolizer},
    targets::{
        discovery::{Discovery, Finding},
        launch::Program,
    },
};

/// How often the ring buffer is read when no wake-up comes.
const DRAIN_INTERVAL: Duration = Duration::from_millis(200);

/// Name of the process that stands for the threads of the kernel itself.
pub const KERNEL_THREADS_NAME: &str = "[kernel]";

/// How to sample.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Time between two samples of a processor.
    pub period: Duration,
    /// Whether to walk native and kernel frames too.
    pub native: bool,
    /// Whether to look at who holds the GIL.
    pub gil: bool,
    /// Most bytes that the symbols of files take.
    pub symbol_bytes: usize,
}

/// What to sample.
#[derive(Debug)]
pub enum Scope {
    /// One process.
    Process {
        /// Its id.
        pid: u32,
        /// What was found out about it; [`None`] if it has not run its program yet.
        finding: Option<Finding>,
        /// Whether to sample its descendants too.
        children: bool,
    },
    /// Every process of the host, and the kernel's threads.
    Host,
}

/// Why [`Session::wait`] returned.
pub struct Wake(Vec<TableJob>);

/// A sampling session.
pub struct Session {
    /// The BPF programs and their maps.
    pub bpf: Bpf,
    /// Samples that were not reported yet.
    pub aggregator: Aggregator,
    /// Executables objects that were received.
    pub python: PythonSymbolizer,
    /// Symbols of files, the kernel and JITs.
    pub native: NativeSymbolizer,
    discovery: Discovery,
    /// [`None`] when only Python frames are wanted.
    unwind_tables: Option<UnwindTables>,
    is_host: bool,
    gil: bool,
    ticks: Interval,
    /// What was received and not yet acted on.
    events: Vec<ProcessEvent>,
    absent_pages: Vec<AbsentPage>,
}

impl Session {
    /// Loads the BPF programs and fills their maps, so that the first samples are complete.
    ///
    /// # Errors
    ///
    /// One sentence that says what to do.
    pub async fn open<O: Observer>(
        settings: &Settings,
        discovery: Discovery,
        scope: Scope,
        observer: &mut O,
    ) -> Result<Self> {
        let is_host = matches!(scope, Scope::Host);
        let bpf = Bpf::load(&LoadOptions {
            period: settings.period,
            hash_seed: random_seed(),
            with_native: settings.native,
            whole_host: is_host,
        })?;
        let mut ticks = interval(DRAIN_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut session = Self {
            bpf,
            aggregator: Aggregator::default(),
            python: PythonSymbolizer::default(),
            native: NativeSymbolizer::new(settings.symbol_bytes),
            discovery,
            unwind_tables: settings.native.then(UnwindTables::default),
            is_host,
            gil: settings.gil,
            ticks,
            events: Vec::new(),
            absent_pages: Vec::new(),
        };
        match scope {
            Scope::Process {
                pid,
                finding,
                children,
            } => {
                session.bpf.add_process(pid, None, children)?;
                if let Some(finding) = finding {
                    session.apply(finding, observer)?;
                }
                if children {
                    // Those that start from now on the BPF programs see by themselves.
                    for descendant in process::descendants(pid) {
                        session.add_descendant(descendant, observer)?;
                    }
                }
            }
            Scope::Host => {
                for descendant in process::descendants(0) {
                    warn_on_error(session.add_descendant(descendant, observer));
                }
                if settings.native {
                    warn_on_error(session.add_kernel_threads(observer));
                }
            }
        }
        if let Some(tables) = &mut session.unwind_tables {
            tables.prepare(&mut session.bpf).await?;
        }
        Ok(session)
    }

    /// Starts to sample.
    ///
    /// # Errors
    ///
    /// When the kernel refuses the events.
    pub fn start(&mut self) -> Result<Began> {
        let began = Began::now();
        self.bpf.start()?;
        Ok(began)
    }

    /// Samples until `end`; its signals are passed on to `program` if there is one.
    ///
    /// # Errors
    ///
    /// When the BPF programs or their maps fail.
    pub async fn run<O: Observer>(
        &mut self,
        began: &Began,
        end: &mut End,
        program: Option<&Program>,
        observer: &mut O,
    ) -> Result<EndReason> {
        loop {
            let (reason, wake) = tokio::select! {
                reason = end.wait(program) => (Some(reason), None),
                wake = self.wait() => (None, Some(wake?)),
            };
            self.drain(observer)?;
            self.bpf.sync_online_cpus()?;
            if let Some(wake) = wake {
                self.load_tables(wake)?;
            }
            observer.on_progress(began.at.elapsed(), self.aggregator.samples());
            if let Some(reason) = reason {
                return Ok(reason);
            }
        }
    }

    /// Stops sampling and returns the profile of the whole session.
    ///
    /// # Errors
    ///
    /// When the BPF programs or their maps fail, or the filter's thread was never seen.
    pub fn finish(&mut self, began: &Began, period: Duration, filter: &Filter) -> Result<Profile> {
        self.bpf.stop()?;
        let about = began.about(period);
        self.drain(&mut ())?;
        self.aggregator.check_filter(filter)?;
        let counters = self.bpf.counters()?;
        let mut frames = FrameSymbolizer::new(
            &mut self.python,
            self.unwind_tables
                .as_ref()
                .map(|tables| (&mut self.native, tables.executables())),
        );
        let mut profile = self.aggregator.profile(&about, filter, &mut frames);
        let losses = &mut profile.losses;
        losses.lost_samples += counters.get(Counter::LOST_SAMPLES);
        losses.untracked_processes = counters.get(Counter::PROCESSES_LEFT_OUT);
        losses.lost_native_stacks = counters.get(Counter::LOST_NATIVE_STACKS);
        losses.lost_process_events = counters.get(Counter::LOST_PROCESS_EVENTS);
        Ok(profile)
    }

    /// The profile of a window or a part of one.
    pub fn profile_of(&mut self, window: &Window, about: &ProfileTiming) -> Profile {
        let mut frames = FrameSymbolizer::new(
            &mut self.python,
            self.unwind_tables
                .as_ref()
                .map(|tables| (&mut self.native, tables.executables())),
        );
        self.aggregator
            .profile_of(window, about, &Filter::default(), &mut frames)
    }

    /// Waits until there may be something to drain or to load.
    ///
    /// Cancel safe: it may be dropped at any time and called again.
    ///
    /// # Errors
    ///
    /// When the ring buffer cannot be polled.
    pub async fn wait(&mut self) -> Result<Wake> {
        tokio::select! {
            done = table_jobs(self.unwind_tables.as_mut()) => return Ok(Wake(done)),
            readable = self.bpf.readable() => readable?,
            () = until(self.discovery.next_due()) => {}
            _ = self.ticks.tick() => {}
        }
        Ok(Wake(Vec::new()))
    }

    /// Reads all waiting records and acts on them; returns the first error after all of it.
    ///
    /// # Errors
    ///
    /// When a map cannot be written.
    pub fn drain<O: Observer>(&mut self, observer: &mut O) -> Result<()> {
        self.receive();
        let mut result = Ok(());
        for event in std::mem::take(&mut self.events) {
            result = result.and(self.on_event(&event, observer));
        }
        while let Some(finding) = self.discovery.examine_due(Instant::now()) {
            result = result.and(self.apply(finding, observer));
        }
        for page in self.absent_pages.drain(..) {
            process::fault_in(page.tgid, page.address, page.bytes);
        }
        result
    }

    /// Continues with unwind tables that were compiled or loaded.
    ///
    /// # Errors
    ///
    /// When a map cannot be written.
    pub fn load_tables(&mut self, wake: Wake) -> Result<()> {
        match &mut self.unwind_tables {
            Some(tables) if !wake.0.is_empty() => tables.advance(&mut self.bpf, wake.0),
            _ => Ok(()),
        }
    }

    /// Acts on a process event.
    fn on_event<O: Observer>(&mut self, event: &ProcessEvent, observer: &mut O) -> Result<()> {
        let is_fork = event.kind == ProcessEventKind::FORKED;
        if is_fork && !self.bpf.is_copy(event.tgid, event.parent)? {
            // Forked before the maps had what its parent is by now.
            let finding = self.discovery.add_descendant(Descendant {
                pid: event.tgid,
                parent: event.parent,
            });
            if let Some(finding) = finding {
                return self.apply(finding, observer);
            }
        }
        if let Some(tables) = &mut self.unwind_tables {
            tables.on_event(&mut self.bpf, event);
        }
        if event.kind == ProcessEventKind::EXITED && self.is_host {
            observer.on_exit(event.tgid);
            self.aggregator.end_process(event.tgid);
        }
        match self.discovery.on_event(event) {
            Some(finding) => self.apply(finding, observer),
            None => Ok(()),
        }
    }

    /// Distributes what was found out about a process.
    fn apply<O: Observer>(&mut self, finding: Finding, observer: &mut O) -> Result<()> {
        let pid = finding.process.pid;
        if let Some(interpreter) = finding.interpreter {
            let python = InterpreterLocation {
                interpreters_head: interpreter.interpreters_head,
                gil_holder: interpreter.gil_holder.filter(|_| self.gil),
                thread_pointer_distance: interpreter.thread_pointer_distance,
                layout: interpreter.layout,
            };
            self.bpf.update_process(pid, &python)?;
        }
        if let Some(tables) = &mut self.unwind_tables
            && let Some(opened) = &finding.opened
        {
            tables.add_process(&mut self.bpf, opened)?;
        }
        let exclude = observer.on_process(&finding.process, finding.opened.as_ref());
        if let Some(exclude) = exclude {
            self.bpf.set_excluded(pid, exclude)?;
        }
        self.aggregator.add_process(finding.process);
        Ok(())
    }

    /// Adds the process that stands for the threads of the kernel.
    fn add_kernel_threads<O: Observer>(&mut self, observer: &mut O) -> Result<()> {
        self.bpf.add_process(KERNEL_THREADS, None, false)?;
        let process = profile::Process {
            pid: KERNEL_THREADS,
            name: KERNEL_THREADS_NAME.to_owned(),
            ..profile::Process::default()
        };
        if let Some(exclude) = observer.on_process(&process, None) {
            self.bpf.set_excluded(KERNEL_THREADS, exclude)?;
        }
        self.aggregator.add_process(process);
        Ok(())
    }

    /// Adds a process that was started before the session.
    fn add_descendant<O: Observer>(
        &mut self,
        descendant: Descendant,
        observer: &mut O,
    ) -> Result<()> {
        let Some(finding) = self.discovery.add_descendant(descendant) else {
            return Ok(());
        };
        self.bpf.add_process(descendant.pid, None, true)?;
        self.apply(finding, observer)
    }

    /// Reads all waiting records.
    fn receive(&mut self) {
        let Self {
            bpf,
            aggregator,
            python,
            unwind_tables,
            events,
            absent_pages,
            ..
        } = self;
        bpf.drain(|bytes| match decode(bytes) {
            Ok(Record::Sample(sample)) => aggregator.add_sample(&sample),
            Ok(Record::Stack(stack)) => aggregator.add_stack(stack),
            Ok(Record::CodeObject(code)) => python.add(&code),
            Ok(Record::LineTablePiece(piece)) => python.add_piece(&piece),
            Ok(Record::ThreadName(thread)) => aggregator.add_thread(
                thread.head.tgid,
                thread.head.tid,
                python.thread_name(&thread),
            ),
            Ok(Record::ProcessEvent(event)) => events.push(event),
            Ok(Record::AbsentPage(page)) => absent_pages.push(page),
            Ok(Record::NativeStack(stack)) => aggregator.add_native_stack(stack),
            Ok(Record::WantedTable(wanted)) => {
                if let Some(tables) = unwind_tables {
                    tables.request(&wanted);
                }
            }
            Err(_) => aggregator.add_malformed(),
        });
    }
}

/// Logs an error that must not end the agent of a host.
pub fn warn_on_error(result: Result<()>) {
    if let Err(error) = result {
        warn!("{error:#}");
    }
}

/// Waits until tables were compiled or loaded; for ever where there are none.
async fn table_jobs(tables: Option<&mut UnwindTables>) -> Vec<TableJob> {
    match tables {
        Some(tables) => tables.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until `time`, or for ever.
pub async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
