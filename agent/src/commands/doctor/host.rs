//! Whether this host can be profiled, and which events it has.

use std::{fmt, fs, io};

use rustix::{
    process::{Resource, getrlimit},
    system::uname,
};

use super::{
    dumps::{WITHOUT_PROGRAMS, lacks_capabilities},
    left_out::LeftOut,
    show::{
        parts::{write_left_out, write_requirements},
        rows::{line, path},
    },
};
use crate::{
    bpf::{self, Bpf, LoadOptions, Requirement, Visits, requirements},
    process::{Process, cgroup::Cgroup},
    profile::{CPU, Kind, Periods, RecordedExceptions},
    text::{printable, with_causes},
};

/// The name of what `--trace-switches` needs.
const TRACE_SWITCHES: &str = "switches";

/// Where control groups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// The report on a host.
#[derive(Debug)]
pub(super) struct HostReport {
    requirements: Vec<Requirement>,
    /// What the host and its kernel are like, each with its name.
    facts: Vec<(&'static str, String)>,
    /// Each kind of event, or why nothing can be tried.
    events: Result<Events, String>,
    pub(super) left_out: LeftOut,
}

/// What could be tried, each with the error of the kernel if it is refused.
#[derive(Debug)]
struct Events {
    kinds: Vec<(&'static Kind, Option<String>)>,
    /// Tracing of context switches.
    switches: Option<String>,
}

impl HostReport {
    /// Reads it, and loads the BPF programs for a moment.
    ///
    /// Must be called within a tokio runtime. Events are tried with `rate` samples per second.
    pub(super) fn find(rate: u32) -> Self {
        Self {
            requirements: requirements(),
            facts: facts(),
            events: events(rate).map_err(|error| with_causes(&error)),
            left_out: LeftOut::default(),
        }
    }

    /// What prevents a capture, each with what to do.
    fn obstacles(&self) -> Vec<String> {
        let unmet = self.requirements.iter();
        let unmet = unmet.filter_map(|one| Some(one.met.as_ref().err()?.to_string()));
        let mut obstacles: Vec<_> = unmet.collect();
        if let Err(error) = &self.events
            && !obstacles.contains(error)
        {
            obstacles.push(error.clone());
        }
        obstacles
    }

    /// Whether a capture would start.
    pub(super) fn is_profilable(&self) -> bool {
        self.obstacles().is_empty()
    }
}

impl fmt::Display for HostReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "System")?;
        write_requirements(formatter, &self.requirements)?;
        writeln!(formatter, "Host")?;
        for (name, text) in &self.facts {
            line(formatter, name, text)?;
        }
        if let Ok(events) = &self.events {
            writeln!(formatter, "Events")?;
            let kinds = events.kinds.iter().map(|(kind, error)| (kind.name, error));
            let options = [(TRACE_SWITCHES, &events.switches)];
            for (name, error) in kinds.chain(options) {
                let text = match error {
                    None => "ok".to_owned(),
                    Some(error) => format!("missing: {error}"),
                };
                line(formatter, name, &text)?;
            }
        }
        write_left_out(formatter, &self.left_out)?;
        let obstacles = self.obstacles();
        if obstacles.is_empty() {
            return writeln!(formatter, "This host can be profiled: agent top, agent run");
        }
        writeln!(formatter, "This host cannot be profiled:")?;
        for obstacle in obstacles {
            writeln!(formatter, "  - {}", printable(&obstacle))?;
        }
        if lacks_capabilities(&self.requirements) {
            writeln!(
                formatter,
                "But agent dump {WITHOUT_PROGRAMS}, of processes whose memory agent may read"
            )?;
        }
        Ok(())
    }
}

/// Tries each kind of event, as a capture of the whole host would.
fn events(rate: u32) -> anyhow::Result<Events> {
    bpf::check_requirements()?;
    let mut bpf = Bpf::load(&LoadOptions {
        kinds: vec![&CPU],
        period: Periods::new(rate, None).clock,
        hash_seed: 0,
        with_native: true,
        with_stack_copies: true,
        whole_host: true,
        with_appeared: false,
        visits: Visits::None,
        with_loops: false,
        lock_releases: false,
        switches: None,
        exceptions: RecordedExceptions::default(),
    })?;
    bpf.start()?;
    bpf.stop()?;
    let others = Kind::ALL.iter().copied().filter(|kind| !kind.is_cpu());
    let refused = bpf.refused_events(others);
    let switches = bpf.refused_switches().map(|error| error.to_string());
    let error_of = |kind: &'static Kind| {
        let cause = refused.iter().find(|(other, _)| {
            // What makes one pass over the threads impossible makes all of them.
            *other == kind
                || other.is_of_passes() && !other.is_about_releases() && kind.is_of_passes()
        });
        cause.map(|(_, error)| error.to_string())
    };
    let all = Kind::ALL.iter().copied();
    let kinds = all.map(|kind| (kind, error_of(kind))).collect();
    Ok(Events { kinds, switches })
}

/// What decides about profiling besides the requirements.
fn facts() -> Vec<(&'static str, String)> {
    let mut facts = vec![("kernel", uname().release().to_string_lossy().into_owned())];
    for (name, file) in [
        ("paranoid", "/proc/sys/kernel/perf_event_paranoid"),
        ("kptr", "/proc/sys/kernel/kptr_restrict"),
    ] {
        facts.extend(read(file).map(|text| (name, format!("{text} ({})", sysctl(file)))));
    }
    let lockdown = read("/sys/kernel/security/lockdown");
    facts.push(("lockdown", lockdown_text(lockdown.as_deref())));
    facts.extend(available_memory().map(|text| ("memory", text)));
    facts.push(("limit", memory_limit()));
    facts.push((
        "locked",
        locked_memory(getrlimit(Resource::Memlock).current),
    ));
    let missing = bpf::missing_rights(true).into_iter();
    facts.extend(missing.map(|lack| ("missing", lack)));
    facts
}

/// For example `kernel.kptr_restrict`.
fn sysctl(file: &str) -> String {
    file.trim_start_matches("/proc/sys/").replace('/', ".")
}

/// What the file `lockdown` says, which is not there where the kernel is not built with it.
fn lockdown_text(text: Option<&str>) -> String {
    let level = text.and_then(|text| text.split_once('[')?.1.split_once(']'));
    match level.map(|(level, _)| level) {
        None => "none: this kernel has no lockdown".to_owned(),
        Some(level @ "confidentiality") => {
            format!("{level}: BPF programs may not read the kernel's memory; boot with less of it")
        }
        Some(level) => level.to_owned(),
    }
}

fn available_memory() -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(format!("{} available", line.trim()))
}

/// The limit of the agent's control groups.
fn memory_limit() -> String {
    let process = Process::open(std::process::id());
    let cgroup = process.and_then(|process| process.cgroup());
    match cgroup.ok().and_then(|cgroup| lowest_limit(&cgroup)) {
        Some((bytes, group)) => format!("{} KiB for the agent, by {group}", bytes / 1024),
        None => "none for the agent".to_owned(),
    }
}

/// The lowest limit of a group and those around it, in bytes.
fn lowest_limit(cgroup: &Cgroup) -> Option<(u64, String)> {
    let groups = std::path::Path::new(&cgroup.path).ancestors();
    let limits = groups.filter_map(|group| {
        let group = path(group);
        let limit = read(&format!("{CGROUPS}{group}/memory.max"))?;
        Some((limit.parse().ok()?, group))
    });
    limits.min()
}

/// What is said about memory that may be locked; the kernel counts BPF maps before Linux 5.11.
fn locked_memory(limit: Option<u64>) -> String {
    match limit {
        None => "unlimited".to_owned(),
        Some(bytes) => format!(
            "{} KiB at most; counts for BPF maps before Linux 5.11",
            bytes / 1024
        ),
    }
}

fn read(file: &str) -> Option<String> {
    let text: io::Result<_> = fs::read_to_string(file);
    Some(text.ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_of_lockdown_is_the_one_in_brackets() {
        let text = |text| lockdown_text(Some(text));
        assert_eq!(text("[none] integrity confidentiality"), "none");
        assert_eq!(text("none [integrity] confidentiality"), "integrity");
        let strict = text("none integrity [confidentiality]");
        assert!(strict.starts_with("confidentiality: "), "{strict}");
        assert!(lockdown_text(None).starts_with("none: "));
    }

    #[test]
    fn what_cannot_be_tried_is_an_obstacle_once() {
        let report = |events| HostReport {
            requirements: Vec::new(),
            facts: vec![("kernel", "6.1".to_owned())],
            events,
            left_out: LeftOut::default(),
        };
        let refused = report(Err("no room".to_owned()));
        assert!(!refused.is_profilable());
        assert!(refused.to_string().ends_with("  - no room\n"), "{refused}");
        let fine = report(Ok(Events {
            kinds: vec![(&CPU, None)],
            switches: Some("too old".to_owned()),
        }));
        assert!(fine.is_profilable());
        assert!(fine.to_string().contains("  cpu           ok\n"), "{fine}");
        assert!(fine.to_string().contains("missing: too old\n"), "{fine}");
    }
}
