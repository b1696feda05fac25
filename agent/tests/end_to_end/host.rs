//! A running agent of a host, and what the tests that have one share.

mod tests;

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::process::Signal;
use tempfile::TempDir;
use test_support::child;

use super::{
    capture::Running,
    folded::{names, text},
    machine,
    pprof::{self, Profile},
    schedstat::schedstat,
    target::Target,
};

/// Samples per second of CPU time.
pub(super) const RATE: u64 = 97;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The duration of a window and its export.
pub(super) const WINDOW: Duration = Duration::from_secs(3);

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

/// The status and the body of the response to a GET request at a Unix socket.
fn request_at_socket(socket: &Path, path: &str) -> (String, Vec<u8>) {
    exchange(UnixStream::connect(socket).unwrap(), path)
}

/// The body of one that succeeds.
fn get_at_socket(socket: &Path, path: &str) -> Vec<u8> {
    let (status, body) = request_at_socket(socket, path);
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

/// The output of `agent report` with these options about the profiles in the folder of an agent.
pub(super) fn report(folder: &TempDir, options: &str) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    command.args(["report", "--output", "-", "--folder"]);
    command.arg(folder.path().join(PROFILES));
    let output = command.args(options.split_whitespace()).output().unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{messages}");
    output.stdout
}

/// The same as folded stacks.
pub(super) fn folded_report(folder: &TempDir, options: &str) -> String {
    let output = report(folder, &format!("--format folded {options}"));
    String::from_utf8(output).unwrap()
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
    let [nanoseconds, _, _] = schedstat(format!("/proc/{}", target.pid()));
    Duration::from_nanos(nanoseconds)
}

/// How often a process with a single thread began to run.
pub(super) fn times_run(target: &Target) -> u64 {
    let [_, _, times] = schedstat(format!("/proc/{}", target.pid()));
    times
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
