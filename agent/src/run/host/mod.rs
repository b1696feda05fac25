//! The agent of a host: samples every process, day and night, and hands over a profile of each
//! series when a window ends.
//!
//! Invariants: nothing that fails here once ends the agent; what is remembered is bounded, and
//! forgotten when it has not been seen for long; a window that has begun is reported, also when the
//! agent ends or gets another configuration.

mod answer;
mod limit;
mod population;
mod report;

use std::{
    pin::pin,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use rustix::process::Signal;
use tokio::time::{interval, sleep_until};
use tracing::{info, warn};

use self::{answer::Pulls, limit::CpuLimit, population::Again, report::Totals};
pub(super) use population::{KERNEL, Population};

use super::{
    capture::{Capture, due, reading, tables_done},
    memory::{give_memory_back, keep_memory_small},
    names::NativeNames,
    random_seed,
    signals::Signals,
    time::Began,
};
use crate::{
    config::{self, Config},
    discover::Discovery,
    export::Exporters,
    kernel::{self, Kernel, Settings},
    kubernetes,
    labels::pods::Answer,
    listen::{Listener, Request},
    process,
    telemetry::{self, Usage},
};

/// How long a program runs before it is looked at if it is not sampled.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long what was sent is remembered, at least.
const GENERATION: Duration = Duration::from_secs(10 * 60);

/// Most bytes that the symbols of files take.
const MAX_SYMBOL_BYTES: usize = 32 << 20;

/// Stacks and code objects that are remembered before a generation ends early.
const MAX_REMEMBERED: usize = 200_000;

/// Samples every process until a signal ends it.
///
/// `read_config` reads the configuration again, for `SIGHUP`.
///
/// # Errors
///
/// One sentence that says what to do. Nothing that happens later than the start is one.
pub async fn run_host(
    config: Config,
    read_config: impl Fn() -> Result<Config, config::Error>,
) -> Result<ExitCode> {
    keep_memory_small();
    kernel::check_requirements()?;
    let mut signals = Signals::to_end_or_reload()?;
    let exporters = Exporters::start(config.exporters.clone())?;
    let mut listener = Listener::start(config.listen).await?;
    if let Some(address) = listener.address() {
        info!(%address, "listening");
    }
    let mut host = Host::start(config, exporters).await?;
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    while host.follow(&mut signals, &mut listener).await? == Signal::HUP {
        match read_config() {
            Ok(config) => host.reconfigure(config).await?,
            Err(error) => warn!("the configuration stays as it was: {error}"),
        }
    }
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
    host.end().await?;
    Ok(ExitCode::SUCCESS)
}

/// The agent of a host.
struct Host {
    config: Config,
    kernel: Kernel,
    capture: Capture,
    names: NativeNames,
    pods: kubernetes::Names,
    exporters: Exporters,
    pulls: Pulls,
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
    async fn start(config: Config, exporters: Exporters) -> Result<Self> {
        let pods = kubernetes::Names::start(&config.kubernetes)?;
        let period = Duration::from_secs(1) / config.rate;
        let mut kernel = Kernel::load(&Settings {
            period,
            hash_seed: random_seed(),
            with_native: config.native,
            whole_host: true,
        })?;
        let mut capture = Capture::new(Discovery::patient(PATIENCE), false, config.native);
        capture.population = Some(Population::new(&config));
        // What starts from now on the kernel half sees by itself.
        for found in process::descendants(0) {
            survive(capture.add(&mut kernel, found));
        }
        if config.native {
            survive(capture.add_kernel_threads(&mut kernel));
        }
        capture.prepare(&mut kernel).await?;
        kernel.start()?;
        let now = Instant::now();
        info!(
            rate = config.rate,
            window = ?config.window,
            exporters = config.exporters.len(),
            "sampling every process of this host"
        );
        Ok(Self {
            kernel,
            capture,
            names: NativeNames::new(MAX_SYMBOL_BYTES),
            pods,
            exporters,
            pulls: Pulls::default(),
            totals: Totals::default(),
            limit: CpuLimit::new(config.max_cpu),
            period,
            began: Began::now(),
            // Agents that were started together do not push together.
            ends: now + config.window.mul_f64(0.5 + fastrand::f64() / 2.0),
            generation: now,
            config,
        })
    }

    /// Samples until a signal comes.
    async fn follow(&mut self, signals: &mut Signals, listener: &mut Listener) -> Result<Signal> {
        let mut ticks = reading();
        let mut watchdog = interval(telemetry::watchdog_period());
        loop {
            let mut done = Vec::new();
            let mut request = None;
            let mut signal = None;
            let mut answer = None;
            self.ask_about_pods();
            tokio::select! {
                sent = signals.next() => signal = Some(sent),
                tables = tables_done(self.capture.code.as_mut()) => done = tables,
                pressed = self.kernel.pressed() => pressed?,
                () = due(self.capture.discovery.next_due()) => {}
                () = due(self.pulls.next_due()) => {}
                () = sleep_until(self.ends.into()) => {}
                asked = listener.next() => request = Some(asked),
                told = self.pods.next() => answer = Some(told),
                _ = ticks.tick() => {}
                _ = watchdog.tick() => telemetry::feed_watchdog(),
            }
            self.drain();
            self.follow_processors();
            if let Some(code) = &mut self.capture.code
                && !done.is_empty()
            {
                survive(code.go_on(&mut self.kernel, done));
            }
            if let Some(answer) = answer {
                self.learn_pods(answer);
            }
            if let Some(request) = request {
                self.answer(request);
            }
            self.answer_pulls();
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
        let population = self.capture.population.as_mut();
        if let Some(question) = population.and_then(Population::question) {
            self.pods.ask(question);
        }
    }

    /// Takes notice of what they are called.
    fn learn_pods(&mut self, answer: Answer) {
        if let Some(population) = &mut self.capture.population {
            let changed = population.learn_pods(answer);
            self.exclude(changed);
        }
    }

    /// Reads all that is waiting, and does what has to be done about it.
    fn drain(&mut self) {
        survive(self.capture.drain(&mut self.kernel));
    }

    /// Samples those processors that are there now.
    fn follow_processors(&mut self) {
        match self.kernel.follow_processors() {
            Ok(false) => {}
            Ok(true) => {
                self.totals.processor_changes += 1;
                let processors = self.kernel.processors();
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
            match self.kernel.set_period(period) {
                Ok(()) => self.period = period,
                Err(error) => warn!("the rate stays as it was: {error}"),
            }
        }
        self.began = Began::now();
        self.ends = self.began.at + self.config.window;
    }

    /// Forgets what is no longer needed.
    fn forget(&mut self) {
        let capture = &mut self.capture;
        let ended = capture.aggregator.forget_ended();
        self.names.forget(&ended);
        let mut changed = Vec::new();
        if let Some(population) = &mut capture.population {
            population.forget_ended();
            changed = population.decide_again(Again::Unknown);
        }
        self.exclude(changed);
        let remembered = self.capture.aggregator.known_stacks() + self.capture.symbolizer.len();
        if self.generation.elapsed() >= GENERATION || remembered >= MAX_REMEMBERED {
            self.begin_generation();
        }
    }

    /// Has everything sent again that is still needed, and forgets what was not since the last time.
    fn begin_generation(&mut self) {
        self.generation = Instant::now();
        match self.kernel.send_again() {
            Ok(()) => {
                self.capture.aggregator.advance();
                self.capture.symbolizer.advance();
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
        self.names = NativeNames::new(MAX_SYMBOL_BYTES);
        self.begin_generation();
        give_memory_back();
    }

    /// Lets the kernel half know of processes that are profiled from now on, or no longer are.
    fn exclude(&mut self, changed: Vec<(u32, bool)>) {
        for (pid, is_profiled) in changed {
            survive(
                self.kernel
                    .set_excluded(pid, !is_profiled)
                    .map_err(Into::into),
            );
        }
    }

    /// Goes on with another configuration.
    async fn reconfigure(&mut self, config: Config) -> Result<()> {
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
            self.kernel.set_period(period)?;
            self.period = period;
        }
        self.limit = CpuLimit::new(config.max_cpu);
        let mut changed = Vec::new();
        if let Some(population) = &mut self.capture.population {
            population.reconfigure(&config);
            changed = population.decide_again(Again::All);
        }
        self.exclude(changed);
        self.ends = self.began.at + config.window;
        self.config = config;
        info!("the configuration was read again");
        Ok(())
    }

    /// Stops to sample, and delivers what waits.
    async fn end(mut self) -> Result<()> {
        self.kernel.stop()?;
        self.drain();
        self.report();
        shut_down(self.exporters, self.config.shutdown_timeout).await;
        info!("ended");
        Ok(())
    }

    /// What a request asks for.
    fn answer(&mut self, request: Request) {
        match request {
            Request::Metrics(reply) => {
                let _ = reply.send(self.metrics());
            }
            Request::Health(reply) => {
                let _ = reply.send(());
            }
            Request::Profile(asked) => self.begin_pull(asked),
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

/// Tells of what went wrong, and goes on.
fn survive(result: Result<()>) {
    if let Err(error) = result {
        warn!("{error:#}");
    }
}
