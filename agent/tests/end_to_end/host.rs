//! Host-wide profiling: `agent run` samples every process continuously.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use aya::programs::loaded_programs;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use test_support::child;

use super::{
    capture::Running,
    dashboard,
    folded::{names, text},
    machine::{self, stolen_time},
    pprof::{self, Profile},
    target::{Target, mortal},
    whole::{self, Kind, Location},
};

/// Samples per second of CPU time.
pub(super) const RATE: u64 = 97;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The folder of profiles in the folder of an agent.
pub(super) const PROFILES: &str = "profiles";

/// The Unix socket in the folder of an agent.
const SOCKET: &str = "agent.sock";

/// A running host-wide agent, with a folder for its profiles.
pub(super) struct Host {
    agent: Running,
    folder: TempDir,
    address: SocketAddr,
}

impl Host {
    /// Starts the agent with this additional configuration, and waits until it samples.
    pub(super) fn start(configuration: &str) -> Self {
        Self::start_pushing(&[], configuration)
    }

    /// The same, with additional exporters, each in the form `name: {settings}`.
    pub(super) fn start_pushing(exporters: &[String], configuration: &str) -> Self {
        Self::start_in(exporters, configuration, [])
    }

    /// The same, with these environment variables.
    pub(super) fn start_in<const N: usize>(
        exporters: &[String],
        configuration: &str,
        environment: [(&str, PathBuf); N],
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let address = free_address();
        let file = folder.path().join("agent.yaml");
        let path = folder.path().join(PROFILES);
        let configuration = with_exporters(&path, exporters, configuration);
        let socket = folder.path().join(SOCKET);
        let listen = format!(
            "{configuration}listen: '{address}'\nsocket: {}\n",
            socket.display()
        );
        fs::write(&file, listen).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command
            .args(["run", "--config", file.to_str().unwrap()])
            .args(["--rate", &RATE.to_string()])
            .envs(environment);
        let mut agent = Running::from_command(command);
        agent.wait_until_sampling();
        // It answers once all of its events are attached.
        child::wait_until("the agent is ready", || {
            agent.assert_runs();
            let stream = TcpStream::connect(address);
            stream.is_ok_and(|stream| exchange(stream, "/readyz").0 == "200")
        });
        Self {
            agent,
            folder,
            address,
        }
    }

    /// The body of its response to a GET request at its Unix socket, which must succeed.
    pub(super) fn get(&self, path: &str) -> Vec<u8> {
        get_at_socket(&self.folder.path().join(SOCKET), path)
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

    /// Its configuration file.
    pub(super) fn configuration(&self) -> PathBuf {
        self.folder.path().join("agent.yaml")
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.agent.pid()
    }

    /// The address of its HTTP server.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it with SIGTERM, and returns its profiles by service.
    fn end(self) -> BTreeMap<String, Profile> {
        let folder = self.stop();
        profiles(&folder.path().join(PROFILES))
    }

    /// Stops it with SIGTERM, and returns its folder, which has the profiles in [`PROFILES`].
    pub(super) fn stop(self) -> TempDir {
        let (folder, messages) = self.stop_with_warnings();
        assert!(!messages.contains("WARN"), "{messages}");
        folder
    }

    /// The same, but allows warnings; also returns the messages of the agent.
    pub(super) fn stop_with_warnings(self) -> (TempDir, String) {
        self.agent.signal(Signal::TERM);
        self.finish()
    }

    /// Waits until it has ended; returns its folder, and its messages.
    pub(super) fn finish(self) -> (TempDir, String) {
        let capture = self.agent.finish();
        assert!(capture.status.success(), "{}", capture.messages);
        (self.folder, capture.messages)
    }

    /// The running agent.
    pub(super) fn agent(&mut self) -> &mut Running {
        &mut self.agent
    }

    /// Kills it, and returns its folder.
    pub(super) fn kill(self) -> TempDir {
        self.agent.signal(Signal::KILL);
        self.agent.finish();
        self.folder
    }
}

/// The body of the response to a GET request, which must succeed.
pub(super) fn get(address: SocketAddr, path: &str) -> Vec<u8> {
    let (status, body) = request_status_and_body(address, path);
    let text = String::from_utf8_lossy(&body);
    assert_eq!(status, "200", "{path}: {text}");
    body
}

/// The same at a Unix socket.
fn get_at_socket(socket: &Path, path: &str) -> Vec<u8> {
    let (status, body) = exchange(UnixStream::connect(socket).unwrap(), path);
    let text = String::from_utf8_lossy(&body);
    assert_eq!(status, "200", "{path}: {text}");
    body
}

/// The status and the body of the response to a GET request.
pub(super) fn request_status_and_body(address: SocketAddr, path: &str) -> (String, Vec<u8>) {
    exchange(TcpStream::connect(address).unwrap(), path)
}

fn exchange(mut stream: impl Read + Write, path: &str) -> (String, Vec<u8>) {
    // In HTTP/1.0 the end of the connection is the end of the body.
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let body = response.split_off(end.unwrap() + 4);
    let head = String::from_utf8(response).unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (status.to_owned(), body)
}

/// A configuration with one exporter, of type `file`.
fn in_folder(folder: &Path, others: &str) -> String {
    with_exporters(folder, &[], others)
}

/// A configuration with an exporter of type `file` and others.
fn with_exporters(folder: &Path, exporters: &[String], others: &str) -> String {
    let local = format!("local: {{type: file, folder: {}}}", folder.display());
    let exporters = [&[local], exporters].concat().join(", ");
    format!("exporters: {{{exporters}}}\nwindow: 2s\n{others}\n")
}

/// An unused local address.
pub(super) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// The profiles in the folder of an agent, by service.
pub(super) fn profiles_in(folder: &TempDir) -> BTreeMap<String, Profile> {
    profiles(&folder.path().join(PROFILES))
}

/// The profiles of a folder, by service; all windows of a service are merged.
pub(super) fn profiles(folder: &Path) -> BTreeMap<String, Profile> {
    let mut profiles = BTreeMap::<String, Profile>::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let service = name.strip_suffix(".pb.gz").unwrap();
        let (_, service) = service.split_once("Z_").unwrap();
        // A number distinguishes profiles of one service with different labels.
        let number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let service = match service.rsplit_once('_') {
            Some((service, end)) if number(end) => service,
            _ => service,
        };
        let profile = pprof::read(&fs::read(entry.path()).unwrap());
        match profiles.get_mut(service) {
            Some(merged) => merged.add(profile),
            None => {
                profiles.insert(service.to_owned(), profile);
            }
        }
    }
    profiles
}

/// Number of samples whose stacks have these functions, each called by the one before it.
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

/// CPU time that a process has used, in hundredths of a second.
pub(super) fn cpu_ticks(target: &Target) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", target.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let mut fields = fields.split(' ').skip(12);
    let mut field = || fields.next().unwrap().parse::<u64>().unwrap();
    field() + field()
}

/// Waits until a process has used this much more CPU time, whatever the load of the machine.
pub(super) fn wait_for_cpu(target: &Target, time: Duration) {
    let enough = cpu_ticks(target) + u64::try_from(time.as_millis()).unwrap() / 10;
    child::wait_until("the process has used that time", || {
        cpu_ticks(target) >= enough
    });
}

/// The CPU time that the only thread of a process has used.
pub(super) fn cpu_time(target: &Target) -> Duration {
    let path = format!("/proc/{}/schedstat", target.pid());
    let schedstat = fs::read_to_string(path).unwrap();
    let nanoseconds = schedstat.split(' ').next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

/// Stops a process with a single thread: the CPU time that it has used, which is all that it will use.
fn used_until_stopped(target: &Target) -> Duration {
    let pid = Pid::from_raw(target.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    thread::sleep(Duration::from_millis(50));
    cpu_time(target)
}

/// Asserts that there are as many samples as the CPU time between `least` and `most` makes; else shows `about`.
fn assert_sampled(samples: u64, least: Duration, most: Duration, about: &impl Debug) {
    /// Each switch to another process and back is an error of up to a sample.
    const SWITCHES: f64 = 4.0;
    let due = |time: Duration| time.as_secs_f64() * f64::from(u32::try_from(RATE).unwrap());
    let (least, most) = (due(least) * 0.96 - SWITCHES, due(most) * 1.04 + SWITCHES);
    let found = f64::from(u32::try_from(samples).unwrap());
    assert!(
        (least..most).contains(&found),
        "{least} {found} {most}: {about:?}"
    );
}

/// Asserts that a profile is of the workload `busy`, which used at least a second of CPU time.
pub(super) fn assert_busy(profile: &Profile) {
    let main = count(profile, &["<module>", "main"]);
    assert!(main >= RATE / 2, "{main}");
    let others = || {
        let samples = profile.samples.iter();
        let others = samples.filter(|sample| !names(&sample.thread.stack).contains(&"main"));
        let stacks = others.map(|sample| (sample.count, text(&sample.thread.stack)));
        stacks.collect::<Vec<_>>()
    };
    assert!(main * 10 > profile.total() * 9, "{main}: {:?}", others());
}

/// Starts a workload with this name in `OTEL_SERVICE_NAME`.
pub(super) fn service(workload: &str, name: &str) -> Target {
    let environment = [("OTEL_SERVICE_NAME", name)];
    Target::start_in(machine::one_interpreter(), workload, &[], &environment)
}

#[test]
fn every_process_of_a_host_is_profiled_and_every_sample_is_accounted_for() {
    let _machine = machine::alone();
    let before = service("busy", "before");
    let stolen_before = stolen_time();
    let used_before = cpu_time(&before);
    let host = Host::start("");
    let used_since = cpu_time(&before);
    wait_for_cpu(&before, SECOND);
    let after = service("busy", "after");
    wait_for_cpu(&after, SECOND);
    // Two at a time: how often one is met that shares its CPU with another is a matter of chance.
    let before = used_until_stopped(&before);
    let mut shell = mortal("sh");
    shell.env("OTEL_SERVICE_NAME", "shell");
    shell.args(["-c", "echo ready; while :; do :; done"]);
    let shell = Target::from_command(shell);
    wait_for_cpu(&shell, SECOND);
    let (after, shell) = (used_until_stopped(&after), used_until_stopped(&shell));
    let stolen = stolen_time().saturating_sub(stolen_before);
    // The last window must be exported before the metrics are read.
    thread::sleep(Duration::from_secs(3));
    let metrics = host.metrics();
    let profiles = host.end();

    for name in ["before", "after"] {
        assert_busy(&profiles[name]);
    }
    let (least, most) = (
        before.saturating_sub(used_since),
        before.saturating_sub(used_before),
    );
    let samples: BTreeMap<_, _> = profiles
        .iter()
        .map(|(service, profile)| (&**service, profile.total()))
        .collect();
    for (service, least, most) in [
        ("before", least, most),
        ("after", after, after),
        ("shell", shell, shell),
    ] {
        let about = (service, &samples);
        assert_sampled(samples[service], least, most + stolen, &about);
    }
    for lost in [
        "profiling_agent_samples_lost_total",
        "profiling_agent_window_lost_samples_total",
        "profiling_agent_unknown_process_samples_total",
        "profiling_agent_process_events_lost_total",
        "profiling_agent_untracked_processes_total",
    ] {
        assert!(metrics[lost].abs() < f64::EPSILON, "{lost}: {metrics:?}");
    }
    let total: u64 = samples.values().sum();
    let exported = metrics["profiling_agent_profile_samples_total"];
    // Samples taken after the metrics were read are only in the profiles.
    let total = f64::from(u32::try_from(total).unwrap());
    assert!(total >= exported && exported > 0.0, "{total} {exported}");
    let delivered = metrics[r#"profiling_agent_export_delivered_total{exporter="local"}"#];
    assert!((delivered - metrics["profiling_agent_profiles_total"]).abs() < f64::EPSILON);
}

#[test]
fn kernel_threads_have_their_own_service() {
    let _machine = machine::alone();
    let host = Host::start("thread_labels: true");
    let terminal = service("terminal", "terminal");
    let is_function =
        |name| move |location: &Location| location.lines[0].function.starts_with(name);
    child::wait_until("a kernel thread is seen to bring what was written", || {
        let folder = host.folder.path().join(PROFILES);
        // It is made with the first profile.
        if !folder.exists() {
            return false;
        }
        let files = whole::files(&folder, "_kernel_");
        let mut stacks = files
            .values()
            .flat_map(|path| whole::of_pprof(&fs::read(path).unwrap()).stacks);
        stacks.any(|(stack, _)| stack.iter().any(is_function("flush_to_ldisc")))
    });
    drop(terminal);
    let folder = host.stop();
    for path in whole::files(&folder.path().join(PROFILES), "_kernel_").values() {
        let file = fs::read(path).unwrap();
        for stack in whole::of_pprof(&file).stacks.keys() {
            assert!(stack.iter().all(|location| location.kind == Kind::Kernel));
            // The entry of kernel threads. The kernel cannot unwind its own thunks, which
            // change the stack without a frame.
            assert!(
                is_function("ret_from_fork")(stack.last().unwrap())
                    || stack.len() == 1 && is_function("__x86_")(&stack[0]),
                "{stack:?}"
            );
        }
        for sample in pprof::read(&file).samples {
            assert!(!sample.thread.name.is_empty(), "{sample:?}");
        }
    }
}

#[test]
fn every_metric_of_the_dashboard_exists() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    let host = Host::start("");
    wait_for_cpu(&busy, SECOND);
    // The duration of a window and its export.
    thread::sleep(Duration::from_secs(3));
    let metrics = host.metrics();
    host.end();
    let names = metrics.keys().map(|name| name.split('{').next().unwrap());
    let mut existing: BTreeSet<_> = names.collect();
    existing.extend(dashboard::SOMETIMES);
    let queried = dashboard::metrics();
    assert!(queried.len() >= 20, "{queried:?}");
    for name in &queried {
        assert!(existing.contains(name.as_str()), "{name}: {existing:?}");
    }
}

#[test]
fn excluded_processes_are_not_profiled() {
    let _machine = machine::alone();
    let [included, excluded] = ["seen", "unseen"].map(|name| service("busy", name));
    let pid = excluded.pid();
    let host = Host::start(&format!("exclude: [{{pid: {pid}}}]"));
    wait_for_cpu(&included, SECOND);
    wait_for_cpu(&excluded, SECOND);
    let profiles = host.end();
    assert_busy(&profiles["seen"]);
    assert!(!profiles.contains_key("unseen"));
}

#[test]
fn a_profile_of_one_process_can_be_requested() {
    let _machine = machine::alone();
    let [requested, other] = ["asked-for", "other"].map(|name| service("busy", name));
    let host = Host::start("");
    assert_eq!(host.get("/healthz"), b"ok\n");
    for filter in [
        format!("pid={}", requested.pid()),
        "service_name=asked-for".to_owned(),
    ] {
        let path = format!("/debug/pprof/profile?seconds=5&{filter}");
        let profile = pprof::read(&host.get(&path));
        assert_busy(&profile);
        let ids: Vec<_> = profile.threads().iter().map(|thread| thread.id).collect();
        assert_eq!(ids, [requested.pid()], "{filter}");
    }
    drop(other);
}

#[test]
fn other_users_of_the_host_get_no_profiles() {
    let _machine = machine::alone();
    let host = Host::start("");
    let path = "/debug/pprof/profile?seconds=1";
    assert_eq!(request_status_and_body(host.address(), path).0, "403");
    let url = format!("http://localhost{path}");
    let socket = host.folder.path().join(SOCKET);
    // So that only the mode of the socket is in the way.
    fs::set_permissions(host.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let curl = |user: &str| {
        Command::new("setpriv")
            .args(["--reuid", user, "--regid", user, "--clear-groups", "--"])
            .args([
                "curl",
                "--silent",
                "--fail",
                "--output",
                "-",
                "--unix-socket",
            ])
            .args([socket.to_str().unwrap(), &url])
            .output()
            .unwrap()
    };
    let refused = curl("65534");
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(7), 0));
    let granted = curl("0");
    assert!(granted.status.success());
    pprof::read(&granted.stdout);
    host.stop();
}

#[test]
fn a_reloaded_configuration_takes_effect_without_a_gap() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    let stolen_before = stolen_time();
    let used_before = cpu_time(&busy);
    let host = Host::start("");
    let used_since = cpu_time(&busy);
    wait_for_cpu(&busy, SECOND);
    let second = TempDir::new().unwrap();
    let file = host.folder.path().join("agent.yaml");
    fs::write(&file, "rate: of course\n").unwrap();
    host.agent.signal(Signal::HUP);
    wait_for_cpu(&busy, SECOND);
    // Of this service alone: others may run on the machine.
    let rule = "relabel_configs: [{source_labels: [service_name], regex: busy, action: keep}, \
                {target_label: service_name, replacement: renamed}]";
    fs::write(&file, in_folder(second.path(), rule)).unwrap();
    host.agent.signal(Signal::HUP);
    wait_for_cpu(&busy, SECOND * 2);
    let least = cpu_time(&busy).saturating_sub(used_since);
    host.agent.signal(Signal::TERM);
    let capture = host.agent.finish();
    let most = cpu_time(&busy).saturating_sub(used_before);
    let stolen = stolen_time().saturating_sub(stolen_before);
    assert!(capture.status.success(), "{}", capture.messages);
    let refused = "the configuration is unchanged";
    assert!(capture.messages.contains(refused), "{}", capture.messages);
    let first = profiles(&host.folder.path().join(PROFILES));
    let second = profiles(second.path());
    assert_busy(&first["busy"]);
    assert_eq!(second.keys().collect::<Vec<_>>(), ["renamed"]);
    assert!(count(&second["renamed"], &["<module>", "main"]) >= RATE / 2);
    let samples = first["busy"].total() + second["renamed"].total();
    assert_sampled(samples, least, most + stolen, &"busy");
}

#[test]
fn a_profile_across_a_change_of_the_rate_has_the_cpu_time_that_was_used() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join(SOCKET);
    let file = folder.path().join("agent.yaml");
    let configure = |rate: u32| {
        let others = format!("rate: {rate}\nlisten: 'off'\nsocket: {}", socket.display());
        fs::write(&file, in_folder(&folder.path().join(PROFILES), &others)).unwrap();
    };
    configure(997);
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    command.args(["run", "--config", file.to_str().unwrap()]);
    let mut agent = Running::from_command(command);
    agent.wait_until_sampling();
    let used = || i64::try_from(cpu_time(&busy).as_nanos()).unwrap();
    let before = used();
    let path = format!("/debug/pprof/profile?seconds=6&pid={}", busy.pid());
    let profile = thread::scope(|scope| {
        let request = scope.spawn(|| get_at_socket(&socket, &path));
        wait_for_cpu(&busy, SECOND);
        configure(19);
        agent.signal(Signal::HUP);
        pprof::decode(&request.join().unwrap())
    });
    let used = used() - before;
    let samples = profile.sample.iter();
    let (count, cpu_ns) = samples.fold((0, 0), |(count, cpu_ns), sample| {
        (count + sample.value[0], cpu_ns + sample.value[1])
    });
    assert_eq!(profile.period, 1_000_000_000 / 19);
    // Most of the samples stand for a 997th of a second.
    assert!(count * profile.period > 2 * used, "{count}");
    // The process runs a little longer than it is sampled.
    let share = cpu_ns * 100 / used;
    assert!((80..=102).contains(&share), "{cpu_ns} of {used}");
    agent.signal(Signal::TERM);
    assert!(agent.finish().status.success());
}

#[test]
fn without_arguments_the_host_is_sampled_into_a_folder() {
    let _machine = machine::alone();
    let state = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    command
        .env("STATE_DIRECTORY", state.path())
        .env("AGENT_LISTEN", "off")
        .env("AGENT_SOCKET", "off")
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
fn a_killed_agent_leaves_no_bpf_programs_in_the_kernel() {
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
fn check_config_validates_a_configuration_without_sampling() {
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
    let (is_valid, messages) = check("widow: 10s\n");
    assert!(!is_valid);
    assert!(messages.contains("(did you mean `window`?)"), "{messages}");
}
