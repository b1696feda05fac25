//! The agent of a host: every process, all the time.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use aya::programs::loaded_programs;
use rustix::process::Signal;
use tempfile::TempDir;
use test_support::child;

use super::{
    capture::Running,
    dashboard,
    folded::names,
    machine,
    pprof::{self, Profile},
    target::{Target, mortal},
    whole::{self, Kind, Place},
};

/// Samples per second of CPU time.
pub(super) const RATE: u64 = 97;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The folder of profiles in the folder of an agent.
pub(super) const PROFILES: &str = "profiles";

/// The agent of a host, with a folder for its profiles.
pub(super) struct Host {
    agent: Running,
    folder: TempDir,
    address: SocketAddr,
}

impl Host {
    /// Starts it with this configuration besides, and waits until it samples.
    pub(super) fn start(configuration: &str) -> Self {
        Self::start_pushing(&[], configuration)
    }

    /// The same with these exporters besides, each with its name and what it needs.
    pub(super) fn start_pushing(exporters: &[String], configuration: &str) -> Self {
        Self::start_in(exporters, configuration, [])
    }

    /// The same with these variables.
    pub(super) fn start_in<const N: usize>(
        exporters: &[String],
        configuration: &str,
        environment: [(&str, PathBuf); N],
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let address = free_address();
        let file = folder.path().join("agent.yaml");
        let path = folder.path().join(PROFILES);
        fs::write(&file, with_exporters(&path, exporters, configuration)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command
            .args(["run", "--config", file.to_str().unwrap()])
            .args(["--listen", &address.to_string()])
            .args(["--rate", &RATE.to_string()])
            .envs(environment);
        let mut agent = Running::from_command(command);
        agent.wait_until_sampling();
        Self {
            agent,
            folder,
            address,
        }
    }

    /// What it answers to a request.
    pub(super) fn get(&self, path: &str) -> Vec<u8> {
        get(self.address, path)
    }

    /// The values of its metrics.
    pub(super) fn metrics(&self) -> BTreeMap<String, f64> {
        let text = String::from_utf8(self.get("/metrics")).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').unwrap();
                (name.to_owned(), value.parse().unwrap())
            })
            .collect()
    }

    /// Where it answers.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it in order, and gives its profiles by their service.
    fn end(self) -> BTreeMap<String, Profile> {
        let folder = self.stop();
        profiles(&folder.path().join(PROFILES))
    }

    /// Ends it in order, and gives the folder with its profiles in [`PROFILES`].
    pub(super) fn stop(self) -> TempDir {
        let (folder, messages) = self.stop_with_warnings();
        assert!(!messages.contains("WARN"), "{messages}");
        folder
    }

    /// The same, and gives what it has said, which may be warnings.
    pub(super) fn stop_with_warnings(self) -> (TempDir, String) {
        self.agent.signal(Signal::TERM);
        let capture = self.agent.finish();
        assert!(capture.status.success(), "{}", capture.messages);
        (self.folder, capture.messages)
    }

    /// Kills it, and gives the folder.
    pub(super) fn kill(self) -> TempDir {
        self.agent.signal(Signal::KILL);
        self.agent.finish();
        self.folder
    }
}

/// What is answered to a request, which must succeed.
pub(super) fn get(address: SocketAddr, path: &str) -> Vec<u8> {
    let (status, body) = ask(address, path);
    let text = String::from_utf8_lossy(&body);
    assert_eq!(status, "200", "{path}: {text}");
    body
}

/// How a request is answered: the status and the body.
pub(super) fn ask(address: SocketAddr, path: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    // In this version of the protocol all that follows the head is the answer.
    let request = format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let body = answer.split_off(end.unwrap() + 4);
    let head = String::from_utf8(answer).unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (status.to_owned(), body)
}

/// A configuration with one exporter, a folder.
fn in_folder(folder: &Path, others: &str) -> String {
    with_exporters(folder, &[], others)
}

/// A configuration with a folder and other exporters.
fn with_exporters(folder: &Path, exporters: &[String], others: &str) -> String {
    let local = format!("local: {{type: file, folder: {}}}", folder.display());
    let exporters = [&[local], exporters].concat().join(", ");
    format!("exporters: {{{exporters}}}\nwindow: 2s\n{others}\n")
}

/// An address that nobody listens at.
pub(super) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// The profiles of a folder, by their service; those of all windows are one.
pub(super) fn profiles(folder: &Path) -> BTreeMap<String, Profile> {
    let mut profiles = BTreeMap::<String, Profile>::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let service = name.strip_suffix(".pb.gz").unwrap();
        let (_, service) = service.split_once("Z_").unwrap();
        // One of several that have the same service and other labels.
        let number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let service = match service.rsplit_once('_') {
            Some((service, end)) if number(end) => service,
            _ => service,
        };
        let profile = pprof::read(&fs::read(entry.path()).unwrap());
        match profiles.get_mut(service) {
            Some(known) => known.add(profile),
            None => {
                profiles.insert(service.to_owned(), profile);
            }
        }
    }
    profiles
}

/// Samples of a profile that have all these functions in their stacks, one called by the other.
fn count(profile: &Profile, functions: &[&str]) -> u64 {
    let samples = profile.samples.iter();
    samples
        .filter(|sample| {
            let names = names(&sample.thread.stack);
            names.windows(functions.len()).any(|some| some == functions)
        })
        .map(|sample| sample.count)
        .sum()
}

/// Waits until a process has used so much more CPU time, however busy the machine is.
pub(super) fn wait_for_cpu(target: &Target, time: Duration) {
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", target.pid())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let mut fields = fields.split(' ').skip(12);
        let mut field = || fields.next().unwrap().parse::<u64>().unwrap();
        field() + field()
    };
    let enough = ticks() + u64::try_from(time.as_millis()).unwrap() / 10;
    child::wait_until("the process has used that time", || ticks() >= enough);
}

/// Fails unless a profile is of the workload `busy`, which used at least a second.
pub(super) fn assert_busy(profile: &Profile) {
    let main = count(profile, &["<module>", "main"]);
    assert!(main >= RATE / 2, "{main}");
    assert!(main * 10 > profile.total() * 9, "{main}");
}

/// A workload, with a name for OpenTelemetry.
pub(super) fn service(workload: &str, name: &str) -> Target {
    let environment = [("OTEL_SERVICE_NAME", name)];
    Target::start_in(machine::one_interpreter(), workload, &[], &environment)
}

#[test]
fn every_process_of_a_host_is_profiled_and_every_sample_is_accounted_for() {
    let _machine = machine::alone();
    let before = service("busy", "before");
    let host = Host::start("");
    wait_for_cpu(&before, SECOND);
    let after = service("busy", "after");
    let mut shell = mortal("sh");
    shell.env("OTEL_SERVICE_NAME", "shell");
    shell.args(["-c", "echo ready; while :; do :; done"]);
    let shell = Target::from_command(shell);
    wait_for_cpu(&after, SECOND);
    wait_for_cpu(&shell, SECOND);
    drop((before, after, shell));
    // So that the last window has been reported when the numbers are asked for.
    thread::sleep(Duration::from_secs(3));
    let metrics = host.metrics();
    let profiles = host.end();

    for name in ["before", "after"] {
        assert_busy(&profiles[name]);
    }
    assert!(profiles["shell"].total() >= RATE / 2);
    for lost in [
        "profiling_agent_samples_lost_total",
        "profiling_agent_window_lost_samples_total",
        "profiling_agent_unknown_process_samples_total",
        "profiling_agent_process_events_lost_total",
        "profiling_agent_untracked_processes_total",
    ] {
        assert!(metrics[lost].abs() < f64::EPSILON, "{lost}: {metrics:?}");
    }
    let total: u64 = profiles.values().map(Profile::total).sum();
    let told = metrics["profiling_agent_profile_samples_total"];
    // What was sampled between the question and the end is told by the profiles alone.
    let total = f64::from(u32::try_from(total).unwrap());
    assert!(total >= told && told > 0.0, "{total} {told}");
    let delivered = metrics[r#"profiling_agent_export_delivered_total{exporter="local"}"#];
    assert!((delivered - metrics["profiling_agent_profiles_total"]).abs() < f64::EPSILON);
}

#[test]
fn the_threads_of_the_kernel_are_a_service_of_their_own() {
    let _machine = machine::alone();
    let host = Host::start("thread_labels: true");
    let terminal = service("terminal", "terminal");
    wait_for_cpu(&terminal, SECOND);
    drop(terminal);
    let kept = host.stop();
    let mut brought = 0;
    for path in whole::files(&kept.path().join(PROFILES), "_kernel_").values() {
        let file = fs::read(path).unwrap();
        for (stack, count) in whole::of_pprof(&file).stacks {
            assert!(stack.iter().all(|place| place.kind == Kind::Kernel));
            let calls = |name| move |place: &Place| place.lines[0].function.starts_with(name);
            // Where threads of the kernel start.
            assert!(calls("ret_from_fork")(stack.last().unwrap()), "{stack:?}");
            if stack.iter().any(calls("flush_to_ldisc")) {
                brought += count;
            }
        }
        for sample in pprof::read(&file).samples {
            assert!(!sample.thread.name.is_empty(), "{sample:?}");
        }
    }
    assert!(brought != 0);
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    let host = Host::start("");
    wait_for_cpu(&busy, SECOND);
    // A window and its delivery.
    thread::sleep(Duration::from_secs(3));
    let metrics = host.metrics();
    host.end();
    let names = metrics.keys().map(|name| name.split('{').next().unwrap());
    let mut known: BTreeSet<_> = names.collect();
    known.extend(dashboard::SOMETIMES);
    let asked_for = dashboard::metrics();
    assert!(asked_for.len() >= 20, "{asked_for:?}");
    for name in &asked_for {
        assert!(known.contains(name.as_str()), "{name}: {known:?}");
    }
}

#[test]
fn what_is_excluded_is_not_profiled() {
    let _machine = machine::alone();
    let [seen, unseen] = ["seen", "unseen"].map(|name| service("busy", name));
    let pid = unseen.pid();
    let host = Host::start(&format!("exclude: [{{pid: {pid}}}]"));
    wait_for_cpu(&seen, SECOND);
    wait_for_cpu(&unseen, SECOND);
    let profiles = host.end();
    assert_busy(&profiles["seen"]);
    assert!(!profiles.contains_key("unseen"));
}

#[test]
fn somebody_can_ask_for_a_profile_of_one_process() {
    let _machine = machine::alone();
    let [asked_for, other] = ["asked-for", "other"].map(|name| service("busy", name));
    let host = Host::start("");
    assert_eq!(host.get("/healthz"), b"ok\n");
    for filter in [
        format!("pid={}", asked_for.pid()),
        "service_name=asked-for".to_owned(),
    ] {
        let path = format!("/debug/pprof/profile?seconds=5&{filter}");
        let profile = pprof::read(&host.get(&path));
        assert_busy(&profile);
        let ids: Vec<_> = profile.threads().iter().map(|thread| thread.id).collect();
        assert_eq!(ids, [asked_for.pid()], "{filter}");
    }
    drop(other);
}

#[test]
fn another_configuration_takes_effect_without_a_gap() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    let host = Host::start("");
    wait_for_cpu(&busy, SECOND);
    let second = TempDir::new().unwrap();
    let file = host.folder.path().join("agent.yaml");
    fs::write(&file, "rate: of course\n").unwrap();
    host.agent.signal(Signal::HUP);
    wait_for_cpu(&busy, SECOND);
    let rule = "relabel_configs: [{target_label: service_name, replacement: renamed}]";
    fs::write(&file, in_folder(second.path(), rule)).unwrap();
    host.agent.signal(Signal::HUP);
    wait_for_cpu(&busy, SECOND * 2);
    host.agent.signal(Signal::TERM);
    let capture = host.agent.finish();
    assert!(capture.status.success(), "{}", capture.messages);
    let refused = "the configuration is unchanged";
    assert!(capture.messages.contains(refused), "{}", capture.messages);
    let first = profiles(&host.folder.path().join(PROFILES));
    let second = profiles(second.path());
    assert_busy(&first["busy"]);
    assert_eq!(second.keys().collect::<Vec<_>>(), ["renamed"]);
    assert!(count(&second["renamed"], &["<module>", "main"]) >= RATE / 2);
}

#[test]
fn without_arguments_the_host_is_sampled_into_a_folder() {
    let _machine = machine::alone();
    let state = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    command
        .env("STATE_DIRECTORY", state.path())
        .env("AGENT_LISTEN", "off")
        .env("AGENT_RATE", RATE.to_string());
    let mut agent = Running::from_command(command);
    agent.wait_until_sampling();
    let busy = service("busy", "busy");
    wait_for_cpu(&busy, SECOND);
    agent.signal(Signal::INT);
    let capture = agent.finish();
    assert!(capture.status.success(), "{}", capture.messages);
    assert_busy(&profiles(&state.path().join("profiles"))["busy"]);
}

#[test]
fn an_agent_that_is_killed_leaves_nothing_in_the_kernel() {
    let _machine = machine::alone();
    let programs = || {
        let programs = loaded_programs().filter_map(Result::ok);
        let ours = programs.filter(|program| program.name_as_str() == Some("on_cpu"));
        ours.count()
    };
    let before = programs();
    let host = Host::start("");
    assert_eq!(programs(), before + 1);
    host.kill();
    // The kernel frees programs a moment later.
    child::wait_until("the programs are gone", || programs() <= before);
}

#[test]
fn a_configuration_is_checked_without_being_carried_out() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("agent.yaml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        let mut agent = Command::new(env!("CARGO_BIN_EXE_agent"));
        agent.args(["run", "--check-config", "--config", file.to_str().unwrap()]);
        let output = agent.output().unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), messages)
    };
    assert_eq!(check("window: 10s\n"), (true, String::new()));
    let (is_right, messages) = check("widow: 10s\n");
    assert!(!is_right);
    assert!(messages.contains("(did you mean `window`?)"), "{messages}");
}
