//! The loop of the agent of a host, and what it does at the end of a window.

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
    target_table::{Again, TargetTable},
    telemetry::{self, Usage},
    window::{self, Totals},
};
use crate::{
    config::Config,
    export::Exporters,
    session::{
        Began, Scope, Session, Settings, Signals, memory::give_memory_back, until, warn_on_error,
    },
    symbolize::NativeSymbolizer,
    targets::{discovery::Discovery, kubernetes, labels::pods::Answer},
};

/// How long a program runs before it is looked at if it is not sampled.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long what was sent is remembered, at least.
const GENERATION: Duration = Duration::from_secs(10 * 60);

/// Most bytes that the symbols of files take.
const MAX_SYMBOL_BYTES: usize = 32 << 20;

/// Stacks and code objects that are remembered before a generation ends early.
const MAX_REMEMBERED: usize = 200_000;

/// The agent of a host.
pub(super) struct Host {
    config: Config,
    session: Session,
    targets: TargetTable,
    pods: kubernetes::Names,
    exporters: Exporters,
    pulls: OnDemandProfiles,
    totals: Totals,
    limit: CpuLimit,
    /// Time between two samples at present.
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
        let pods = kubernetes::Names::start(&config.kubernetes)?;
        let period = Duration::from_secs(1) / config.rate;
        let settings = Settings {
            period,
            native: config.native,
            gil: false,
            symbol_bytes: MAX_SYMBOL_BYTES,
        };
        let mut targets = TargetTable::new(&config);
        let discovery = Discovery::patient(PATIENCE);
        let mut session = Session::open(&settings, discovery, Scope::Host, &mut targets).await?;
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
            pulls: OnDemandProfiles::default(),
            totals: Totals::default(),
            limit: CpuLimit::new(config.max_cpu),
            period,
            began,
            // Agents that were started together do not push together.
            ends: now + config.window.mul_f64(0.5 + fastrand::f64() / 2.0),
            generation: now,
            config,
        })
    }

    /// Samples until a signal comes.
    pub(super) async fn follow(
        &mut self,
        signals: &mut Signals,
        listener: &mut Listener,
    ) -> Result<Signal> {
        let mut watchdog = interval(telemetry::watchdog_period());
        loop {
            let mut wake = None;
            let mut request = None;
            let mut signal = None;
            let mut answer = None;
            self.ask_about_pods();
            tokio::select! {
                sent = signals.next() => signal = Some(sent),
                woken = self.session.wait() => wake = Some(woken?),
                () = until(self.pulls.next_due()) => {}
                () = sleep_until(self.ends.into()) => {}
                asked = listener.next() => request = Some(asked),
                told = self.pods.next() => answer = Some(told),
                _ = watchdog.tick() => telemetry::feed_watchdog(),
            }
            self.drain();
            self.sync_online_cpus();
            if let Some(wake) = wake {
                warn_on_error(self.session.load_tables(wake));
            }
            if let Some(answer) = answer {
                self.learn_pods(answer);
            }
            if let Some(request) = request {
                self.answer(request);
            }
            self.pulls
                .answer(&mut self.session, &self.targets, self.period);
            if let Some(signal) = signal {
                return Ok(signal);
            }
            if Instant::now() >= self.ends {
                self.end_window();
            }
        }
    }

    /// Has it asked what the containers of processes are called, where that is not known.
    fn ask_about_pods(&mut self) {
        if let Some(question) = self.targets.question() {
            self.pods.ask(question);
        }
    }

    /// Takes notice of what they are called.
    fn learn_pods(&mut self, answer: Answer) {
        let changed = self.targets.learn_pods(answer);
        self.exclude(changed);
    }

    /// Reads all that is waiting, and does what has to be done about it.
    fn drain(&mut self) {
        warn_on_error(self.session.drain(&mut self.targets));
    }

    /// Samples those processors that are there now.
    fn sync_online_cpus(&mut self) {
        match self.session.bpf.sync_online_cpus() {
            Ok(false) => {}
            Ok(true) => {
                self.totals.processor_changes += 1;
                let processors = self.session.bpf.processors();
                info!(processors, "processors came or went");
            }
            Err(error) => warn!("processors came or went: {error}"),
        }
    }

    /// Reports what was sampled, and begins the next window.
    fn end_window(&mut self) {
        self.report();
        self.forget();
        give_memory_back();
        self.keep_memory_within_limit();
        if let Some(period) = self.limit.adjust(self.config.rate, self.period) {
            match self.session.bpf.set_period(period) {
                Ok(()) => self.period = period,
                Err(error) => warn!("the rate stays as it was: {error}"),
            }
        }
        self.began = Began::now();
        self.ends = self.began.at + self.config.window;
    }

    /// Forgets what is no longer needed.
    fn forget(&mut self) {
        let ended = self.session.aggregator.remove_ended();
        self.session.native.remove_processes(&ended);
        self.targets.forget_ended();
        let changed = self.targets.decide_again(Again::Unknown);
        self.exclude(changed);
        let remembered = self.session.aggregator.cached_stacks() + self.session.python.len();
        if self.generation.elapsed() >= GENERATION || remembered >= MAX_REMEMBERED {
            self.begin_generation();
        }
    }

    /// Has everything sent again that is still needed, and forgets what was not since the last time.
    fn begin_generation(&mut self) {
        self.generation = Instant::now();
        match self.session.bpf.resend() {
            Ok(()) => {
                self.session.aggregator.rotate();
                self.session.python.rotate();
            }
            Err(error) => warn!("nothing is forgotten: {error}"),
        }
    }

    /// Forgets what can be found out again when that takes too much memory.
    fn keep_memory_within_limit(&mut self) {
        if Usage::now().resident_bytes <= self.config.max_memory {
            return;
        }
        if self.totals.memory_limit_reached == 0 {
            warn!(
                limit_bytes = self.config.max_memory,
                "more memory is used than `max_memory`: what can be found out again is forgotten"
            );
        }
        self.totals.memory_limit_reached += 1;
        self.session.native = NativeSymbolizer::new(MAX_SYMBOL_BYTES);
        self.begin_generation();
        give_memory_back();
    }

    /// Lets the kernel half know of processes that are profiled from now on, or no longer are.
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

    /// Goes on with another configuration.
    pub(super) async fn reconfigure(&mut self, config: Config) -> Result<()> {
        self.end_window();
        if config.native != self.config.native || config.listen != self.config.listen {
            warn!("`native` and `listen` stay as they are until the agent is started again");
        }
        if config.exporters != self.config.exporters {
            // The spools of the old ones are the new ones'.
            let none = Exporters::start(Vec::new())?;
            let old = std::mem::replace(&mut self.exporters, none);
            shut_down(old, self.config.shutdown_timeout).await;
            match Exporters::start(config.exporters.clone()) {
                Ok(exporters) => self.exporters = exporters,
                Err(error) => {
                    warn!("the exporters stay as they were: {error}");
                    self.exporters = Exporters::start(self.config.exporters.clone())?;
                }
            }
        }
        if config.kubernetes != self.config.kubernetes {
            match kubernetes::Names::start(&config.kubernetes) {
                Ok(pods) => self.pods = pods,
                Err(error) => warn!("`kubernetes` stays as it was: {error}"),
            }
        }
        let period = Duration::from_secs(1) / config.rate;
        if config.rate != self.config.rate {
            self.session.bpf.set_period(period)?;
            self.period = period;
        }
        self.limit = CpuLimit::new(config.max_cpu);
        self.targets.reconfigure(&config);
        let changed = self.targets.decide_again(Again::All);
        self.exclude(changed);
        self.ends = self.began.at + config.window;
        self.config = config;
        info!("the configuration was read again");
        Ok(())
    }

    /// Stops to sample, and delivers what waits.
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
        window::report(
            &mut self.session,
            &mut self.targets,
            &self.exporters,
            &mut self.totals,
            &self.began.about(self.period),
            self.config.threads,
        );
    }

    /// Answers a request.
    fn answer(&mut self, request: Request) {
        match request {
            Request::Metrics(reply) => {
                let state = metrics::State {
                    session: &self.session,
                    targets: &self.targets,
                    totals: &self.totals,
                    period: self.period,
                    pods: &self.pods,
                    exporters: &self.exporters,
                };
                let _ = reply.send(state.render());
            }
            Request::Health(reply) => {
                let _ = reply.send(());
            }
            Request::Profile(asked) => self.pulls.begin(asked, &mut self.session),
        }
    }
}

/// Delivers what waits, which may take longer than systemd waits for a sign of life.
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
            warn!(exporter = status.name, dropped, "profiles were dropped");
        }
    }
}
