//! Wires the rooms: one capture of one process, from its options to the written profile.

use std::{
    io::{self, Write as _},
    time::{Duration, Instant, SystemTime},
};

use agent_common::counter::Counter;
use anyhow::{Context as _, Result};
use rustix::{
    fd::OwnedFd,
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
    rand::{GetRandomFlags, getrandom},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    signal::unix::{Signal, SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use crate::{
    aggregate::{About, Aggregator, Filter},
    cli::{Options, Output},
    decode::decode,
    encode::encode,
    kernel::{self, Counters, Kernel},
    process::Process,
    profile::{self, Profile},
    python,
    record::Record,
    report::{Progress, Summary},
    symbolize::Symbolizer,
};

/// How often the ring buffer is read when the kernel half does not ask for it.
const READ_EVERY: Duration = Duration::from_millis(200);

/// Samples a process and writes its profile.
///
/// # Errors
///
/// One sentence that says what to do.
pub async fn run(options: &Options) -> Result<()> {
    // First: without these even the process id could be misunderstood.
    kernel::check_requirements()?;
    let process = Process::open(options.pid)?;
    let python = python::detect(&process)?;
    // From here on a signal ends the capture in order, and nothing half-done is left behind.
    let signals = Signals::new()?;
    let output = Output::prepare(options)?;

    let period = Duration::from_secs(1) / options.rate;
    let mut kernel = Kernel::load(period, random_seed())?;
    let interpreter = kernel::Python {
        interpreters_head: python.interpreters_head,
        gil_holder: python.gil_holder,
        layout: python.layout,
    };
    kernel.add_process(options.pid, Some(&interpreter), false)?;

    let mut capture = Capture::default();
    capture.aggregator.add_process(profile::Process {
        pid: options.pid,
        parent: None,
        name: process.name().to_owned(),
        is_python: true,
        runtime: format!("CPython {}", python.version),
        images: python.images,
    });
    let end = End::new(options.pid, options.duration, signals)?;
    let start = SystemTime::now();
    let began = Instant::now();
    kernel.start()?;
    let why = capture
        .follow(&mut kernel, end, began, options.duration)
        .await?;
    kernel.stop()?;
    let duration = began.elapsed();
    kernel.drain(|bytes| capture.take(bytes));

    let about = About {
        start,
        duration,
        period,
    };
    let profile = capture.profile(&about, &kernel.counters()?);
    let mut bytes = Vec::new();
    encode(&profile, options.format, &options.encoding(), &mut bytes)?;
    let written = output.commit(&bytes)?;

    let mut stderr = io::stderr().lock();
    // Standard error may be closed; the profile is written all the same.
    let _ = write!(stderr, "{}", Summary::new(&profile));
    if why == Why::ProcessEnded {
        let _ = writeln!(stderr, "The process ended before the time was over.");
    }
    if let Some(path) = written {
        let _ = writeln!(stderr, "Written to {}", path.display());
    }
    Ok(())
}

/// What has been read of the ring buffer.
#[derive(Default)]
struct Capture {
    aggregator: Aggregator,
    symbolizer: Symbolizer,
}

impl Capture {
    /// Reads the ring buffer until the capture is over.
    async fn follow(
        &mut self,
        kernel: &mut Kernel,
        mut end: End,
        began: Instant,
        duration: Duration,
    ) -> Result<Why> {
        let progress = Progress::new(duration);
        let mut ticks = interval(READ_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let why = loop {
            let why = tokio::select! {
                why = end.wait() => Some(why),
                pressed = kernel.pressed() => pressed.map(|()| None)?,
                _ = ticks.tick() => None,
            };
            kernel.drain(|bytes| self.take(bytes));
            progress.update(began.elapsed(), self.aggregator.samples());
            if let Some(why) = why {
                break why;
            }
        };
        progress.finish();
        Ok(why)
    }

    /// Takes one record.
    fn take(&mut self, bytes: &[u8]) {
        match decode(bytes) {
            Ok(Record::Sample(sample)) => self.aggregator.add_sample(&sample),
            Ok(Record::Stack(stack)) => self.aggregator.add_stack(stack),
            Ok(Record::CodeObject(code)) => self.symbolizer.add(&code),
            Ok(Record::LineTablePiece(piece)) => self.symbolizer.add_piece(&piece),
            Ok(Record::ThreadName(thread)) => self.aggregator.add_thread(
                thread.head.tgid,
                thread.head.tid,
                self.symbolizer.thread_name(&thread),
            ),
            Ok(Record::ProcessEvent(_) | Record::AbsentPage(_)) => {}
            Err(_) => self.aggregator.add_malformed(),
        }
    }

    fn profile(mut self, about: &About, counters: &Counters) -> Profile {
        let symbolizer = &mut self.symbolizer;
        let mut profile = self
            .aggregator
            .profile(about, &Filter::default(), |frame| symbolizer.resolve(frame));
        profile.losses.lost_samples = counters.get(Counter::LOST_SAMPLES);
        profile
    }
}

/// Why a capture is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    TimeOver,
    Interrupted,
    ProcessEnded,
}

/// The signals that end a capture.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Handles them from now on.
    fn new() -> Result<Self> {
        let handler = |kind| signal(kind).context("signals cannot be handled");
        Ok(Self {
            interrupt: handler(SignalKind::interrupt())?,
            terminate: handler(SignalKind::terminate())?,
        })
    }
}

/// All that can end a capture.
struct End {
    deadline: tokio::time::Instant,
    process: AsyncFd<OwnedFd>,
    signals: Signals,
}

impl End {
    fn new(pid: u32, duration: Duration, signals: Signals) -> Result<Self> {
        let raw_pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let process = raw_pid
            .ok_or(Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .with_context(|| format!("process {pid} cannot be watched"))?;
        // SAFETY: an owned descriptor is open and stays the same.
        let process = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }
            .map_err(io::Error::from)
            .context("the process cannot be watched")?;
        Ok(Self {
            deadline: tokio::time::Instant::now() + duration,
            process,
            signals,
        })
    }

    async fn wait(&mut self) -> Why {
        tokio::select! {
            () = tokio::time::sleep_until(self.deadline) => Why::TimeOver,
            _ = self.signals.interrupt.recv() => Why::Interrupted,
            _ = self.signals.terminate.recv() => Why::Interrupted,
            _ = self.process.readable() => Why::ProcessEnded,
        }
    }
}

/// A seed that nobody knows beforehand.
fn random_seed() -> u64 {
    let mut seed = [0_u8; 8];
    // Without randomness the seed is 0: hashes are then as good, but can be foreseen.
    let _ = getrandom(&mut seed, GetRandomFlags::empty());
    u64::from_ne_bytes(seed)
}
