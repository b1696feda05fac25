//! One sampling session: loads the BPF programs, turns their records into profiles, and keeps the
//! maps that the programs read up to date.
//!
//! ```text
//! thread drain      ring buffer ─► counts of samples
//!                      │    ├────► pages ─► thread pages, for events of memory in use
//!                      │    ├────► copies of stacks ─► thread unwind, for code that is not known yet
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
//! waits for no other; what belongs to others is read by [workers](crate::workers), and by threads that are left behind
//! if something holds them up.

mod allocations;
mod clock;
mod continued_walks;
mod core_dump;
mod counting;
mod coverage;
mod drain;
mod end;
mod eviction;
mod eviction_schedule;
mod examinations;
mod finishing;
mod following;
mod joining;
mod lock_releases;
pub mod memory;
mod observer;
mod outside;
mod pages;
mod probes;
mod processes;
mod profile_builder;
mod profiles;
mod raises;
mod recorded_kinds;
#[cfg(feature = "recorder")]
pub mod recorder;
#[cfg(feature = "testing")]
pub mod recording;
mod remaining;
mod rescan;
mod rescan_schedule;
mod running_threads;
mod scope;
mod seed;
mod settings;
mod signals;
mod snapshot;
mod status;
mod thread_names;
mod traced_times;
mod unwind_tables;
mod wake;
mod windows;

#[cfg(feature = "testing")]
pub use self::counting::{Counting, Received};
pub use self::{
    clock::Began,
    core_dump::{CoreProfile, read_core},
    drain::DrainStatus,
    end::{End, EndReason},
    eviction_schedule::{Due, EXECUTABLES_STAY, EvictionSchedule, InUse},
    examinations::Examinations,
    following::Follow,
    observer::{Followed, Observer, Origin},
    outside::{OutsideSession, examine_descendants},
    profile_builder::ProfileBuilder,
    profiles::{KERNEL_THREADS_NAME, Profiles},
    scope::Scope,
    settings::{SampleTimes, Settings},
    signals::Signals,
    unwind_tables::LeftOut,
};

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use agent_common::record::ProfileKind;
use anyhow::{Context as _, Result};
use tokio::{
    sync::oneshot,
    task::spawn_blocking,
    time::{Interval, MissedTickBehavior, interval, sleep_until, timeout},
};
use tracing::warn;

use self::{
    allocations::Allocations,
    coverage::Coverage,
    drain::Drain,
    examinations::Running,
    following::Following,
    pages::{PageEvents, Pages},
    probes::ProbeSites,
    raises::Raises,
    rescan_schedule::RescanSchedule,
    seed::random_seed,
    settings::{counting_of, large_tables, load_options, passes_of},
    unwind_tables::UnwindTables,
};
use crate::{
    bpf::Bpf,
    process,
    profile::Kind,
    symbolize::{Haste, NativeSymbolizer},
    targets::{discovery::Discovery, launch::Program},
    text::with_causes,
    threads::{self, Passes, ProcessLocations, StackRest, UnfinishedStacks},
};

/// How often the session looks after what no event announces.
const TICK: Duration = Duration::from_secs(1);

/// Most time until the processes that run already have been examined when sampling starts.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Most time after that until their unwind tables are loaded.
const TABLES_LIMIT: Duration = Duration::from_secs(2);

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
    process_locations: ProcessLocations,
    /// [`None`] before sampling starts, and where exceptions are not recorded.
    raises: Option<Box<Raises>>,
    /// For that.
    raise_sites: ProbeSites,
    /// [`None`] before sampling starts, and where allocations are not recorded.
    allocations: Option<Box<Allocations>>,
    /// For that.
    allocation_sites: ProbeSites,
    /// Of which processes nothing is recorded, by kinds of which probes have the samples; empty for a host.
    coverage: HashMap<ProfileKind, Coverage>,
    /// [`None`] before sampling starts, and where no kind is about pages.
    pages: Option<Box<Pages>>,
    /// For that; taken when sampling starts.
    page_events: Option<PageEvents>,
    examinations: Examinations,
    running: Running,
    discovery: Discovery,
    /// Processes that ran before the session and are not in the BPF maps yet.
    earlier: HashSet<u32>,
    /// [`None`] where no processes are sampled that start later, but for descendants.
    following: Option<Box<Following>>,
    /// [`None`] when only Python frames are wanted.
    unwind_tables: Option<UnwindTables>,
    /// [`None`] when only Python frames are wanted, or each thread's stack once.
    unfinished: Option<UnfinishedStacks>,
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
        let options = load_options(settings, &scope, hash_seed);
        let raise_sites = ProbeSites::new("exceptions", scope.has_known_processes());
        let loading = spawn_blocking(move || Bpf::load(&options));
        let mut unwind_tables = settings.native.then(|| {
            UnwindTables::new(large_tables(settings, &scope), examinations.workers.clone())
        });
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
        let (page_sender, page_events) = pages::channel(&settings.kinds).unzip();
        let pass_settings = passes_of(settings, hash_seed);
        let traced = pass_settings.traced.clone();
        let counting = counting_of(settings)
            .with_pages(page_sender)
            .with_traced_waits(traced);
        let unfinished = start_unwinding(&mut bpf, &profiles)?;
        let sender = unfinished.as_ref().map(UnfinishedStacks::sender);
        let drain = Drain::start(ring, profiles.references(), sender, counting)?;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut session = Self {
            bpf,
            profiles,
            drain,
            passes: None,
            pass_settings,
            process_locations: ProcessLocations::default(),
            raises: None,
            raise_sites,
            allocations: None,
            // All processes of a host have the C library, whether they are profiled or not.
            allocation_sites: ProbeSites::new("allocations", true),
            coverage: HashMap::new(),
            pages: None,
            page_events,
            running: Running::default(),
            discovery: match scope {
                Scope::Host { examine_after } => Discovery::delayed(examine_after),
                Scope::Processes { .. } | Scope::Unstarted { .. } => Discovery::default(),
            },
            earlier: HashSet::new(),
            following: None,
            unwind_tables,
            unfinished,
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
            Scope::Processes {
                found,
                children,
                follow,
            } => {
                let following = follow.map(|follow| Following::new(follow, children));
                session.following = following.map(Box::new);
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
            if let Ok(prepared) = timeout(TABLES_LIMIT, prepared).await {
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
            let raises = Raises::start(probe, &self.raise_sites)?;
            self.raises = Some(Box::new(raises));
        }
        if let Some(probes) = self.bpf.take_allocation_probes() {
            let allocations = Allocations::start(probes, &self.allocation_sites)?;
            self.allocations = Some(Box::new(allocations));
        }
        if let Some(events) = self.page_events.take()
            && let Some(sampled) = self.bpf.take_sampled_pages()
        {
            let batches = self.drain.batches();
            let pages = Pages::start(&self.kinds, events, sampled, batches)?;
            self.pages = Some(Box::new(pages));
        }
        let began = Began::now();
        self.bpf.start()?;
        if let Some(maps) = self.bpf.take_pass_maps() {
            let settings = self.pass_settings.clone();
            let batches = self.drain.batches();
            let locations = self.process_locations.clone();
            let workers = self.examinations.workers.clone();
            let passes = Passes::start(settings, maps, locations, workers, batches)?;
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
        if let Some(deadline) = end.begin(began)
            && let Some(passes) = &self.passes
        {
            passes.set_end(deadline.into());
        }
        loop {
            tokio::select! {
                reason = end.wait(program) => return Ok(reason),
                wake = self.wait() => self.act(wake, observer)?,
            }
            self.bpf.sync_online_cpus()?;
            observer.on_progress(began.at.elapsed(), self.samples());
            if let Some(followed) = self.followed() {
                observer.on_followed(&followed);
            }
        }
    }

    /// The kinds of the profiles of samples that are recorded as this kind.
    #[must_use]
    pub fn kinds_of(&self, recorded: ProfileKind) -> Vec<&'static Kind> {
        let kinds = self.kinds.iter().copied();
        kinds
            .filter(|kind| kind.recorded_as() == recorded)
            .collect()
    }

    /// Has profiles built at once, with what can be looked up in a moment.
    #[must_use]
    pub fn haste(&self) -> Haste {
        self.haste.clone()
    }

    /// The examinations of processes.
    #[must_use]
    pub fn examinations(&self) -> &Examinations {
        &self.examinations
    }
}

/// Starts to continue the walks of native stacks, where that is wanted.
fn start_unwinding(bpf: &mut Bpf, profiles: &ProfileBuilder) -> Result<Option<UnfinishedStacks>> {
    let Some(maps) = bpf.take_walk_maps() else {
        return Ok(None);
    };
    let profiles = profiles.clone();
    let deliver = move |rest: StackRest| {
        // Nobody waits for it.
        drop(profiles.run(move |profiles| profiles.finish_stack(rest)));
    };
    let stacks = UnfinishedStacks::start(maps, deliver);
    stacks.map(Some).context("cannot start a thread")
}

/// Logs an error that must not end the agent of a host.
pub fn warn_on_error(result: Result<()>) {
    if let Err(error) = result {
        warn!("{}", with_causes(&error));
    }
}

/// Waits until `time`, or for ever.
pub async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
