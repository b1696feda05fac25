//! The emulated machine.
//!
//! Invariants: it ends, by itself or by its time limit; no disk and no network.

use std::fs::{self, File};
use std::io::Seek as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::guest::Guest;
use super::kernel::Kernel;
use crate::architecture::{AARCH64, Architecture};
use crate::process::capture;

/// How often a guest that dies or hangs before its command starts, dies of a [`STALE_BREAKPOINT`] or is
/// [silent](SILENCE) is booted: emulated processors sometimes miss a deadline of the booting kernel.
const ATTEMPTS: u32 = 3;

/// How long it may take until the command starts: many times as long as usual.
const START_LIMIT: Duration = Duration::from_secs(180);

/// A guest says every two seconds that it is alive. One that says nothing for so long, not even that a processor of its
/// own hangs (after half a minute), has been stopped by the emulator.
const SILENCE: Duration = Duration::from_secs(90);

/// How long before the limit a guest says what its programs do.
const LOOK_BEFORE: Duration = Duration::from_secs(60);

/// What a kernel says that dies of a breakpoint which it has removed before. Kernels change their code
/// while it runs by putting a breakpoint there first; the emulator translates code for a processor while
/// another one writes to it, and keeps the translation with the breakpoint if it was between the two
/// steps of that write.
const STALE_BREAKPOINT: &str = "int3: 0000 [#1]";

/// The second and the third of four serial ports carry the command's output and the report.
const FOUR_PORTS: &str =
    "pci-serial-4x,chardev1=first,chardev2=output,chardev3=report,chardev4=last";

/// Keeps systemd from waiting for a login.
const WITHOUT_TERMINALS: &str = "systemd.mask=getty.target systemd.mask=serial-getty@ttyS0.service \
     systemd.mask=serial-getty@ttyAMA0.service";

/// A machine with a kernel to boot.
#[derive(Debug)]
pub(super) struct Machine {
    architecture: Architecture,
    emulator: PathBuf,
    image: PathBuf,
    release: String,
}

impl Machine {
    pub(super) fn new(kernel: Kernel, architecture: Architecture) -> Result<Self> {
        let emulator = architecture.emulator.ensure()?;
        let (image, release) = kernel.fetch(architecture)?;
        Ok(Self {
            architecture,
            emulator,
            image,
            release,
        })
    }

    /// The kernel's release.
    pub(super) fn release(&self) -> &str {
        &self.release
    }

    /// Boots, runs the guest's `/command` with its output going to `output`, else to the caller's
    /// standard output, and returns its exit status. A file is emptied before.
    pub(super) fn boot(&self, guest: &Guest, output: Option<&File>, limit: Duration) -> Result<u8> {
        let initial = guest.pack()?;
        let console = guest.scratch().join("console");
        let report = guest.scratch().join("report");
        for _ in 0..ATTEMPTS {
            fs::write(&report, "")?;
            let mut command = self.command(&initial, &console, &report, limit);
            command.stdin(Stdio::null());
            if let Some(mut output) = output {
                output.set_len(0)?;
                output.rewind()?;
                command.stdout(output.try_clone()?);
            }
            let said = || fs::metadata(&report).map_or(0, |report| report.len());
            let ended = wait(command, &Limits::new(limit), said)?;
            let report = fs::read_to_string(&report)?;
            if let Some(status) = report.lines().find_map(|line| line.strip_prefix("exit ")) {
                return status
                    .trim()
                    .parse()
                    .context("the guest's report is malformed");
            }
            let messages = fs::read(&console).unwrap_or_default();
            let messages = String::from_utf8_lossy(&messages);
            if messages.contains(STALE_BREAKPOINT) {
                continue;
            }
            let tail = last_lines(&messages);
            let release = &self.release;
            let has_started = report.starts_with("started");
            match ended {
                Ended::Itself if has_started => {
                    bail!("{release} died while the command ran:\n{tail}")
                }
                Ended::TooLate if has_started => {
                    bail!("{release} did not end within {limit:?}:\n{tail}")
                }
                // What it is about to say is of its kernel.
                Ended::Silent if !tail.is_empty() => bail!("{release} hangs:\n{tail}"),
                Ended::Silent => println!("{release} was stopped by the emulator"),
                Ended::Itself | Ended::TooLate => {
                    println!("{release} did not start its command:\n{tail}");
                }
            }
        }
        bail!("{} did not run in {ATTEMPTS} attempts", self.release)
    }

    fn command(&self, initial: &Path, console: &Path, report: &Path, limit: Duration) -> Command {
        let mut command = Command::new(&self.emulator);
        command
            .args(["-smp", "2", "-m", "2048", "-accel", "tcg,thread=multi"])
            .args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none", "-monitor", "none"])
            .arg("-kernel")
            .arg(&self.image)
            .arg("-initrd")
            .arg(initial);
        let (console, report) = (console.display(), report.display());
        let parameters = if self.architecture == AARCH64 {
            command
                // All that processors may have, as signed return addresses: not computed as real ones do, which takes
                // an emulator most of its time.
                .args(["-machine", "virt", "-cpu", "max,pauth-impdef=on"])
                .args(["-serial", &format!("file:{console}")])
                .args(["-chardev", "null,id=first", "-chardev", "null,id=last"])
                .args(["-chardev", "stdio,id=output"])
                .args(["-chardev", &format!("file,id=report,path={report}")])
                // With the names that these have below.
                .args(["-device", FOUR_PORTS]);
            "console=ttyAMA0".to_owned()
        } else {
            command
                .args(["-machine", "pc,hpet=off"])
                // Without cmpxchg16b: no kernel needs it, and where the host has no such instruction
                // the emulator stops all processors for each one.
                .args(["-cpu", "max,-cx16"])
                .args(["-serial", &format!("file:{console}")])
                .args(["-serial", "stdio"])
                .args(["-serial", &format!("file:{report}")]);
            // Calibrating the clock against other emulated clocks fails; the emulated counter runs at
            // the rate of this machine's.
            let rate = counter_kilohertz().map_or_else(String::new, |kilohertz| {
                format!("tsc_early_khz={kilohertz}")
            });
            format!("console=ttyS0 no_timer_check tsc=reliable {rate}")
        };
        let look_after = limit.saturating_sub(LOOK_BEFORE).as_secs();
        command.args([
            "-append",
            &format!(
                "{parameters} look_after={look_after} panic=-1 quiet loglevel=4 random.trust_cpu=on mitigations=off \
                 {WITHOUT_TERMINALS}"
            ),
        ]);
        command
    }
}

/// How the emulator has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Itself,
    /// The guest has said nothing for a while.
    Silent,
    /// At the limit, or without having started.
    TooLate,
}

/// How long a guest may take until its command starts, between two signs of life, and in all.
struct Limits {
    start: Duration,
    silence: Duration,
    limit: Duration,
}

impl Limits {
    /// Those of a guest that may take so long.
    fn new(limit: Duration) -> Self {
        Self {
            start: START_LIMIT,
            silence: SILENCE,
            limit,
        }
    }
}

/// Runs the command until it ends or a limit is reached; `said` is how much the guest has said so far, nothing before
/// it has started.
fn wait(mut command: Command, limits: &Limits, said: impl Fn() -> u64) -> Result<Ended> {
    let mut child = command.spawn().context("cannot start the emulator")?;
    let start = Instant::now();
    let mut last = (0, start);
    let ended = loop {
        if child.try_wait()?.is_some() {
            return Ok(Ended::Itself);
        }
        let now = Instant::now();
        let said = said();
        if said != last.0 {
            last = (said, now);
        }
        let (elapsed, silence) = (now - start, now - last.1);
        if elapsed >= limits.limit || said == 0 && elapsed >= limits.start {
            break Ended::TooLate;
        }
        if said != 0 && silence >= limits.silence {
            break Ended::Silent;
        }
        thread::sleep(Duration::from_millis(50));
    };
    child.kill()?;
    child.wait()?;
    Ok(ended)
}

/// The rate of this machine's time-stamp counter, as measured by its kernel.
fn counter_kilohertz() -> Option<u64> {
    let from_log = || {
        let log = capture(&mut Command::new("dmesg")).ok()?;
        let (_, rest) = log.split_once("tsc: Detected ")?;
        kilohertz(rest.split_once(" MHz")?.0)
    };
    let from_processor = || {
        let processors = fs::read_to_string("/proc/cpuinfo").ok()?;
        let line = processors
            .lines()
            .find(|line| line.starts_with("cpu MHz"))?;
        kilohertz(line.split_once(": ")?.1)
    };
    from_log().or_else(from_processor)
}

/// Reads megahertz with three digits after the point.
fn kilohertz(megahertz: &str) -> Option<u64> {
    let (whole, fraction) = megahertz.split_once('.')?;
    Some(whole.parse::<u64>().ok()? * 1000 + fraction.get(..3)?.parse::<u64>().ok()?)
}

fn last_lines(console: &str) -> String {
    let lines: Vec<_> = console.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_counters_rate_is_read_in_kilohertz() {
        assert_eq!(kilohertz("2599.998"), Some(2_599_998));
        assert_eq!(kilohertz("2000.000"), Some(2_000_000));
        assert_eq!(kilohertz("2000"), None);
    }

    #[test]
    fn an_emulator_that_hangs_is_ended() {
        let hanging = || {
            let mut command = Command::new("sleep");
            command.arg("60");
            command
        };
        let (short, long) = (Duration::from_millis(60), Duration::from_secs(60));
        let limits = |start, silence, limit| Limits {
            start,
            silence,
            limit,
        };
        let wait =
            |command, limits: Limits, said: &dyn Fn() -> u64| wait(command, &limits, said).unwrap();
        let never_started = wait(hanging(), limits(short, long, long), &|| 0);
        assert_eq!(never_started, Ended::TooLate);
        let silent = wait(hanging(), limits(short, 2 * short, long), &|| 7);
        assert_eq!(silent, Ended::Silent);
        let lines = Cell::new(0);
        let alive = || {
            lines.set(lines.get() + 1);
            lines.get()
        };
        let never_ends = wait(hanging(), limits(short, 2 * short, 5 * short), &alive);
        assert_eq!(never_ends, Ended::TooLate);
        let mut slow = Command::new("sleep");
        slow.arg("0.3");
        for command in [Command::new("true"), slow] {
            assert_eq!(
                wait(command, limits(short, long, long), &alive),
                Ended::Itself
            );
        }
    }
}
