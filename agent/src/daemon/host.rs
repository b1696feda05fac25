//! The main loop of the agent of a host, and the end of a window.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::Result;
use rustix::process::Signal;
use tokio::time::{interval, sleep_until};
use tracing::{info, warn};

use super::{
    cpu_limit::CpuLimit,
    http_server::{Listener, Request},
    metrics,
    on_demand::OnDemandProfiles,
    target_table::{Relabel, TargetTable},
    telemetry::{self, Usage},
    window::{self, Totals},
};
use crate::{
    config::Config,
    export::Exporters,
    session::{Began, Scope, Session, Settings, Signals, memory, until, warn_on_error},
    symbolize::CpuShare,
    targets::{discovery::Discovery, kubernetes, labels::pods::PodLists},
};

/// Time after exec until a program is examined if it is not sampled before.
const EXAMINE_AFTER: Duration = Duration::from_millis(100);

/// Least time that entries of the caches stay.
const GENERATION: Duration = Duration::from_secs(10 * 60);

/// Limit of the cache of native symbols, in bytes.
const MAX_SYMBOL_BYTES: usize = 32 << 20;

/// CPU time for looking up inlined functions, files and lines in debugging information.
const SYMBOL_CPU: CpuShare = CpuShare {
    burst: Duration::from_millis(2000),
    per_second: Duration::from_millis(3),
};

/// Entries of the caches at which a generation ends early.
const MAX_CACHE_ENTRIES: usize = 200_000;

/// The agent of a host.
pub(super) struct Host {
    config: Config,
    session: Session,
    targets: TargetTable,
    pods: kubernetes::PodMetadata,
    exporters: Exporters,
    on_demand: OnDemandProfiles,
    totals: Totals,
    limit: CpuLimit,
    /// Present time between two samples.
    period: Duration,
    /// When the window began.
    began: Began,
    /// When it ends.
    ends: Instant,
    /// When the generation began.
    generation: Instant,
}

impl Host {
    pub(super) async fn start(config: Config, exporters: Exporters) -> Result<Self> {
        let pods = kubernetes::PodMetadata::start(&config.kubernetes)?;
        let period = Duration::from_secs(1) / config.rate;
        let settings = Settings {
            period,
            native: config.native,
            gil: false,
            symbol_bytes: MAX_SYMBOL_BYTES,
        };
        let mut targets = TargetTable::new(&config);
        let discovery = Discovery::delayed(EXAMINE_AFTER);
        let mut session = Session::open(&settings, discovery, Scope::Host, &mut targets).await?;
        session.stages.native.limit_cpu(SYMBOL_CPU);
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
            on_demand: OnDemandProfiles::default(),
            totals: Totals::default(),
            limit: CpuLimit::new(config.max_cpu),
            period,
            began,
            // Agents that start together must not push together.
            ends: now + config.window.mul_f64(0.5 + fastrand::f64() / 2.0),
            generation: now,
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
            let mut wake = None;
            let mut request = None;
            let mut signal = None;
            let mut pod_lists = None;
            self.request_pods();
            tokio::select! {
                next = signals.next() => signal = Some(next),
                woken = self.session.wait() => wake = Some(woken?),
                () = until(self.on_demand.next_due()) => {}
                () = sleep_until(self.ends.into()) => {}
                next = listener.next() => request = Some(next),
                lists = self.pods.next() => pod_lists = Some(lists),
                _ = watchdog.tick() => telemetry::feed_watchdog(),
            }
            self.drain();
            self.sync_online_cpus();
            if let Some(wake) = wake {
                warn_on_error(self.session.load_tables(wake));
            }
            if let Some(lists) = pod_lists {
                self.update_pods(lists);
            }
            if let Some(request) = request {
                self.answer(request);
            }
            self.on_demand
                .answer(&mut self.session.stages, &self.targets, self.period);
            if let Some(signal) = signal {
                return Ok(signal);
            }
            if Instant::now() >= self.ends {
                self.end_window();
            }
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

    /// Drains the ring buffer and acts on its records.
    fn drain(&mut self) {
        warn_on_error(self.session.drain(&mut self.targets));
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
    fn end_window(&mut self) {
        self.report();
        self.evict();
        memory::trim();
        self.keep_memory_within_limit();
        if let Some(period) = self.limit.adjust(self.config.rate, self.period) {
            match self.session.bpf.set_period(period) {
                Ok(()) => self.period = period,
                Err(error) => warn!("the sampling rate is unchanged: {error}"),
            }
        }
        self.began = Began::now();
        self.ends = self.began.at + self.config.window;
    }

    /// Evicts what is no longer needed.
    fn evict(&mut self) {
        let ended = self.session.stages.aggregator.remove_ended();
        self.session.stages.native.remove_processes(&ended);
        self.targets.remove_exited();
        let changed = self.targets.relabel(Relabel::Unknown);
        self.exclude(changed);
        let entries =
            self.session.stages.aggregator.cached_stacks() + self.session.stages.python.len();
        if self.generation.elapsed() >= GENERATION || entries >= MAX_CACHE_ENTRIES {
            self.begin_generation();
        }
    }

    /// Rotates the caches: the BPF programs resend what is still needed, and what they did not send
    /// since the last rotation is evicted.
    fn begin_generation(&mut self) {
        self.generation = Instant::now();
        match self.session.bpf.resend() {
            Ok(()) => {
                self.session.stages.aggregator.rotate();
                self.session.stages.python.rotate();
            }
            Err(error) => warn!("caches are not rotated: {error}"),
        }
    }

    /// Evicts caches when the agent uses more memory than configured.
    fn keep_memory_within_limit(&mut self) {
        if Usage::now().resident_bytes <= self.config.max_memory {
            return;
        }
        if self.totals.memory_limit_reached == 0 {
            warn!(
                limit_bytes = self.config.max_memory,
                "the agent uses more memory than `max_memory`: caches are evicted"
            );
        }
        self.totals.memory_limit_reached += 1;
        self.session.stages.native.release_memory();
        self.begin_generation();
        memory::trim();
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

    /// Applies another configuration.
    pub(super) async fn reconfigure(&mut self, config: Config) -> Result<()> {
        self.end_window();
        if config.native != self.config.native || config.listen != self.config.listen {
            warn!("changes of `native` and `listen` need a restart of the agent");
        }
        if config.exporters != self.config.exporters {
            // Old and new exporters may share spools, which have one user at a time.
            let none = Exporters::start(Vec::new())?;
            let old = std::mem::replace(&mut self.exporters, none);
            shut_down(old, self.config.shutdown_timeout).await;
            match Exporters::start(config.exporters.clone()) {
                Ok(exporters) => self.exporters = exporters,
                Err(error) => {
                    warn!("the exporters are unchanged: {error}");
                    self.exporters = Exporters::start(self.config.exporters.clone())?;
                }
            }
        }
        if config.kubernetes != self.config.kubernetes {
            match kubernetes::PodMetadata::start(&config.kubernetes) {
                Ok(pods) => self.pods = pods,
                Err(error) => warn!("`kubernetes` is unchanged: {error}"),
            }
        }
        let period = Duration::from_secs(1) / config.rate;
        if config.rate != self.config.rate {
            self.session.bpf.set_period(period)?;
            self.period = period;
        }
        self.limit = CpuLimit::new(config.max_cpu);
        self.targets.reconfigure(&config);
        let changed = self.targets.relabel(Relabel::All);
        self.exclude(changed);
        self.ends = self.began.at + config.window;
        self.config = config;
        info!("configuration reloaded");
        Ok(())
    }

    /// Stops sampling and sends what is queued.
    pub(super) async fn end(mut self) -> Result<()> {
        self.session.bpf.stop()?;
        self.drain();
        self.report();
        shut_down(self.exporters, self.config.shutdown_timeout).await;
        info!("ended");
        Ok(())
    }

    /// Reports the window to the exporters.
    fn report(&mut self) {
        let about = self.began.about(self.period);
        let stages = &mut self.session.stages;
        for (labels, part) in window::take_series(stages, &self.targets, &mut self.totals) {
            let stages = &mut self.session.stages;
            let thread_labels = self.config.thread_labels;
            match window::batch(
                stages,
                &labels,
                &part,
                &about,
                thread_labels,
                &mut self.totals,
            ) {
                Ok(batch) => self.exporters.push(&batch),
                // Memory does not refuse to be written to.
                Err(error) => warn!("{error}"),
            }
            // Symbolizing may take long the first time.
            self.drain();
        }
    }

    /// Answers a request.
    fn answer(&mut self, request: Request) {
        match request {
            Request::Metrics(reply) => {
                let state = metrics::State {
                    usage: Usage::now(),
                    counters: self.session.counters().ok(),
                    cost: self.session.bpf.run_stats(),
                    cpus: self.session.bpf.sampled_cpus(),
                    stages: &self.session.stages,
                    targets: &self.targets,
                    totals: &self.totals,
                    period: self.period,
                    pods: self.pods.status(),
                    exporters: self.exporters.status(),
                };
                let _ = reply.send(state.render());
            }
            Request::Health(reply) => {
                let _ = reply.send(());
            }
            Request::Profile(asked) => self.on_demand.begin(asked, &mut self.session.stages),
        }
    }
}

/// Sends what is queued while it keeps the watchdog fed.
async fn shut_down(exporters: Exporters, limit: Duration) {
    let mut end = pin!(exporters.shut_down(limit));
    let mut watchdog = interval(telemetry::watchdog_period());
    let statuses = loop {
        tokio::select! {
            statuses = &mut end => break statuses,
            _ = watchdog.tick() => telemetry::feed_watchdog(),
        }
    };
    for status in statuses {
        let dropped = status.counts.dropped.total();
        if dropped > 0 {
            warn!(exporter = status.name, dropped, "profiles dropped");
        }
    }
}
