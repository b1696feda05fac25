//! Faults around the agent of a host: all samples are delivered, or counted as dropped.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use collector_doubles::{
    pyroscope::{PushRequest, strict_pyroscope},
    server::{Received, Reply, status, with_header},
};
use prost::Message as _;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;
use test_support::child;
use xtask::{packages, process::capture};

use super::{
    host::{Host, PROFILES, SECOND, assert_busy, profiles, service, wait_for_cpu},
    machine, pprof,
    strict::Strict,
};

/// The window of the agents in these tests, and enough time for two of them.
const WINDOW: Duration = Duration::from_secs(2);
const TWO_WINDOWS: Duration = Duration::from_secs(5);

/// An adjustable wall clock for the agent; its monotonic clock is unchanged.
struct Clock {
    library: PathBuf,
    folder: TempDir,
}

impl Clock {
    fn new() -> Self {
        packages::install(&["libfaketime"]).unwrap();
        let files = capture(Command::new("dpkg").args(["-L", "libfaketime"])).unwrap();
        let mut files = files.lines().map(PathBuf::from);
        let clock = Self {
            library: files
                .find(|file| file.ends_with("libfaketime.so.1"))
                .unwrap(),
            folder: TempDir::new().unwrap(),
        };
        clock.set("+0");
        clock
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// Sets its offset from the machine's clock, in seconds.
    fn set(&self, offset: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, offset).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    fn environment(&self) -> [(&str, PathBuf); 4] {
        [
            ("LD_PRELOAD", self.library.clone()),
            ("FAKETIME_TIMESTAMP_FILE", self.file()),
            ("FAKETIME_CACHE_DURATION", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }
}

#[test]
fn setting_the_clock_loses_no_samples() {
    let _machine = machine::alone();
    let clock = Clock::new();
    let busy = service("busy", "busy");
    let host = Host::start_in(&[], "", clock.environment());
    // An hour later, then an hour earlier.
    for offset in ["+3600", "-3600", "+0"] {
        wait_for_cpu(&busy, SECOND);
        thread::sleep(TWO_WINDOWS);
        clock.set(offset);
    }
    thread::sleep(TWO_WINDOWS);
    let counted = host.metrics()["profiling_agent_profile_samples_total"];
    let folder = host.stop();
    let mut sampled = 0;
    let mut starts = Vec::new();
    for file in files(&folder.path().join(PROFILES)) {
        let profile = pprof::read(&file);
        assert!(profile.duration < WINDOW * 5, "{:?}", profile.duration);
        sampled += profile.total();
        starts.push(profile.start);
    }
    starts.sort_unstable();
    let (first, last) = (starts[0], *starts.last().unwrap());
    let between = last.duration_since(first).unwrap();
    assert!(between > Duration::from_secs(2 * 3600 - 600), "{between:?}");
    let sampled = f64::from(u32::try_from(sampled).unwrap());
    assert!(sampled >= counted && counted > 0.0, "{sampled} {counted}");
}

#[test]
fn for_any_response_of_a_collector_all_profiles_are_delivered_or_counted() {
    let _machine = machine::alone();
    let pyroscope = Strict::start(strict_pyroscope);
    let accepted = || status(200, "");
    for reply in [
        Reply::Reset,
        accepted(),
        status(500, "no"),
        accepted(),
        with_header(429, "retry-after", "1"),
        accepted(),
        Reply::Early(503),
        accepted(),
        Reply::TruncatedBody,
        accepted(),
        Reply::Hang,
        accepted(),
        status(413, "too large"),
        accepted(),
    ] {
        pyroscope.say(reply);
    }
    let busy = service("busy", "busy");
    let exporter = format!(
        "grafana: {{type: pyroscope, url: '{}', timeout: 1s, function_names: plain}}",
        pyroscope.url()
    );
    let host = Host::start_pushing(&[exporter], "");
    let too_large =
        r#"profiling_agent_export_dropped_total{exporter="grafana",reason="too_large"}"#;
    let metrics = metrics_when(&host, "one was too large", |metrics| {
        metrics[too_large] >= 1.0
    });
    drop(busy);
    let (folder, messages) = host.stop_with_warnings();

    for reason in ["server_error", "throttled", "unavailable", "timed_out"] {
        let failures = format!(
            r#"profiling_agent_export_failures_total{{exporter="grafana",reason="{reason}"}}"#
        );
        assert!(metrics[&failures] > 0.0, "{reason}: {metrics:?}");
    }
    assert!(
        (dropped(&metrics, "grafana") - 1.0).abs() < f64::EPSILON,
        "{metrics:?}"
    );
    assert!(messages.contains("413"), "{messages}");
    let written = files(&folder.path().join(PROFILES));
    let received = pushed(&pyroscope.received());
    let missing: Vec<_> = written.difference(&received).collect();
    assert_eq!(
        missing.len(),
        1,
        "only the too large profile may be missing"
    );
    assert!(received.is_subset(&written));
}

#[test]
fn a_killed_agent_loses_no_profile_in_its_spool() {
    let _machine = machine::alone();
    let spool = TempDir::new().unwrap();
    let exporter = |url: &str| {
        let spool = spool.path().display();
        let names = "function_names: plain";
        format!("grafana: {{type: pyroscope, url: '{url}', {names}, spool: {{folder: {spool}}}}}")
    };
    let busy = service("busy", "busy");
    // No server listens there.
    let host = Host::start_pushing(&[exporter("http://127.0.0.1:9")], "");
    let spooled = r#"profiling_agent_export_queue_length{exporter="grafana",queue="spool"}"#;
    let has_enough = |metrics: &BTreeMap<String, f64>| {
        metrics["profiling_agent_windows_total"] >= 3.0 && metrics[spooled] >= 3.0
    };
    metrics_when(&host, "three windows wait", has_enough);
    let folder = host.kill();
    wait_for_cpu(&busy, SECOND / 10);

    let mut written: Vec<_> = files(&folder.path().join(PROFILES)).into_iter().collect();
    written.sort_by_key(|file| pprof::read(file).start);
    let last = pprof::read(written.last().unwrap()).start;
    // Profiles of the last window may have been in memory only.
    written.retain(|file| pprof::read(file).start < last);
    assert!(!written.is_empty());
    let pyroscope = Strict::start(strict_pyroscope);
    let host = Host::start_pushing(&[exporter(&pyroscope.url())], "");
    metrics_when(&host, "nothing waits", |metrics| metrics[spooled] <= 0.0);
    host.stop();
    let received = pushed(&pyroscope.received());
    assert!(written.iter().all(|file| received.contains(file)));
}

#[test]
fn an_agent_that_evicts_its_caches_refills_them() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    let host = Host::start("max_memory: 1MiB");
    let evictions = "profiling_agent_memory_limit_reached_total";
    let metrics = metrics_when(&host, "the limit was reached", |metrics| {
        metrics[evictions] >= 3.0
    });
    drop(busy);
    let (folder, messages) = host.stop_with_warnings();
    assert_eq!(messages.matches("max_memory").count(), 1, "{messages}");
    let profile = &profiles(&folder.path().join(PROFILES))["busy"];
    assert_busy(profile);
    for lost in [
        "profiling_agent_samples_lost_total",
        "profiling_agent_unresolved_frames_total",
    ] {
        assert!(metrics[lost].abs() < f64::EPSILON, "{lost}: {metrics:?}");
    }
}

/// The metrics of a host once they satisfy a condition.
fn metrics_when(
    host: &Host,
    what: &str,
    is_met: impl Fn(&BTreeMap<String, f64>) -> bool,
) -> BTreeMap<String, f64> {
    let mut metrics = host.metrics();
    child::wait_until(what, || {
        metrics = host.metrics();
        is_met(&metrics)
    });
    metrics
}

/// The profiles that a Pyroscope received.
fn pushed(received: &[Received]) -> BTreeSet<Vec<u8>> {
    let series = received
        .iter()
        .flat_map(|request| PushRequest::decode(request.body.clone()).unwrap().series);
    let samples = series.flat_map(|series| series.samples);
    samples.map(|sample| sample.raw_profile).collect()
}

/// The contents of the files in a folder.
fn files(folder: &Path) -> BTreeSet<Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries
        .map(|entry| fs::read(entry.path()).unwrap())
        .collect()
}

/// A small disk that the test fills.
struct Disk(TempDir);

impl Disk {
    fn mount() -> Self {
        let folder = TempDir::new().unwrap();
        mount(
            "tmpfs",
            folder.path(),
            "tmpfs",
            MountFlags::empty(),
            c"size=1m",
        )
        .unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Uses up all free space.
    fn fill(&self) {
        let mut file = File::create(self.filler()).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Frees the space again.
    fn empty(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_is_retried_and_delays_no_other_exporter() {
    let _machine = machine::alone();
    let disk = Disk::mount();
    disk.fill();
    let busy = service("busy", "busy");
    let small = disk.path().join(PROFILES);
    let exporter = format!("small: {{type: file, folder: {}}}", small.display());
    let host = Host::start_pushing(&[exporter], "");
    wait_for_cpu(&busy, SECOND);
    thread::sleep(TWO_WINDOWS);
    let full = host.metrics();
    disk.empty();
    let delivered = r#"profiling_agent_export_delivered_total{exporter="small"}"#;
    let metrics = metrics_when(&host, "all are delivered", |metrics| {
        metrics[delivered] >= full["profiling_agent_profiles_total"]
    });
    let (folder, messages) = host.stop_with_warnings();

    assert!(messages.contains("No space left on device"), "{messages}");
    assert!(full[delivered].abs() < f64::EPSILON, "{full:?}");
    assert!(full[r#"profiling_agent_export_delivered_total{exporter="local"}"#] > 0.0);
    assert!(full[r#"profiling_agent_export_failures_total{exporter="small",reason="disk"}"#] > 0.0);
    assert!(
        dropped(&metrics, "small").abs() < f64::EPSILON,
        "{metrics:?}"
    );
    // The queued profiles are written, and equal those of the other exporter.
    let [small, local] = [small, folder.path().join(PROFILES)].map(|path| {
        let services = profiles(&path).into_iter();
        let totals = services.map(|(service, profile)| (service, profile.total()));
        totals.collect::<BTreeMap<_, _>>()
    });
    assert_eq!(small, local);
}

/// The number of profiles that an exporter has dropped.
fn dropped(metrics: &BTreeMap<String, f64>, exporter: &str) -> f64 {
    let prefix = format!(r#"profiling_agent_export_dropped_total{{exporter="{exporter}""#);
    let all = metrics.iter().filter(|(name, _)| name.starts_with(&prefix));
    all.map(|(_, count)| count).sum()
}
