//! Samples processes or the host, window after window, and sends what it finds to the screen.
//!
//! The session goes on all the time; a window ends as one of `agent run` does, and caches are evicted
//! by the same schedule, so that memory does not grow however long it goes on. The profiles of a
//! window are built while the next one is sampled; if that takes longer, the next one is longer too.

use std::{
    collections::HashMap,
    future::pending,
    mem,
    num::NonZeroU32,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use agent_common::counter::Counter;
use anyhow::{Result, bail};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep_until, timeout},
};

use super::{
    choices::Event,
    update::{Status, Subject, Update, Waits},
};
use crate::{
    aggregate::Filter,
    commands::{
        cli::TopOptions,
        examine::{self, Examined, check_python, examine_all},
        record::SYMBOL_BYTES,
        summary::subject_text,
    },
    daemon::telemetry::Usage,
    profile::{
        self, CPU, Kind, Periods, Profile, RecordedExceptions,
        kinds::{gil_held, wall},
    },
    session::{
        Began, EXECUTABLES_STAY, End, EndReason, EvictionSchedule, Examinations, InUse, Observer,
        Origin, Profiles, SampleTimes, Scope, Session, Settings, Signals, warn_on_error,
    },
    symbolize::{CpuShare, CpuShares},
    targets::{
        examiner::Finding,
        labels::{host::Host, metadata::MetadataOptions},
    },
    text::{printable, shortened},
    threads::WaitRecords,
};

/// The first window is this long at most, so that there are rows soon.
const FIRST_WINDOW: Duration = Duration::from_millis(500);

/// Most passes over the threads per second. They are for shares of the time in which threads hold the GIL or
/// wait, which need no more.
const MAX_PASS_RATE: u32 = 20;

/// Memory of the agent above which caches are evicted, in bytes.
const MAX_MEMORY: u64 = 256 << 20;

/// Time between two looks at executables that nobody maps any more.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Most time for the profiles of the last window.
const LAST_LIMIT: Duration = Duration::from_secs(5);

/// Time after exec until a program of the host is examined if it is not sampled before.
const EXAMINE_AFTER: Duration = Duration::from_millis(100);

/// Share of a CPU that examinations and unwind tables of a host may use in the long run.
const HOST_CPU: f64 = 0.05;

/// CPU time for lines and inlined functions of native code. Names come first, lines in later windows.
const SYMBOL_CPU: CpuShares = CpuShares {
    opening: CpuShare {
        burst: Duration::from_secs(1),
        per_second: Duration::from_millis(5),
    },
    look_ups: CpuShare {
        burst: Duration::from_millis(200),
        per_second: Duration::from_millis(5),
    },
};

/// Columns of a command line that are kept.
const COMMAND_WIDTH: usize = 400;

/// What is about to be sampled.
pub(super) struct Sampler {
    settings: Settings,
    examinations: Examinations,
    scope: Scope,
    signals: Signals,
    subject: Subject,
    /// The processes without which there is nothing more to sample; empty where others may start.
    pids: Vec<u32>,
    delay: Duration,
    first: Duration,
}

/// A session that samples.
struct Sampling {
    session: Session,
    settings: Settings,
    commands: Commands,
    /// When the agent started.
    started: Instant,
    /// When the present window began.
    began: Began,
    /// The profiles of the last window, which are being built.
    building: Option<oneshot::Receiver<Built>>,
    /// The time that all passes by the end of the last window stand for.
    looked_at: Duration,
    schedule: EvictionSchedule,
    forgotten: Instant,
}

/// The profiles of a window, and for how long threads were looked at.
#[derive(Default)]
struct Built {
    profiles: Vec<Profile>,
    looked_at: Duration,
}

/// What ends it.
enum Ends {
    Process(Box<End>),
    Signal(Signals),
}

/// Command lines of processes that were examined since the last window.
#[derive(Default)]
struct Commands(HashMap<u32, String>);

impl Observer for Commands {
    fn on_process(&mut self, process: &profile::Process, origin: Origin) -> Option<bool> {
        if let Origin::Examined(Some(metadata)) = origin
            && let Some(command) = &metadata.command_line
        {
            self.0.insert(process.pid, command_text(command));
        }
        None
    }
}

impl Sampler {
    /// Examines the processes, if it is not the host, and reports what cannot be sampled.
    ///
    /// # Errors
    ///
    /// One sentence that says what to do.
    pub(super) async fn new(options: &TopOptions, is_batch: bool) -> Result<Self> {
        let examinations = Examinations::new(options.native);
        examinations.set_metadata(MetadataOptions {
            command_line: true,
            without_environment: true,
        });
        let mut pids = Vec::new();
        let (scope, subject) = if let Some(selection) = &options.processes {
            let Examined { found, follow } = examine_all(&examinations, selection).await?;
            let mut subject = process_subject(&found, options)?;
            if follow.is_some() {
                subject.name = selection.to_string();
                subject.command = String::new();
                subject.has_processes = true;
            } else {
                pids = examine::pids(&found);
            }
            let scope = Scope::of(found, options.children).following(follow);
            (scope, subject)
        } else {
            examinations.workers.limit_cpu(HOST_CPU);
            let scope = Scope::Host {
                examine_after: EXAMINE_AFTER,
            };
            (scope, host_subject(options))
        };
        let kinds: &[&'static Kind] = match subject.waits {
            Waits::Nothing => &[&CPU],
            Waits::Sampled => &[&CPU, &wall::KIND],
            Waits::WithGil => &[&CPU, &wall::KIND, &gil_held::KIND],
        };
        let pass_rate = NonZeroU32::new(options.rate.min(MAX_PASS_RATE));
        let settings = Settings {
            kinds: kinds.to_vec(),
            periods: Periods::new(options.rate, pass_rate),
            native: options.native,
            gil: false,
            wait_identities: false,
            trace_switches: options.trace_switches,
            exceptions: RecordedExceptions::default(),
            times: SampleTimes::Dropped,
            records: WaitRecords::default(),
            symbol_bytes: SYMBOL_BYTES,
        };
        Ok(Self {
            settings,
            examinations,
            scope,
            // From here on a signal ends it in order, and the terminal is as it was.
            signals: Signals::to_end()?,
            subject,
            pids,
            delay: options.delay,
            first: if is_batch {
                options.delay
            } else {
                options.delay.min(FIRST_WINDOW)
            },
        })
    }

    /// Samples until a signal arrives or nobody listens.
    ///
    /// # Errors
    ///
    /// When the BPF programs or their maps fail.
    pub(super) async fn run(self, updates: mpsc::Sender<Update>) -> Result<()> {
        let Self {
            settings,
            examinations,
            scope,
            mut signals,
            subject,
            pids,
            delay,
            first,
        } = self;
        let started = Instant::now();
        if updates.send(Update::Started(subject.into())).await.is_err() {
            return Ok(());
        }
        let mut commands = Commands::default();
        let is_host = matches!(scope, Scope::Host { .. });
        let mut session =
            Session::open(&settings, examinations, scope, &mut signals, &mut commands).await?;
        session.profiles.run(|profiles| {
            if let Some(native) = &mut profiles.native {
                native.limit_cpu(SYMBOL_CPU);
            }
        });
        let mut ends = if pids.is_empty() {
            Ends::Signal(signals)
        } else {
            Ends::Process(Box::new(End::new(&pids, None, signals)?))
        };
        let began = session.start()?;
        let mut sampling = Sampling {
            session,
            settings,
            commands,
            started,
            began,
            building: None,
            looked_at: Duration::ZERO,
            schedule: EvictionSchedule::new(began.at),
            forgotten: began.at,
        };
        let mut window_ends = began.at + first;
        loop {
            tokio::select! {
                reason = ends.wait() => {
                    if reason == EndReason::ProcessEnded {
                        sampling.finish(&updates).await?;
                        let why = match &*pids {
                            [pid] => format!("Process {pid} has ended."),
                            several => format!("All {} processes have ended.", several.len()),
                        };
                        if updates.send(Update::Ended(why)).await.is_ok() {
                            ends.interrupted().await;
                        }
                    }
                    return Ok(());
                }
                wake = sampling.session.wait() => {
                    let acted = sampling.session.act(wake, &mut sampling.commands);
                    if is_host {
                        warn_on_error(acted);
                    } else {
                        acted?;
                    }
                    sampling.session.bpf.sync_online_cpus()?;
                }
                built = built(sampling.building.as_mut()) => {
                    sampling.building = None;
                    if sampling.send(&updates, built).await.is_err() {
                        return Ok(());
                    }
                }
                () = sleep_until(window_ends.into()), if sampling.building.is_none() => {
                    sampling.end_window().await?;
                    // On the beat, unless that is over already.
                    window_ends = (window_ends + delay).max(Instant::now() + delay / 2);
                }
            }
        }
    }
}

impl Sampling {
    /// Ends the window, has its profiles built, and begins the next one.
    async fn end_window(&mut self) -> Result<()> {
        // Those that end meanwhile are of the next window, most likely.
        let passes = self.session.pass_status();
        let looked_at = passes.map_or(0, |it| it.elapsed_ns.load(Ordering::Relaxed));
        let looked_at = Duration::from_nanos(looked_at);
        let before = mem::replace(&mut self.looked_at, looked_at);
        let looked_at = looked_at.saturating_sub(before);
        let window = self.session.take_window(&mut self.commands).await?;
        let about = self.began.about(self.settings.periods);
        self.began = Began::now();
        let kinds = self.settings.kinds.clone();
        let filter = Filter {
            // Threads that wait for work are threads too.
            idle: true,
            ..Filter::default()
        };
        self.building = Some(self.session.profiles.run(move |profiles| {
            let kinds = kinds.into_iter();
            let profiles =
                kinds.map(|kind| profiles.profile_of(&window, &about.of_kind(kind), &filter));
            Built {
                profiles: profiles.collect(),
                looked_at,
            }
        }));
        self.evict();
        Ok(())
    }

    /// Evicts what is no longer needed.
    fn evict(&mut self) {
        let session = &mut self.session;
        session.profiles.run(Profiles::remove_ended);
        let (stacks, code_objects) = session.profiles.status().cached();
        let now = Instant::now();
        let due = self.schedule.end_window(
            now,
            &InUse {
                entries: stacks + code_objects,
                bytes: Usage::now().resident_bytes,
                max_bytes: MAX_MEMORY,
                open_since: None,
            },
        );
        session.evict(due);
        if now.duration_since(self.forgotten) >= FORGET_EVERY {
            self.forgotten = now;
            if let Some(before) = now.checked_sub(EXECUTABLES_STAY) {
                session.forget_executables(before);
            }
            session.profiles.run(|_| crate::session::memory::trim());
        }
    }

    async fn send(&mut self, updates: &mpsc::Sender<Update>, built: Built) -> Result<()> {
        let Built {
            profiles,
            looked_at,
        } = built;
        let status = self.status(&profiles);
        let commands = self.commands.0.drain().collect();
        let update = Update::Window {
            profiles,
            looked_at,
            commands,
            status,
        };
        Ok(updates.send(update).await?)
    }

    fn status(&self, profiles: &[Profile]) -> Status {
        let usage = Usage::now();
        let programs = self.session.bpf.run_stats();
        let programs = programs.map_or(0, |(_, nanoseconds)| nanoseconds);
        let counter = self.session.bpf.counter(Counter::LOST_SAMPLES);
        let of_windows: u64 = profiles.iter().map(|it| it.losses.lost_samples).sum();
        Status {
            at: self.started.elapsed(),
            used: usage.cpu + Duration::from_nanos(programs),
            resident_bytes: usage.resident_bytes,
            lost: counter.unwrap_or(0) + of_windows,
        }
    }

    /// Stops sampling and sends what is left.
    async fn finish(&mut self, updates: &mpsc::Sender<Update>) -> Result<()> {
        self.session.bpf.stop()?;
        for _ in 0..2 {
            if let Some(building) = self.building.take()
                && let Ok(Ok(built)) = timeout(LAST_LIMIT, building).await
            {
                // Nobody may listen any more.
                let _ = self.send(updates, built).await;
            }
            self.end_window().await?;
        }
        Ok(())
    }
}

impl Ends {
    /// Waits until there is nothing more to sample, or nobody wants it. Cancel safe.
    async fn wait(&mut self) -> EndReason {
        match self {
            Self::Process(end) => end.wait(None).await,
            Self::Signal(signals) => {
                signals.next().await;
                EndReason::Interrupted
            }
        }
    }

    /// Waits for a signal after the process has ended.
    async fn interrupted(&mut self) {
        if let Self::Process(end) = self {
            end.interrupted(EndReason::ProcessEnded, None).await;
        }
    }
}

/// Waits for profiles that are being built; for ever where there are none.
async fn built(building: Option<&mut oneshot::Receiver<Built>>) -> Built {
    match building {
        Some(building) => building.await.unwrap_or_default(),
        None => pending().await,
    }
}

/// Processes, and what cannot be sampled of them.
fn process_subject(found: &[Finding], options: &TopOptions) -> Result<Subject> {
    let others = options.native || options.children;
    let notices = match check_python(found, others) {
        Ok(notices) => notices,
        Err(error) => bail!("{error}"),
    };
    let mut interpreters = found.iter().filter_map(|one| one.interpreter.as_ref().ok());
    let has_gil = interpreters.any(|it| !it.flavour.is_free_threaded);
    let waits = if has_gil {
        Waits::WithGil
    } else {
        Waits::Sampled
    };
    let (name, command) = match found {
        [one] => {
            let metadata = one.metadata.as_ref();
            let command = metadata.and_then(|metadata| metadata.command_line.as_deref());
            (subject_text(&one.process), command)
        }
        several => (format!("{} processes", several.len()), None),
    };
    Ok(Subject {
        name,
        command: command.map(command_text).unwrap_or_default(),
        notice: printable(&notices.join(" ")).into_owned(),
        has_processes: options.children || found.len() > 1,
        has_native: options.native,
        waits,
    })
}

fn host_subject(options: &TopOptions) -> Subject {
    Subject {
        name: printable(&Host::here(None).name).into_owned(),
        has_processes: true,
        has_native: options.native,
        waits: match options.event {
            Event::Cpu => Waits::Nothing,
            Event::Wall => Waits::WithGil,
        },
        ..Subject::default()
    }
}

/// A command line without the folder of its program.
fn command_text(command: &str) -> String {
    let (program, arguments) = command.split_at(command.find(' ').unwrap_or(command.len()));
    let name = program.rsplit_once('/').map_or(program, |(_, name)| name);
    let text = format!("{name}{arguments}");
    shortened(&printable(&text), COMMAND_WIDTH).into_owned()
}

#[cfg(test)]
mod tests {
    use super::command_text;

    #[test]
    fn a_command_begins_with_the_name_of_its_program() {
        let text = |command| command_text(command);
        assert_eq!(
            text("/usr/bin/python3 /srv/app.py -x"),
            "python3 /srv/app.py -x"
        );
        assert_eq!(text("postgres: walwriter "), "postgres: walwriter ");
        assert_eq!(text("/usr/sbin/cron"), "cron");
        assert_eq!(text("a\x1b[2J b"), r"a\u{1b}[2J b");
    }
}
