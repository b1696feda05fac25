//! `cargo xtask bench host`: the agent of a host beside programs whose debug information is large.
//!
//! Three large Go programs, two builds of CPython and a C++ program do different things all the time,
//! each but one at a few percent of a processor. Minute by minute: what the agent uses, whether it
//! took the samples that were due, and how many native frames have a name and a line. At the end
//! every sampled address is looked up with other tools.
//!
//! Invariants: the agent is observed from outside, and all that it wrote is read after the measured
//! time; a sample is due for each period of CPU time that the scheduler counts for a program.

mod minutes;
mod names;
mod programs;
mod reference;
mod timeline;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};
use xtask::process::is_root;

use super::super::build;
use super::budget;
use super::machine::Machine;
use super::workload::directory;
use crate::commands::observe::daemon::Daemon;
use crate::commands::observe::pprof::Profile;
use crate::commands::observe::proc;
use crate::commands::observe::stats::float;
use minutes::{Frames, Minutes, Profiles, Usage};
use names::{Counts, SampledCode};
use programs::Processes;

/// The sampling rate.
const RATE_HZ: u32 = 97;

/// How often the CPU time of the programs is read.
const OBSERVE_EVERY: Duration = Duration::from_millis(500);

/// How often metrics are read, as Prometheus does by default.
const SCRAPE_EVERY: Duration = Duration::from_secs(15);

/// What the programs need before they are at work.
const WARM_UP: Duration = Duration::from_secs(5);

/// The minutes in which the agent may use more.
const START_MINUTES: usize = 2;

/// From then on all lines and inlined functions are expected.
const SETTLED: Duration = Duration::from_secs(300);

/// Time limit of the agent's end.
const END_LIMIT: Duration = Duration::from_secs(30);

const MINUTE: Duration = Duration::from_secs(60);

/// How long to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Minutes to measure; lines and inlined functions are judged after the fifth
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    minutes: u32,
    /// Fail when a budget is exceeded
    #[arg(long)]
    gate: bool,
    /// Measure this agent instead of building one
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
}

/// Measures, and prints the figures.
///
/// # Errors
///
/// When it could not be measured, or with `--gate` a budget was exceeded.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !is_root() {
        bail!("measuring needs root: run it as root");
    }
    let agent = options.agent.clone().map_or_else(build::agent, Ok)?;
    let duration = MINUTE * options.minutes.max(1);
    // The other tools take long at the end, while the programs run.
    let mut processes = Processes::start(duration * 2 + Duration::from_secs(1800))?;
    thread::sleep(WARM_UP);
    let mut machine = Machine::before()?;
    let observed = observe(&agent, &mut processes, duration)?;
    machine.after()?;

    eprintln!("reading profiles and looking addresses up");
    let (minutes, compared, differing) = evaluate(&observed, &processes)?;
    println!("{machine}\n");
    println!("{minutes}");
    print_programs(&observed, &processes, &compared)?;
    for line in rate_changes(&observed.log)? {
        println!("{line}");
    }
    let list = directory()?.join("host-differences.txt");
    fs::write(&list, differing.join("\n"))?;
    println!("differences from other tools: {}\n", list.display());
    let all = compared.into_iter().fold(Counts::default(), Counts::plus);
    let checks = checks(&minutes, all, duration);
    println!("| what | measured | budget | |\n|---|---|---|---|");
    for check in &checks {
        println!("{check}");
    }
    if options.gate && checks.iter().any(|check| check.is_within == Some(false)) {
        bail!("above budget");
    }
    Ok(())
}

/// What was seen while the agent ran.
struct Observed {
    began: SystemTime,
    usage: Vec<Usage>,
    /// Sampling rates by its metrics.
    rates: Vec<(Duration, f64)>,
    folder: PathBuf,
    log: PathBuf,
}

/// Runs the agent for so long.
fn observe(agent: &Path, processes: &mut Processes, duration: Duration) -> Result<Observed> {
    processes.observe()?;
    let (began, start) = (SystemTime::now(), Instant::now());
    let daemon = Daemon::start(
        agent,
        &directory()?,
        &["--rate".to_owned(), RATE_HZ.to_string()],
    )?;
    let mut usage = Vec::new();
    let mut rates = Vec::new();
    let mut lost = 0.0;
    let mut scrape_at = SCRAPE_EVERY / 2;
    loop {
        let at = start.elapsed();
        processes.observe()?;
        if at >= scrape_at {
            scrape_at += SCRAPE_EVERY;
            let metrics = daemon.metrics()?;
            lost = metrics.lost()?;
            rates.push((at, metrics.value("profiling_agent_sampling_rate_hertz")?));
        }
        if at >= MINUTE * u32::try_from(usage.len())? || usage.is_empty() {
            let pid = daemon.pid();
            usage.push(Usage {
                // The start is part of the first minute.
                at: if usage.is_empty() { Duration::ZERO } else { at },
                cpu: if usage.is_empty() {
                    Duration::ZERO
                } else {
                    proc::cpu_time(pid)?
                },
                memory_bytes: proc::memory_bytes(pid)?,
                peak_bytes: proc::peak_memory_bytes(pid)?,
                lost,
            });
            eprintln!("minute {} of {}", usage.len() - 1, duration.as_secs() / 60);
        }
        if at >= duration {
            break;
        }
        thread::sleep(OBSERVE_EVERY);
    }
    let (folder, log) = (daemon.folder().to_owned(), daemon.log().to_owned());
    daemon.stop(END_LIMIT)?;
    processes.observe()?;
    Ok(Observed {
        began,
        usage,
        rates,
        folder,
        log,
    })
}

/// The minutes, the comparison with other tools by program, and a line for each difference.
fn evaluate(
    observed: &Observed,
    processes: &Processes,
) -> Result<(Minutes, Vec<Counts>, Vec<String>)> {
    let count = observed.usage.len().saturating_sub(1);
    let mut profiles = vec![Profiles::default(); count];
    let minute_of = |at: Duration| usize::try_from(at.as_secs() / 60).unwrap_or(usize::MAX);
    for &(at, rate_hz) in &observed.rates {
        if let Some(minute) = profiles.get_mut(minute_of(at)) {
            minute.has_rate(rate_hz);
        }
    }
    let mut code: Vec<_> = processes.0.iter().map(|_| SampledCode::default()).collect();
    for (index, profile) in profiles_of(&observed.folder, processes)? {
        let process = &processes.0[index];
        let (start, end) = times(&profile);
        let at = start.duration_since(observed.began).unwrap_or_default();
        let all = profile.code();
        if let Some(minute) = profiles.get_mut(minute_of(at)) {
            minute.samples += profile.count();
            let used = process.cpu.used(start, end).unwrap_or_default();
            minute.due += used.as_secs_f64() * f64::from(RATE_HZ);
            minute.has_rate(1.0 / profile.period().as_secs_f64());
            for code in &all {
                let is_lined = code.frames.first().is_some_and(|frame| frame.line != 0);
                minute.frames = Frames {
                    all: minute.frames.all + code.count,
                    named: minute.frames.named
                        + if code.frames.is_empty() {
                            0
                        } else {
                            code.count
                        },
                    with_line: minute.frames.with_line + if is_lined { code.count } else { 0 },
                };
            }
        }
        code[index].add(all, at >= settled_after(count));
    }
    let mut differing = Vec::new();
    let compared = processes.0.iter().zip(&code).map(|(process, code)| {
        let compared = code.compare(process, &mut differing);
        compared.with_context(|| format!("the code of {} cannot be looked up", process.service))
    });
    let compared = compared.collect::<Result<_>>()?;
    let minutes = Minutes {
        usage: observed.usage.clone(),
        profiles,
    };
    Ok((minutes, compared, differing))
}

/// From when on lines are compared: in a short run in the last minute, where they are not judged.
fn settled_after(minutes: usize) -> Duration {
    let last = MINUTE * u32::try_from(minutes.saturating_sub(1)).unwrap_or(0);
    SETTLED.min(last)
}

/// The profiles of the programs, with the index of the program, the oldest first.
fn profiles_of(folder: &Path, processes: &Processes) -> Result<Vec<(usize, Profile)>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    // Names begin with the time.
    paths.sort();
    let mut profiles = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || !name.contains("_bench-") {
            continue;
        }
        let profile = Profile::read(&path)?;
        let is_it = |process: &programs::Process| profile.is_of(process.service);
        if let Some(index) = processes.0.iter().position(is_it) {
            profiles.push((index, profile));
        }
    }
    Ok(profiles)
}

fn times(profile: &Profile) -> (SystemTime, SystemTime) {
    let start = SystemTime::UNIX_EPOCH + profile.start();
    (start, start + profile.duration())
}

fn print_programs(observed: &Observed, processes: &Processes, compared: &[Counts]) -> Result<()> {
    println!(
        "| program | | CPU | samples taken of those due | addresses | named by tools | unnamed | \
         other name | with a line | without | other line | inlined | missing |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    let profiles = profiles_of(&observed.folder, processes)?;
    for (index, (process, counts)) in processes.0.iter().zip(compared).enumerate() {
        let mut samples = 0;
        let mut used = Duration::ZERO;
        for (_, profile) in profiles.iter().filter(|(of, _)| *of == index) {
            let (start, end) = times(profile);
            samples += profile.count();
            used += process.cpu.used(start, end).unwrap_or_default();
        }
        let due = used.as_secs_f64() * f64::from(RATE_HZ);
        println!(
            "| {} | {} | {:.1} s | {samples} of {due:.0} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            process.service,
            process.what,
            used.as_secs_f64(),
            counts.addresses,
            counts.named,
            counts.unnamed,
            counts.other_name,
            counts.with_line,
            counts.without_line,
            counts.other_line,
            counts.inlined,
            counts.not_inlined,
        );
    }
    println!();
    Ok(())
}

/// What the agent has logged about its sampling rate.
fn rate_changes(log: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
    let about = text.lines().filter(|line| line.contains("rate"));
    Ok(about.map(|line| format!("log: {line}")).collect())
}

/// A figure with its budget.
struct Check {
    what: &'static str,
    measured: String,
    budget: String,
    /// [`None`] when it is not judged.
    is_within: Option<bool>,
}

impl fmt::Display for Check {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.is_within {
            Some(true) => "within budget",
            Some(false) => "above budget",
            None => "not judged",
        };
        let Self {
            what,
            measured,
            budget,
            ..
        } = self;
        write!(out, "| {what} | {measured} | {budget} | {verdict} |")
    }
}

fn checks(minutes: &Minutes, names: Counts, duration: Duration) -> Vec<Check> {
    let seconds = minutes
        .cpu_until(START_MINUTES)
        .map(|cpu| cpu.as_secs_f64());
    let percent = minutes.percent_after(START_MINUTES);
    let peak = float(minutes.peak_bytes()) / 1e6;
    let rates = minutes.rates();
    let is_settled = duration > SETTLED;
    let missing = |count: u64, all: u64| format!("{count} of {all}");
    let of_lines = |count: u64| is_settled.then_some(count == 0);
    vec![
        Check {
            what: "own CPU in the first two minutes",
            measured: seconds.map_or("–".to_owned(), |it| format!("{it:.2} s")),
            budget: format!("≤ {} s", budget::START_CPU_SECONDS),
            is_within: seconds.map(|it| it <= budget::START_CPU_SECONDS),
        },
        Check {
            what: "own CPU after them, of a core",
            measured: percent.map_or("–".to_owned(), |it| format!("{it:.2} %")),
            budget: format!("≤ {} %", budget::BUSY_HOST_CPU),
            is_within: percent.map(|it| it <= budget::BUSY_HOST_CPU),
        },
        Check {
            what: "peak of RSS",
            measured: format!("{peak:.1} MB"),
            budget: format!("≤ {} MB", budget::BUSY_HOST_MEMORY_MB),
            is_within: Some(peak <= budget::BUSY_HOST_MEMORY_MB),
        },
        Check {
            what: "sampling rate",
            measured: rates.map_or("–".to_owned(), |(least, highest)| {
                format!("{least:.1}–{highest:.1} Hz")
            }),
            budget: format!("{RATE_HZ} Hz"),
            is_within: rates.map(|(least, highest)| {
                [least, highest]
                    .iter()
                    .all(|rate| (rate - f64::from(RATE_HZ)).abs() < 0.5)
            }),
        },
        Check {
            what: "samples and events lost",
            measured: format!("{:.0}", minutes.lost()),
            budget: "0".to_owned(),
            is_within: Some(minutes.lost() <= budget::LOST),
        },
        Check {
            what: "functions without a name that a tool names",
            measured: missing(names.unnamed, names.named),
            budget: "0".to_owned(),
            is_within: Some(names.unnamed == 0),
        },
        Check {
            what: "lines missing after five minutes",
            measured: missing(names.without_line, names.with_line),
            budget: "0".to_owned(),
            is_within: of_lines(names.without_line),
        },
        Check {
            what: "inlined functions missing after five minutes",
            measured: missing(names.not_inlined, names.inlined),
            budget: "0".to_owned(),
            is_within: of_lines(names.not_inlined),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(minute: u32, cpu_ms: u64) -> Usage {
        Usage {
            at: MINUTE * minute,
            cpu: Duration::from_millis(cpu_ms),
            memory_bytes: 1,
            peak_bytes: 70_000_000,
            lost: 0.0,
        }
    }

    #[test]
    fn budgets_are_judged_one_by_one() {
        let mut profiles = Profiles::default();
        profiles.has_rate(48.5);
        let minutes = Minutes {
            usage: vec![usage(0, 0), usage(1, 2000), usage(2, 2900), usage(3, 3500)],
            profiles: vec![profiles; 3],
        };
        let names = Counts {
            named: 3,
            unnamed: 1,
            ..Counts::default()
        };
        let verdicts = |duration| -> Vec<_> {
            let checks = checks(&minutes, names, duration);
            checks.iter().map(|check| check.is_within).collect()
        };
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(
            verdicts(3 * MINUTE),
            [yes, no, yes, no, yes, no, None, None]
        );
        assert_eq!(verdicts(6 * MINUTE)[6..], [yes, yes]);
        let row = checks(&minutes, names, MINUTE)[0].to_string();
        assert_eq!(
            row,
            "| own CPU in the first two minutes | 2.90 s | ≤ 3 s | within budget |"
        );
    }

    #[test]
    fn lines_are_compared_in_the_last_minute_or_after_five() {
        assert_eq!(settled_after(5), 4 * MINUTE);
        assert_eq!(settled_after(30), SETTLED);
        assert_eq!(settled_after(1), Duration::ZERO);
    }
}
