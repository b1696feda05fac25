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
#[cfg(feature = "recorder")]
pub mod recorder;
#[cfg(feature = "testing")]
pub mod recording;
mod seed;
mod signals;
mod stages;
mod unwind_tables;

pub use self::{
    clock::Began,
    end::{End, EndReason},
    observer::Observer,
    signals::Signals,
    stages::{KERNEL_THREADS_NAME, Stages},
};

use std::time::{Duration, Instant};

use agent_common::{
    maps::KERNEL_THREADS,
    record::{ProcessEvent, ProcessEventKind},
};
use anyhow::Result;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep_until};
use tracing::warn;

use self::{
    seed::random_seed,
    unwind_tables::{TableJob, UnwindTables},
};
use crate::{
    aggregate::Filter,
    bpf::{self, Bpf, Counters, InterpreterLocation, LoadOptions},
    process::{self, Descendant},
    profile::Profile,
    targets::{
        discovery::{Discovery, Finding},
        launch::Program,
    },
};

/// How often the ring buffer is read when no wake-up comes.
const DRAIN_INTERVAL: Duration = Duration::from_millis(200);

/// How to sample.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Time between two samples of a CPU.
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
        finding: Option<Box<Finding>>,
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
    /// The stages that need no kernel.
    pub stages: Stages,
    discovery: Discovery,
    /// [`None`] when only Python frames are wanted.
    unwind_tables: Option<UnwindTables>,
    gil: bool,
    ticks: Interval,
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
        // The loader has parsed the kernel's types, several MB.
        memory::trim();
        let mut ticks = interval(DRAIN_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut session = Self {
            bpf,
            stages: Stages::new(settings.native, is_host, settings.symbol_bytes),
            discovery,
            unwind_tables: settings.native.then(UnwindTables::default),
            gil: settings.gil,
            ticks,
        };
        match scope {
            Scope::Process {
                pid,
                finding,
                children,
            } => {
                session.bpf.add_process(pid, None, children)?;
                if let Some(finding) = finding {
                    session.apply(*finding, observer)?;
                }
                if children {
                    // The BPF programs add those that start from now on.
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
            let executables = &session.stages.executables;
            tables.prepare(&mut session.bpf, executables).await?;
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

    /// Samples until `end`; its signals are forwarded to `program` if there is one.
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
            observer.on_progress(began.at.elapsed(), self.stages.aggregator.samples());
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
        let counters = self.counters()?;
        Ok(self.stages.profile(&about, filter, &counters)?)
    }

    /// What the BPF programs have counted so far.
    ///
    /// # Errors
    ///
    /// When the counters cannot be read.
    pub fn counters(&self) -> Result<Counters, bpf::Error> {
        let counters = self.bpf.counters()?;
        #[cfg(feature = "recorder")]
        recorder::counters(&counters);
        Ok(counters)
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
        let Self { bpf, stages, .. } = self;
        bpf.drain(|bytes| stages.receive(bytes));
        let pending = stages.take_pending();
        if let Some(tables) = &mut self.unwind_tables {
            for wanted in &pending.wanted_tables {
                tables.request(&stages.executables, wanted);
            }
        }
        let mut result = Ok(());
        for event in &pending.events {
            result = result.and(self.on_event(event, observer));
        }
        while let Some(finding) = self.discovery.examine_due(Instant::now()) {
            result = result.and(self.apply(finding, observer));
        }
        for page in pending.absent_pages {
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
            Some(tables) if !wake.0.is_empty() => {
                tables.advance(&mut self.bpf, &self.stages.executables, wake.0)
            }
            _ => Ok(()),
        }
    }

    /// Acts on a process event.
    fn on_event<O: Observer>(&mut self, event: &ProcessEvent, observer: &mut O) -> Result<()> {
        let is_fork = event.kind == ProcessEventKind::FORKED;
        if is_fork && !self.bpf.is_copy(event.tgid, event.parent)? {
            // Forked before the maps had the present state of its parent.
            let finding = self.discovery.add_descendant(Descendant {
                pid: event.tgid,
                parent: event.parent,
            });
            if let Some(finding) = finding {
                return self.apply(finding, observer);
            }
        }
        self.stages.on_event(event, observer);
        if self.unwind_tables.is_some() {
            match event.kind {
                ProcessEventKind::FORKED => self.bpf.share_mappings(event.tgid, event.parent),
                ProcessEventKind::EXECUTED | ProcessEventKind::EXITED => {
                    self.bpf.remove_mappings(event.tgid);
                }
                _ => {}
            }
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
        let opened = finding.opened.as_ref();
        let added = self.stages.add_process(finding.process, opened, observer);
        if let (Some(tables), Some(mappings)) = (&mut self.unwind_tables, added.mappings) {
            tables.add_process(&mut self.bpf, &self.stages.executables, pid, &mappings)?;
        }
        if let Some(exclude) = added.exclude {
            self.bpf.set_excluded(pid, exclude)?;
        }
        Ok(())
    }

    /// Adds the process that stands for the threads of the kernel.
    fn add_kernel_threads<O: Observer>(&mut self, observer: &mut O) -> Result<()> {
        self.bpf.add_process(KERNEL_THREADS, None, false)?;
        if let Some(exclude) = self.stages.add_kernel_threads(observer).exclude {
            self.bpf.set_excluded(KERNEL_THREADS, exclude)?;
        }
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
