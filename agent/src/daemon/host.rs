//! The main loop of the agent of a host, and the end of a window.

mod limits;
mod reconfigure;

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use rustix::process::Signal;
use tokio::{
    sync::mpsc,
    time::{interval, sleep, sleep_until, timeout_at},
};
use tracing::{debug, info, warn};

use super::{
    cpu_limit::CpuLimit,
    destinations::Destinations,
    http_server::{Listener, Request},
    metrics,
    on_demand::OnDemandProfiles,
    reload::ReloadStatus,
    target_table::TargetTable,
    telemetry::{self, LogLevel, Usage},
    vitals::Vitals,
    window::{self, Totals},
};
use crate::{
    aggregate::Window,
    config::Config,
    export::{ExporterConfig, ProfileBatch, Unencodable},
    profile::Periods,
    session::{
        Began, EvictionSchedule, Examinations, SampleTimes, Scope, Session, Settings, Signals,
        until, warn_on_error,
    },
    symbolize::{CpuShare, CpuShares},
    targets::{kubernetes, labels::pods::PodLists},
    text::with_causes,
    threads::WaitRecords,
};

/// Time after exec until a program is examined if it is not sampled before.
const EXAMINE_AFTER: Duration = Duration::from_millis(100);

/// Limit of the cache of native symbols, in bytes.
const MAX_SYMBOL_BYTES: usize = 32 << 20;

/// Profiles that are built ahead of being passed to the exporters.
const BUILT_AHEAD: usize = 16;

/// CPU time for looking up inlined functions, files and lines in debugging information.
const SYMBOL_CPU: CpuShares = CpuShares {
    opening: CpuShare {
        burst: Duration::from_secs(2),
        per_second: Duration::from_millis(1),
    },
    look_ups: CpuShare {
        burst: Duration::from_millis(300),
        per_second: Duration::from_micros(1500),
    },
};

/// The agent of a host.
pub(super) struct Host {
    config: Config,
    session: Session,
    targets: TargetTable,
    pods: kubernetes::PodMetadata,
    exporters: Destinations,
    /// Profiles that were built.
    built: (mpsc::Sender<Built>, mpsc::Receiver<Built>),
    /// Windows of which not all profiles were built.
    windows_in_work: Arc<AtomicUsize>,
    vitals: Vitals,
    on_demand: OnDemandProfiles,
    totals: Totals,
    limit: CpuLimit,
    /// Present time between two samples.
    periods: Periods,
    /// When the window began.
    began: Began,
    /// When it ends.
    ends: Instant,
    log_level: LogLevel,
    reloads: ReloadStatus,
    schedule: EvictionSchedule,
}

/// What the exporters are to do next, in the order of the windows.
enum Built {
    /// Deliver a profile.
    Profile(Result<ProfileBatch, Unencodable>),
    /// Make room for exporters with this configuration, within this time.
    Exporters(Vec<ExporterConfig>, Duration),
}

impl Host {
    pub(super) async fn start(
        config: Config,
        exporters: Destinations,
        log_level: LogLevel,
        signals: &mut Signals,
    ) -> Result<Self> {
        let pods = kubernetes::PodMetadata::start(&config.kubernetes)?;
        let periods = config.periods();
        let settings = Settings {
            kinds: config.kinds.clone(),
            periods,
            native: config.native,
            gil: false,
            wait_identities: config.thread_labels,
            trace_switches: config.trace_switches,
            exceptions: config.exceptions,
            times: SampleTimes::Dropped,
            records: WaitRecords::default(),
            symbol_bytes: MAX_SYMBOL_BYTES,
        };
        let mut targets = TargetTable::new(&config);
        let examinations = Examinations::new(config.native);
        examinations.set_metadata(targets.metadata_options());
        examinations.workers.limit_cpu(config.max_cpu);
        let scope = Scope::Host {
            examine_after: EXAMINE_AFTER,
        };
        let mut session =
            Session::open(&settings, examinations, scope, signals, &mut targets).await?;
        session.profiles.run(|profiles| {
            if let Some(native) = &mut profiles.native {
                native.limit_cpu(SYMBOL_CPU);
            }
        });
        let began = session.start()?;
        let now = Instant::now();
        info!(
            rate = config.rate,
            window = ?config.window,
            exporters = config.exporters.len(),
            "sampling every process of this host"
        );
        Ok(Self {
            session,
            targets,
            pods,
            exporters,
            built: mpsc::channel(BUILT_AHEAD),
            windows_in_work: Arc::default(),
            vitals: Vitals::default(),
            on_demand: OnDemandProfiles::default(),
            totals: Totals::default(),
            limit: CpuLimit::new(config.max_cpu, Duration::ZERO),
            periods,
            began,
            // Agents that start together must not push together.
            ends: now + config.window.mul_f64(0.5 + fastrand::f64() / 2.0),
            log_level,
            reloads: ReloadStatus::started(),
            schedule: EvictionSchedule::new(now),
            config,
        })
    }

    /// Samples until a signal arrives.
    pub(super) async fn run(
        &mut self,
        signals: &mut Signals,
        listener: &mut Listener,
    ) -> Result<Signal> {
        let mut watchdog = interval(telemetry::watchdog_period());
        loop {
            self.request_pods();
            let room = self.room();
            tokio::select! {
                signal = signals.next() => return Ok(signal),
                wake = self.session.wait() => {
                    warn_on_error(self.session.act(wake, &mut self.targets));
                    self.sync_online_cpus();
                }
                Some(built) = next_built(&mut self.built.1, room) => self.push(built),
                are_new = self.exporters.replaced() => self.reloads.is_applied &= are_new,
                () = until(self.on_demand.next_due()) => {}
                () = sleep_until(self.ends.into()) => {}
                request = listener.next() => self.answer(request).await,
                lists = self.pods.next() => self.update_pods(lists),
                _ = watchdog.tick() => self.feed_watchdog(),
            }
            self.on_demand
                .answer(
                    &mut self.session,
                    &mut self.targets,
                    self.periods,
                    &self.config.filter(),
                )
                .await;
            if Instant::now() >= self.ends {
                self.end_window().await;
            }
        }
    }

    /// Feeds the watchdog while the threads make progress.
    fn feed_watchdog(&mut self) {
        if self.vitals.are_good(&self.session) {
            telemetry::feed_watchdog();
        }
    }

    /// Requests metadata of containers that are in no list yet.
    fn request_pods(&mut self) {
        if let Some(containers) = self.targets.unknown_containers() {
            self.pods.request(containers);
        }
    }

    /// Applies new lists of pods to the targets.
    fn update_pods(&mut self, lists: PodLists) {
        let changed = self.targets.update_pods(lists);
        self.exclude(changed);
    }

    /// Opens and closes sampling events as CPUs go online and offline.
    fn sync_online_cpus(&mut self) {
        match self.session.bpf.sync_online_cpus() {
            Ok(false) => {}
            Ok(true) => {
                self.totals.cpu_changes += 1;
                let cpus = self.session.bpf.sampled_cpus();
                info!(cpus, "online CPUs changed");
            }
            Err(error) => warn!("cannot sample the CPUs that went online: {error}"),
        }
    }

    /// Reports the window and begins the next one.
    async fn end_window(&mut self) {
        match self.session.take_window(&mut self.targets).await {
            Ok(window) => self.report(window),
            Err(error) => warn!("{}", with_causes(&error)),
        }
        self.evict();
        self.limit_rate();
        self.began = Began::now();
        self.ends = self.began.at + self.config.window;
    }

    /// Includes and excludes processes.
    fn exclude(&mut self, changed: Vec<(u32, bool)>) {
        for (pid, is_profiled) in changed {
            warn_on_error(
                self.session
                    .bpf
                    .set_excluded(pid, !is_profiled)
                    .map_err(Into::into),
            );
        }
    }

    /// Stops sampling and sends what is queued.
    pub(super) async fn end(mut self) -> Result<()> {
        let ends = Instant::now() + self.config.shutdown_timeout;
        self.session.bpf.stop()?;
        let window = self.session.take_window(&mut self.targets).await?;
        self.report(window);
        let mut all_built = self.session.profiles.run(|_| ());
        // The other half is for sending them.
        let mut patience = pin!(sleep(self.config.shutdown_timeout / 2));
        let haste = self.session.haste();
        let all = async {
            loop {
                tokio::select! {
                    Some(built) = next_built(&mut self.built.1, self.exporters.room()) => {
                        push(&mut self.exporters, &mut self.totals, built);
                    }
                    _ = &mut all_built => break,
                    () = &mut patience, if !patience.is_elapsed() => haste.begin(),
                }
            }
        };
        if timeout_at(ends.into(), all).await.is_err() {
            warn!("not all profiles of the last window could be built in time");
        }
        while let Ok(built) = self.built.1.try_recv() {
            self.push(built);
        }
        let left = ends.saturating_duration_since(Instant::now());
        self.exporters.end(left).await;
        // Probes are taken out of the programs, which may take a while.
        drop(self.session);
        info!("ended");
        Ok(())
    }

    /// Reports a window to the exporters.
    fn report(&mut self, window: Window) {
        let about = self.began.about(self.periods);
        let series = window::split_series(window, &self.targets, &mut self.totals);
        let mut series: Vec<_> = series.into_iter().collect();
        debug!(series = series.len(), "a window has ended");
        if !series.is_empty() {
            // Should an exporter drop some of them, these are not always the same.
            let first = fastrand::usize(..series.len());
            series.rotate_left(first);
        }
        let options = self.config.batch_options();
        let built = self.built.0.clone();
        let in_work = Arc::clone(&self.windows_in_work);
        in_work.fetch_add(1, Relaxed);
        let filter = self.config.filter();
        let series: Vec<_> = series
            .into_iter()
            .map(|((labels, recorded), part)| (labels, self.session.kinds_of(recorded), part))
            .collect();
        self.session.profiles.run(move |profiles| {
            let send = |batch| built.blocking_send(Built::Profile(batch)).is_ok();
            for (labels, kinds, part) in series {
                let mut batches = kinds.into_iter().filter_map(|kind| {
                    let about = about.of_kind(kind);
                    window::batch(profiles, &labels, &part, &about, &filter, &options)
                });
                // The agent may be about to end.
                if !batches.all(send) {
                    break;
                }
            }
            in_work.fetch_sub(1, Relaxed);
        });
    }

    /// Waits until the exporters have room for a profile, unless that delays the next window: then
    /// they drop what is too much.
    fn room(&self) -> impl Future<Output = ()> + use<> {
        let is_behind = self.windows_in_work.load(Relaxed) > 1;
        let room = (!is_behind).then(|| self.exporters.room());
        async move {
            if let Some(room) = room {
                room.await;
            }
        }
    }

    /// Passes a profile to the exporters.
    fn push(&mut self, built: Built) {
        let is_applied = push(&mut self.exporters, &mut self.totals, built);
        self.reloads.is_applied &= is_applied;
    }

    /// Answers a request.
    async fn answer(&mut self, request: Request) {
        match request {
            Request::Metrics(reply) => {
                let state = metrics::State {
                    usage: Usage::now(),
                    counters: self.session.counters().ok(),
                    cost: self.session.bpf.run_stats(),
                    cpus: self.session.bpf.sampled_cpus(),
                    threads: metrics::Threads::of(&self.session),
                    executables: self.session.examinations().executables.counts(),
                    targets: &self.targets,
                    totals: &self.totals,
                    rate: self.config.rate,
                    period: self.periods.clock,
                    pods: self.pods.status(),
                    exporters: self.exporters.status(),
                    reloads: &self.reloads,
                };
                let _ = reply.send(state.render());
            }
            Request::Quarantine(reply) => {
                let _ = reply.send(self.session.workers_status().quarantined);
            }
            Request::Health(reply) => {
                let _ = reply.send(());
            }
            Request::Profile(asked) => {
                let targets = &self.targets;
                self.on_demand.begin(asked, &self.session, targets).await;
            }
        }
    }
}

/// The next of what was built, once there is room for it. Cancel safe.
async fn next_built(
    built: &mut mpsc::Receiver<Built>,
    room: impl Future<Output = ()>,
) -> Option<Built> {
    room.await;
    built.recv().await
}

/// Passes on what was built; returns whether a configuration of exporters is taken over, if it is one.
fn push(exporters: &mut Destinations, totals: &mut Totals, built: Built) -> bool {
    match built {
        Built::Profile(Ok(batch)) => {
            totals.add_batch(&batch);
            exporters.push(batch);
        }
        // Memory does not refuse to be written to.
        Built::Profile(Err(error)) => warn!("{error}"),
        Built::Exporters(config, limit) => {
            if let Err(error) = exporters.replace(config, limit) {
                warn!("the exporters are unchanged: {error}");
                return false;
            }
        }
    }
    true
}
