//! The container image, run with exactly the options that `deploy/Containerfile` documents, beside
//! a container that it profiles.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{self, Command},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use test_support::containerfile::{documented_capabilities, documented_options};
use xtask::{interpreters, packages, packaging::image};

/// Time limit of a condition, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The program of the other container.
const WORKLOAD: &str = "\
def outermost():
    while True:
        innermost()

def innermost():
    sum(range(1000))

outermost()
";

/// The bits of the capabilities in `/proc/PID/status`.
const CAPABILITIES: [(&str, u32); 6] = [
    ("DAC_READ_SEARCH", 2),
    ("SYS_PTRACE", 19),
    ("SYSLOG", 34),
    ("PERFMON", 38),
    ("BPF", 39),
    ("CHECKPOINT_RESTORE", 40),
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Standard output of a command, which must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {messages}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The first result of `poll` that is not [`None`]; fails after [`TIMEOUT`].
fn eventually<T>(what: &str, mut poll: impl FnMut() -> Option<T>, why: impl Fn() -> String) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(start.elapsed() < TIMEOUT, "{what}: {}", why());
        thread::sleep(Duration::from_millis(100));
    }
}

/// Temporary storage of images and their containers.
struct Storage(TempDir);

impl Storage {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // Podman leaves this directory mounted on itself.
        let mut unmount = Command::new("umount");
        let _ = unmount.arg(self.0.path().join("images/overlay")).output();
    }
}

/// Podman, with its default storage or another one.
fn podman(storage: Option<&Storage>) -> Command {
    let mut podman = Command::new("podman");
    podman.args(["--runtime=runc", "--cgroup-manager=cgroupfs"]);
    if let Some(storage) = storage {
        image::in_storage(&mut podman, storage.0.path());
    }
    podman
}

/// A container, removed on drop.
struct Container<'storage> {
    storage: Option<&'storage Storage>,
    name: String,
}

impl<'storage> Container<'storage> {
    fn run(
        storage: Option<&'storage Storage>,
        name: &str,
        options: &[String],
        what: &[&str],
    ) -> Self {
        let name = format!("agent-{name}-{}", process::id());
        let mut run = podman(storage);
        run.args(["run", "--detach", "--name", &name])
            // The limits of the machine may be lower than the default of Podman.
            .args([
                "--ulimit",
                "nofile=1024:1024",
                "--ulimit",
                "nproc=4096:4096",
            ])
            .args(options)
            .args(what)
            .current_dir(workspace());
        let container = Self { storage, name };
        output(&mut run);
        container
    }

    fn podman(&self, arguments: &[&str]) -> Command {
        let mut podman = podman(self.storage);
        podman.args(arguments).arg(&self.name);
        podman
    }

    fn inspect(&self, what: &str) -> String {
        output(&mut self.podman(&["inspect", "--format", what]))
    }

    fn pid(&self) -> u32 {
        self.inspect("{{.State.Pid}}").parse().unwrap()
    }

    fn logs(&self) -> String {
        let logs = self.podman(&["logs"]).output().unwrap();
        String::from_utf8_lossy(&[logs.stdout, logs.stderr].concat()).into_owned()
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        let _ = self.podman(&["rm", "--force", "--time=0"]).output();
    }
}

/// A field of `/proc/PID/status`.
fn status(pid: u32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    value.unwrap().trim_start_matches(':').trim().to_owned()
}

/// The capabilities of a process; fails if one is not in [`CAPABILITIES`].
fn capabilities(pid: u32, set: &str) -> BTreeSet<String> {
    let mut mask = u64::from_str_radix(&status(pid, set), 16).unwrap();
    let mut names = BTreeSet::new();
    for (name, bit) in CAPABILITIES {
        if mask & (1 << bit) != 0 {
            names.insert(name.to_owned());
            mask &= !(1 << bit);
        }
    }
    assert_eq!(mask, 0, "{set}");
    names
}

/// Whether a GET request succeeds.
fn answers(address: SocketAddr, path: &str) -> bool {
    let request = || {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    request().is_ok_and(|answer| {
        answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200")
    })
}

/// The stored stacks of a container.
fn stored_stacks(folder: &Path, container: &str) -> String {
    let mut agent = Command::new(env!("CARGO_BIN_EXE_agent"));
    let report = agent
        .args(["report", "--format=folded", "--output=-", "--folder"])
        .arg(folder)
        .arg(format!("--label=container_name={container}"));
    // The folder may still be empty.
    String::from_utf8(report.output().unwrap().stdout).unwrap()
}

#[test]
fn the_image_profiles_python_in_another_container() {
    packages::install(&["podman", "runc"]).unwrap();
    let storage = Storage::new();
    let name = image::make(
        Path::new(env!("CARGO_BIN_EXE_agent")),
        Some(storage.0.path()),
    )
    .unwrap();

    let program = tempfile::tempdir().unwrap();
    fs::write(program.path().join("workload.py"), WORKLOAD).unwrap();
    let python = interpreters::named("3.13-trixie").unwrap();
    // An overlay: writes to the root are discarded.
    let root = format!("{}:O", python.root().unwrap().display());
    let volume = format!("--volume={}:/srv:ro", program.path().display());
    // In the default storage, from which the agent reads the names of containers.
    let other = Container::run(
        None,
        "profiled",
        &["--network=none".to_owned(), volume, "--rootfs".to_owned()],
        &[&root, "/usr/bin/python3.13", "/srv/workload.py"],
    );

    let state = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut options = documented_options();
    for option in &mut options {
        if option.starts_with("--volume=") {
            *option = format!("--volume={}:/var/lib/agent", state.path().display());
        }
    }
    options.push("--network=host".to_owned());
    options.push(format!("--env=AGENT_LISTEN={address}"));
    options.extend(["--env=AGENT_WINDOW=2s", "--env=AGENT_RATE=97"].map(str::to_owned));
    // On some machines `/proc/1/root` is not accessible; the root of this process is the same.
    if fs::read_dir("/proc/1/root").is_err() {
        options.push(format!(
            "--env=AGENT_HOST_ROOT=/proc/{}/root",
            process::id()
        ));
    }
    let agent = Container::run(Some(&storage), "image", &options, &[name]);

    eventually(
        "it is ready",
        || answers(address, "/readyz").then_some(()),
        || agent.logs(),
    );
    assert!(answers(address, "/healthz") && answers(address, "/metrics"));
    let profile = "/debug/pprof/profile?seconds=1";
    assert!(!answers(address, profile), "profiles need the socket");
    let pid = agent.pid();
    let expected = documented_capabilities();
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        assert_eq!(capabilities(pid, set), expected, "{set}");
    }
    assert_eq!(status(pid, "Seccomp"), "2");
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    assert_eq!(agent.inspect("{{.HostConfig.Privileged}}"), "false");
    assert_eq!(agent.inspect("{{.HostConfig.ReadonlyRootfs}}"), "true");

    let profiles = state.path().join("profiles");
    let shown = eventually(
        "the other container is profiled",
        || {
            Some(stored_stacks(&profiles, &other.name))
                .filter(|stacks| stacks.contains("innermost"))
        },
        || {
            format!(
                "{}\n{}",
                agent.logs(),
                stored_stacks(&profiles, &other.name)
            )
        },
    );
    assert!(
        shown
            .lines()
            .any(|stack| stack.contains("outermost") && stack.contains("innermost")),
        "{shown}"
    );
    output(&mut agent.podman(&["stop", "--time=60"]));
    assert_eq!(
        agent.inspect("{{.State.ExitCode}}"),
        "0",
        "{}",
        agent.logs()
    );
    assert!(!agent.logs().contains("WARN"), "{}", agent.logs());
}
