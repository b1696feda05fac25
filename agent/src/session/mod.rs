//! One sampling session: loads the BPF programs, turns their records into profiles, and keeps the
//! maps that the programs read up to date.
//!
//! ```text
//! thread drain      ring buffer ─► counts of samples
//!                      │    └────► events ─► session (this thread) ─► examinations, unwind tables
//!                      ▼                                                   │ on worker threads
//! thread profiles   stacks, code objects; windows ─► profiles             ▼
//!                                                                      BPF maps
//! ```
//!
//! A capture, the agent of a host and `doctor` all start here, with [`Session::open`] and then
//! [`Session::start`].
//!
//! Invariants: this room alone connects the stages; what it finds out about processes goes to an
//! [`Observer`], so that it depends on none of its owners; the thread that drains the ring buffer
//! waits for no other; what belongs to others is read by [workers](crate::workers) alone.

mod clock;
mod counting;
mod drain;
mod end;
mod eviction_schedule;
mod examinations;
mod lock_releases;
pub mod memory;
mod observer;
mod processes;
mod profile_builder;
mod profiles;
mod raises;
#[cfg(feature = "recorder")]
pub mod recorder;
#[cfg(feature = "testing")]
pub mod recording;
mod rescan;
mod rescan_schedule;
mod running_threads;
mod seed;
mod signals;
mod snapshot;
mod thread_names;
mod unwind_tables;

#[cfg(feature = "testing")]
pub use self::counting::{Counting, Received};
pub use self::{
    clock::Began,
    counting::Events,
    drain::DrainStatus,
    end::{End, EndReason},
    eviction_schedule::{Due, EvictionSchedule, GENERATION, InUse},
    examinations::Examinations,
    observer::{Observer, Origin},
    profile_builder::ProfileBuilder,
    profiles::{KERNEL_THREADS_NAME, Profiles},
    signals::Signals,
    unwind_tables::LeftOut,
};

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use agent_common::record::ProfileKind;
use anyhow::{Context as _, Result};
use tokio::{
    sync::oneshot::{self, error::TryRecvError},
    task::spawn_blocking,
    time::{Interval, MissedTickBehavior, interval, sleep_until, timeout_at},
};
use tracing::warn;

use self::{
    drain::Drain,
    examinations::{Examined, Running},
    raises::{RaiseSites, Raises},
    rescan_schedule::RescanSchedule,
    seed::random_seed,
    unwind_tables::{TableJob, UnwindTables},
};
use crate::{
    aggregate::{Filter, Window},
    binaries::executables::MappedExecutables,
    bpf::{self, Bpf, Counters, LoadOptions, Visits},
    process,
    profile::{CPU, Kind, Periods, Profile, RecordedExceptions},
    symbolize::{Haste, NativeSymbolizer},
    targets::{discovery::Discovery, examiner::Finding, launch::Program},
    threads::{self, GilLocations, LockNaming, PassStatus, Passes, WaitRecords},
    workers::WorkersStatus,
};

/// How often the session looks after what no event announces.
const TICK: Duration = Duration::from_secs(1);

/// Most time until the processes that run already have been examined when sampling starts.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Most time that a window waits for examinations of its processes when it has ended.
const SETTLE_LIMIT: Duration = Duration::from_millis(500);

/// Most time for building a profile after a signal has ended the capture. Look-ups end long before, by
/// [`Haste`]; what is left takes longer only where other processes use the CPUs, and is no reason to
/// lose the profile.
const FINISH_LIMIT: Duration = Duration::from_secs(5);

/// How to sample.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to sample.
    pub kinds: Vec<&'static Kind>,
    /// Time between two samples.
    pub periods: Periods,
    /// Whether to walk native and kernel frames too.
    pub native: bool,
    /// Whether to look at who holds the GIL.
    pub gil: bool,
    /// Whether samples of threads that keep others waiting say which, and names of locks have their addresses.
    pub wait_identities: bool,
    /// What is wanted of waits besides samples.
    pub records: WaitRecords,
    /// Which exceptions are recorded.
    pub exceptions: RecordedExceptions,
    /// Whether profiles say when their samples were taken.
    pub times: SampleTimes,
    /// Most bytes that the symbols of files take.
    pub symbol_bytes: usize,
}

/// What becomes of the times of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleTimes {
    /// They are dropped: samples are counted alone.
    #[default]
    Dropped,
    /// The profiles of the session have a [timeline](Profile::timeline).
    Kept,
}

/// How to name the locks for which threads wait, if a kind is about them.
fn lock_naming(settings: &Settings) -> Option<LockNaming> {
    let mut kinds = settings.kinds.iter();
    let naming = if settings.wait_identities {
        LockNaming::WithAddresses
    } else {
        LockNaming::WithoutAddresses
    };
    kinds.any(|kind| kind.is_about_locks()).then_some(naming)
}

/// What counts the samples of a session.
fn counting_of(settings: &Settings) -> counting::Counting {
    let has = |is_of: fn(&Kind) -> bool| settings.kinds.iter().any(|kind| is_of(kind));
    let mut counting = counting::Counting::default();
    if has(Kind::is_of_passes) {
        let wants_cpu = has(Kind::is_cpu);
        let snapshot = settings.records.snapshot.clone();
        counting = counting::Counting::with_passes(wants_cpu, settings.wait_identities)
            .with_snapshot(snapshot);
        if has(Kind::is_about_releases) {
            counting = counting.with_lock_releases();
        }
    }
    match settings.times {
        SampleTimes::Kept => counting.with_times(),
        SampleTimes::Dropped => counting,
    }
}

/// What to sample.
#[derive(Debug)]
pub enum Scope {
    /// Some processes.
    Processes {
        /// Each of them once.
        found: Vec<Finding>,
        /// Whether to sample their descendants too.
        children: bool,
    },
    /// A process that has not run its program yet.
    Unstarted {
        /// Its id.
        pid: u32,
        /// Whether to sample its descendants too.
        children: bool,
    },
    /// Every process of the host, and the kernel's threads.
    Host {
        /// Time after exec until a program is examined if it is not sampled before.
        examine_after: Duration,
    },
}

impl Scope {
    /// These processes, and their descendants where `children` says so.
    #[must_use]
    pub fn of(found: Vec<Finding>, children: bool) -> Self {
        Self::Processes { found, children }
    }

    /// The threads that passes visit.
    fn visits(&self, has_passes: bool) -> Visits {
        match self {
            _ if !has_passes => Visits::None,
            Self::Unstarted {
                pid,
                children: false,
            } => Visits::OfProcess(*pid),
            Self::Processes {
                found,
                children: false,
            } => match &**found {
                [one] => Visits::OfProcess(one.process.pid),
                _ => Visits::OfAll,
            },
            _ => Visits::OfAll,
        }
    }

    /// Whether no process comes to be sampled that is not known when sampling starts.
    fn has_known_processes(&self) -> bool {
        matches!(
            self,
            Self::Processes {
                children: false,
                ..
            }
        )
    }

    /// The processes that were examined, and what they map.
    fn mapped(&self) -> impl Iterator<Item = (u32, &MappedExecutables)> {
        let found = match self {
            Self::Processes { found, .. } => &**found,
            Self::Unstarted { .. } | Self::Host { .. } => &[],
        };
        found
            .iter()
            .filter_map(|one| Some((one.process.pid, one.mapped.as_ref()?)))
    }
}

/// Why [`Session::wait`] returned.
pub struct Wake(Cause);

enum Cause {
    Events(Events),
    Examined(Box<Examined>),
    Tables(Vec<TableJob>),
    Due,
    Tick,
}

/// A sampling session.
pub struct Session {
    /// The BPF programs and their maps.
    pub bpf: Bpf,
    /// The thread that builds profiles.
    pub profiles: ProfileBuilder,
    drain: Drain,
    /// [`None`] before sampling starts, and where no kind has samples of passes.
    passes: Option<Box<Passes>>,
    pass_settings: threads::Settings,
    /// For the passes.
    gil_locations: GilLocations,
    /// [`None`] before sampling starts, and where exceptions are not recorded.
    raises: Option<Raises>,
    /// For that.
    raise_sites: RaiseSites,
    examinations: Examinations,
    running: Running,
    discovery: Discovery,
    /// Processes that ran before the session and are not in the BPF maps yet.
    earlier: HashSet<u32>,
    /// [`None`] when only Python frames are wanted.
    unwind_tables: Option<UnwindTables>,
    /// Executables that were not mapped since this time are to be forgotten, as soon as all profiles
    /// are built that were requested before.
    forgetting: Option<(Instant, oneshot::Receiver<()>)>,
    /// Times that the layout of a process found no room.
    layouts_left_out: u64,
    rescan: RescanSchedule,
    /// Begins when a profile is wanted at once.
    haste: Haste,
    is_host: bool,
    gil: bool,
    /// What is sampled.
    kinds: Vec<&'static Kind>,
    ticks: Interval,
}

impl Session {
    /// Loads the BPF programs and fills their maps, so that the first samples are complete, as far as
    /// none of `signals` arrives meanwhile.
    ///
    /// # Errors
    ///
    /// One sentence that says what to do.
    pub async fn open<O: Observer>(
        settings: &Settings,
        examinations: Examinations,
        scope: Scope,
        signals: &mut Signals,
        observer: &mut O,
    ) -> Result<Self> {
        let is_host = matches!(scope, Scope::Host { .. });
        let hash_seed = random_seed();
        let has_passes = settings.kinds.iter().any(|kind| kind.is_of_passes());
        let lock_releases = settings.kinds.iter().any(|kind| kind.is_about_releases());
        let options = LoadOptions {
            kinds: sampled_kinds(settings),
            period: settings.periods.clock,
            hash_seed,
            with_native: settings.native,
            whole_host: is_host,
            visits: scope.visits(has_passes),
            lock_releases,
            exceptions: settings.exceptions,
        };
        let raise_sites = RaiseSites::new(scope.has_known_processes());
        let loading = spawn_blocking(move || Bpf::load(&options));
        let mut unwind_tables = settings
            .native
            .then(|| UnwindTables::new(examinations.workers.clone()));
        if let Some(tables) = &mut unwind_tables {
            // The first tables are compiled while the kernel verifies the programs.
            for (pid, mapped) in scope.mapped() {
                examinations.executables.set_process(pid, mapped);
                tables.begin(&examinations.executables, pid);
            }
        }
        let mut bpf = loading.await.context("the BPF programs are not loaded")??;
        // The loader has parsed the programs and their types, several MB.
        memory::trim();
        let ring = bpf.take_ring().context("there is no ring buffer")?;
        let native = settings
            .native
            .then(|| NativeSymbolizer::new(settings.symbol_bytes, examinations.workers.clone()));
        let haste = native.as_ref().map(NativeSymbolizer::haste);
        let profiles = Profiles::new(native, examinations.executables.clone());
        let profiles = ProfileBuilder::start(profiles)?;
        let drain = Drain::start(ring, profiles.references(), counting_of(settings))?;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut session = Self {
            bpf,
            profiles,
            drain,
            passes: None,
            pass_settings: threads::Settings {
                period: settings.periods.passes,
                hash_seed,
                with_native: settings.native,
                with_gil: settings.kinds.iter().any(|kind| kind.is_about_gil()),
                locks: lock_naming(settings),
                records: settings.records.clone(),
            },
            gil_locations: GilLocations::default(),
            raises: None,
            raise_sites,
            running: Running::default(),
            discovery: match scope {
                Scope::Host { examine_after } => Discovery::delayed(examine_after),
                Scope::Processes { .. } | Scope::Unstarted { .. } => Discovery::default(),
            },
            earlier: HashSet::new(),
            unwind_tables,
            examinations,
            forgetting: None,
            layouts_left_out: 0,
            rescan: RescanSchedule::default(),
            haste: haste.unwrap_or_default(),
            is_host,
            // Why a thread waits depends on it.
            gil: settings.gil || has_passes,
            kinds: settings.kinds.clone(),
            ticks,
        };
        match scope {
            Scope::Processes { found, children } => {
                session.add_targets(found, children, observer)?;
            }
            Scope::Unstarted { pid, children } => session.add_unstarted(pid, children)?,
            Scope::Host { .. } => {
                for descendant in process::descendants(&[0]) {
                    session.add_descendant(descendant)?;
                }
                if settings.native {
                    warn_on_error(session.add_kernel_threads(observer));
                }
            }
        }
        tokio::select! {
            prepared = session.prepare(observer) => prepared?,
            () = signals.arrived() => {}
        }
        Ok(session)
    }

    /// Waits for the examinations of the processes and for their unwind tables. Cancel safe.
    async fn prepare<O: Observer>(&mut self, observer: &mut O) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        self.finish_examinations(deadline, observer).await?;
        if let Some(tables) = &mut self.unwind_tables {
            let executables = &self.examinations.executables;
            let prepared = tables.prepare(&mut self.bpf, executables);
            // Later tables are put to use as they come.
            if let Ok(prepared) = timeout_at(deadline.into(), prepared).await {
                prepared?;
            }
        }
        Ok(())
    }

    /// Starts to sample.
    ///
    /// # Errors
    ///
    /// When the kernel refuses the events.
    pub fn start(&mut self) -> Result<Began> {
        if let Some(probe) = self.bpf.take_raise_probe() {
            self.raises = Some(Raises::start(probe, self.raise_sites.clone())?);
        }
        let began = Began::now();
        self.bpf.start()?;
        if let Some(maps) = self.bpf.take_pass_maps() {
            let settings = self.pass_settings.clone();
            let batches = self.drain.batches();
            let gils = self.gil_locations.clone();
            let workers = self.examinations.workers.clone();
            let passes = Passes::start(settings, maps, gils, workers, batches)?;
            self.passes = Some(Box::new(passes));
        }
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
            tokio::select! {
                reason = end.wait(program) => return Ok(reason),
                wake = self.wait() => self.act(wake, observer)?,
            }
            self.bpf.sync_online_cpus()?;
            observer.on_progress(began.at.elapsed(), self.samples());
        }
    }

    /// Stops sampling and returns the profiles of the whole session, one of each kind.
    ///
    /// When a signal has ended the session, or `end` gets one meanwhile, what takes longer than a
    /// moment is left out.
    ///
    /// # Errors
    ///
    /// When the BPF programs or their maps fail, or the filter's thread was never seen.
    pub async fn finish(
        &mut self,
        began: &Began,
        periods: Periods,
        filter: &Filter,
        reason: EndReason,
        end: &mut End,
        program: Option<&Program>,
    ) -> Result<Vec<Profile>> {
        if let Some(passes) = &mut self.passes {
            passes.stop();
        }
        if let Some(raises) = &mut self.raises {
            raises.stop();
        }
        self.bpf.stop()?;
        let about = began.about(periods);
        let kinds = self.kinds.clone();
        let mut window = self.take_window(&mut ()).await?;
        window.set_start(began.monotonic_ns);
        let counters = self.counters()?;
        let filter = filter.clone();
        let building = self.profiles.run(move |profiles| {
            let profiles = kinds.iter().map(|kind| {
                let about = about.of_kind(kind);
                profiles.profile(&window, &about, &filter, &counters)
            });
            profiles.collect::<Result<Vec<_>, _>>()
        });
        let mut building = std::pin::pin!(building);
        let built = tokio::select! {
            built = &mut building => built,
            () = end.interrupted(reason, program) => {
                self.haste.begin();
                let limit = Instant::now() + FINISH_LIMIT;
                timeout_at(limit.into(), building)
                    .await
                    .context("the profile could not be built in time")?
            }
        };
        Ok(built.context("the thread that builds profiles has ended")??)
    }

    /// The kinds of the profiles of samples that are recorded as this kind.
    #[must_use]
    pub fn kinds_of(&self, recorded: ProfileKind) -> Vec<&'static Kind> {
        let kinds = self.kinds.iter().copied();
        kinds
            .filter(|kind| kind.recorded_as() == recorded)
            .collect()
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

    /// Has profiles built at once, with what can be looked up in a moment.
    #[must_use]
    pub fn haste(&self) -> Haste {
        self.haste.clone()
    }

    /// Samples in the present window so far.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.drain.status().samples.load(Ordering::Relaxed)
    }

    /// What the thread that drains the ring buffer is doing.
    #[must_use]
    pub fn drain_status(&self) -> &Arc<DrainStatus> {
        self.drain.status()
    }

    /// What the passes over the threads are doing; [`None`] where there are none.
    #[must_use]
    pub fn pass_status(&self) -> Option<&PassStatus> {
        self.passes.as_ref().map(|passes| passes.status())
    }

    /// CPU time that grows with the sampling rate: that of the thread that drains the ring buffer,
    /// and of the sampling program where the kernel measures it.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let drain = self.drain.status().cpu_ns.load(Ordering::Relaxed);
        let program = self
            .bpf
            .run_stats()
            .map_or(0, |(_, nanoseconds)| nanoseconds);
        Duration::from_nanos(drain.saturating_add(program))
    }

    /// How many times something found no room in the BPF maps.
    #[must_use]
    pub fn left_out(&self) -> LeftOut {
        let tables = self.unwind_tables.as_ref();
        LeftOut {
            layouts: self.layouts_left_out,
            ..tables.map(UnwindTables::left_out).unwrap_or_default()
        }
    }

    /// What the worker threads are doing.
    #[must_use]
    pub fn workers_status(&self) -> WorkersStatus {
        self.examinations.workers.status()
    }

    /// The examinations of processes.
    #[must_use]
    pub fn examinations(&self) -> &Examinations {
        &self.examinations
    }

    /// Closes the window and starts the next; returns it when its processes are known, as far as they
    /// are within a moment.
    ///
    /// # Errors
    ///
    /// When a map cannot be written, or the ring buffer is no longer read.
    pub async fn take_window<O: Observer>(&mut self, observer: &mut O) -> Result<Window> {
        let mut window = self.drain.take_window().await?;
        if let Some(raises) = &self.raises {
            let estimate = raises.take_estimate();
            window.set_unrecorded(estimate.unrecorded_ms, estimate.variance);
        }
        self.settle(observer).await?;
        Ok(window)
    }

    /// Opens a window in addition to the one that is always open, and returns its number.
    ///
    /// # Errors
    ///
    /// When the ring buffer is no longer read.
    pub async fn open_window(&self) -> Result<u64> {
        self.drain.open_window().await
    }

    /// Closes such a window; [`None`] if there is none with this number.
    ///
    /// # Errors
    ///
    /// When the ring buffer is no longer read.
    pub async fn close_window<O: Observer>(
        &mut self,
        number: u64,
        observer: &mut O,
    ) -> Result<Option<Window>> {
        let window = self.drain.close_window(number).await?;
        self.settle(observer).await?;
        Ok(window)
    }

    /// Acts on the events that have arrived, and waits for the examinations that they lead to.
    async fn settle<O: Observer>(&mut self, observer: &mut O) -> Result<()> {
        while let Some(events) = self.drain.waiting_events() {
            self.act_on(&events, observer)?;
        }
        self.finish_examinations(Instant::now() + SETTLE_LIMIT, observer)
            .await
    }

    async fn finish_examinations<O: Observer>(
        &mut self,
        deadline: Instant,
        observer: &mut O,
    ) -> Result<()> {
        let mut result = Ok(());
        while !self.running.is_empty() {
            match timeout_at(deadline.into(), self.running.next()).await {
                Ok(examined) => {
                    let accepted = self.accept(examined, observer);
                    if self.is_host {
                        warn_on_error(accepted);
                    } else {
                        result = result.and(accepted);
                    }
                }
                Err(_) => break,
            }
        }
        result
    }

    /// Waits until there is something to act on.
    ///
    /// Cancel safe: it may be dropped at any time and called again.
    pub async fn wait(&mut self) -> Wake {
        Wake(tokio::select! {
            events = self.drain.events() => Cause::Events(events),
            examined = self.running.next() => Cause::Examined(Box::new(examined)),
            done = table_jobs(self.unwind_tables.as_mut()) => Cause::Tables(done),
            () = until(self.discovery.next_due()) => Cause::Due,
            _ = self.ticks.tick() => Cause::Tick,
        })
    }

    /// Acts on what [`Self::wait`] has returned; returns the first error after all of it.
    ///
    /// # Errors
    ///
    /// When a map cannot be written.
    pub fn act<O: Observer>(&mut self, wake: Wake, observer: &mut O) -> Result<()> {
        match wake.0 {
            Cause::Events(events) => self.act_on(&events, observer),
            Cause::Examined(examined) => self.accept(*examined, observer),
            Cause::Tables(done) => match &mut self.unwind_tables {
                Some(tables) => tables.advance(&mut self.bpf, &self.examinations.executables, done),
                None => Ok(()),
            },
            Cause::Due => {
                let mut result = Ok(());
                while let Some(examination) = self.discovery.begin_due(Instant::now()) {
                    result = result.and(self.run_examination(examination));
                }
                result
            }
            Cause::Tick => {
                self.bpf.flush_log();
                if let Some(passes) = &mut self.passes {
                    passes.supervise()?;
                }
                self.forget_due()?;
                if self.profiles.take_lost() {
                    warn!("stacks were dropped because too much was waiting: they are sent again");
                    self.bpf.resend()?;
                }
                self.rescan_after_loss(observer)
            }
        }
    }
}

impl Session {
    /// Evicts from the caches what is due at the end of a window.
    pub fn evict(&mut self, due: Due) {
        if due.release {
            self.profiles.run(|profiles| {
                if let Some(native) = &mut profiles.native {
                    native.release_memory();
                }
            });
        }
        if due.generation {
            // The BPF programs resend what is still needed; what they did not send since the last
            // rotation is evicted.
            match self.bpf.resend() {
                Ok(()) => {
                    self.profiles.run(Profiles::rotate);
                }
                Err(error) => warn!("caches are not rotated: {error}"),
            }
        }
    }

    /// Forgets the executables that were not mapped since `unused_before`, once all profiles are built
    /// that were requested so far. No open window may have samples from before that time.
    pub fn forget_executables(&mut self, unused_before: Instant) {
        // One at a time: if profiles take long, the next window has the next opportunity.
        if self.forgetting.is_none() {
            let built = self.profiles.run(Profiles::release_files);
            self.forgetting = Some((unused_before, built));
        }
    }

    /// Forgets executables that are due, and others where there are too many.
    fn forget_due(&mut self) -> Result<()> {
        let mut unused_before = None;
        if let Some((before, mut built)) = self.forgetting.take() {
            match built.try_recv() {
                Ok(()) => unused_before = Some(before),
                Err(TryRecvError::Empty) => self.forgetting = Some((before, built)),
                Err(TryRecvError::Closed) => {}
            }
        }
        let executables = &self.examinations.executables;
        match &mut self.unwind_tables {
            Some(tables) => tables.forget(&mut self.bpf, executables, unused_before),
            None => Ok(()),
        }
    }
}

/// The kinds whose samples are to be taken from the start: passes need to know where threads run.
fn sampled_kinds(settings: &Settings) -> Vec<&'static Kind> {
    let kinds = &settings.kinds;
    let mut sampled = kinds.clone();
    if settings.records.snapshot.is_none()
        && kinds.iter().any(|kind| kind.is_of_passes())
        && !kinds.iter().any(|kind| kind.is_cpu())
    {
        sampled.push(&CPU);
    }
    sampled
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
