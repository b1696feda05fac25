//! Files on a FUSE file system, whose server answers or does not.
//!
//! Whoever waits for such a server cannot be killed: an agent that waits in one of its own threads
//! never ends.

use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tempfile::TempDir;
use test_support::fuse::FuseMount;
use xtask::interpreters::Linkage;

use super::{
    capture::{Capture, Running},
    folded::{Folded, names},
    host::{Host, SECOND, assert_busy, profiles_in, service, wait_for_cpu},
    machine,
    native::compile,
    target::{Target, mortal, workload_path},
};

/// Time in which a capture ends after a signal.
const SIGNAL_LIMIT: Duration = Duration::from_secs(2);

/// Time in which the agent of a host ends after a signal.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// Time in which doctor ends: it waits for a file system once, and samples for a second.
const DOCTOR_LIMIT: Duration = Duration::from_secs(20);

/// Room for a machine that is busy.
const ROOM: Duration = Duration::from_secs(5);

/// A duration that no test reaches.
const LONG: &str = "1h";

/// A process whose executable is on a FUSE file system.
///
/// The file system ends before the process, which may wait for it.
struct OnFuse {
    mount: FuseMount,
    target: Target,
    _folder: TempDir,
}

impl OnFuse {
    fn start(program: &Path, command: impl FnOnce(&Path) -> Command) -> Self {
        let folder = TempDir::new().unwrap();
        let mount = FuseMount::new(folder.path(), &[("program", program)]);
        let target = Target::from_command(command(&mount.path("program")));
        Self {
            mount,
            target,
            _folder: folder,
        }
    }

    /// The workload `busy`, by an interpreter that is one file.
    fn python() -> Self {
        let interpreter = machine::interpreters()
            .iter()
            .rfind(|it| it.linkage == Linkage::Static && it.root().is_none() && !it.debug)
            .unwrap();
        let program = fs::canonicalize(&interpreter.path).unwrap();
        // Its library is where it was installed.
        let prefix = program.parent().unwrap().parent().unwrap().to_owned();
        Self::start(&program, |program| {
            let mut command = mortal(program);
            command
                .env("PYTHONHOME", prefix)
                .args(["-s", "-B"])
                .arg(workload_path("busy"));
            command
        })
    }

    /// The program `chain`.
    fn chain() -> Self {
        let folder = TempDir::new().unwrap();
        let program = compile(&folder, "chain", "-O2 -fomit-frame-pointer");
        Self::start(&program, |program| mortal(program))
    }

    fn pid(&self) -> u32 {
        self.target.pid()
    }
}

/// Waits until it has ended, for a limited time; returns whether it has.
fn ends_within(agent: &mut Running, limit: Duration) -> bool {
    let start = Instant::now();
    while !agent.has_ended() {
        if start.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    println!("it ended after {} ms", start.elapsed().as_millis());
    true
}

fn has(folded: &Folded, functions: &[&str]) -> bool {
    folded.count(|stack| {
        let names = names(stack);
        names.windows(functions.len()).any(|some| some == functions)
    }) * 10
        > folded.total() * 8
}

#[test]
fn files_on_fuse_are_files_like_others() {
    let _machine = machine::alone();
    let python = OnFuse::python();
    let folded = Capture::whole(python.pid(), "-d 2");
    assert!(
        has(&folded, &["<module>", "main"]),
        "{}",
        folded.show(|_| true)
    );
    // A native function of the interpreter.
    assert!(has(&folded, &["Py_BytesMain"]), "{}", folded.show(|_| true));
    let chain = OnFuse::chain();
    let folded = Capture::whole(chain.pid(), "-d 2");
    let functions = ["main", "outer", "variable", "large", "leaf"];
    assert!(has(&folded, &functions), "{}", folded.show(|_| true));
}

#[test]
fn a_signal_ends_a_capture_whose_files_are_never_read() {
    let _machine = machine::alone();
    for is_silent_before in [true, false] {
        for mut on_fuse in [OnFuse::python(), OnFuse::chain()] {
            if is_silent_before {
                on_fuse.mount.stop_answering();
            }
            let pid = on_fuse.pid().to_string();
            let mut agent = Running::start(&["-p", &pid, "-d", LONG, "-f", "folded", "-o", "-"]);
            agent.wait_until_sampling();
            // It waits for the file system once before it samples.
            thread::sleep(Duration::from_secs(4));
            on_fuse.mount.stop_answering();
            thread::sleep(Duration::from_secs(1));
            agent.signal(Signal::TERM);
            let has_ended = ends_within(&mut agent, SIGNAL_LIMIT + ROOM);
            let unanswered = on_fuse.mount.unanswered();
            on_fuse.mount.abort();
            assert!(has_ended, "the agent waits for the file system");
            assert!(unanswered > 0, "nothing was read");
            let capture = agent.finish();
            capture.assert_success();
            let folded = Folded::parse_whole(&String::from_utf8(capture.output).unwrap());
            assert!(folded.total() > 0, "{}", capture.messages);
        }
    }
}

#[test]
fn doctor_names_file_systems_that_do_not_answer() {
    let _machine = machine::alone();
    let mut python = OnFuse::python();
    python.mount.stop_answering();
    let pid = python.pid().to_string();
    let mut doctor = Running::start(&["doctor", "--pid", &pid]);
    let has_ended = ends_within(&mut doctor, DOCTOR_LIMIT);
    let folder = python.mount.path("");
    python.mount.abort();
    assert!(has_ended, "doctor waits for the file system");
    let report = String::from_utf8(doctor.finish().output).unwrap();
    // Paths are wrapped at spaces only.
    let name = format!("the file system at {}", folder.display());
    let report: String = report.split_whitespace().collect::<Vec<_>>().join(" ");
    let name = name.trim_end_matches('/');
    let expected = format!("Left out here {name}: it does not answer");
    assert!(report.contains(&expected), "{report}");
}

#[test]
fn the_agent_of_a_host_ends_in_time_and_loses_nothing_of_other_processes() {
    let _machine = machine::alone();
    let mut on_fuse = OnFuse::chain();
    on_fuse.mount.stop_answering();
    let busy = service("busy", "busy");
    let mut host = Host::start(&format!("shutdown_timeout: {}s", SHUTDOWN.as_secs()));
    let second = service("busy", "second");
    wait_for_cpu(&busy, SECOND * 2);
    wait_for_cpu(&second, SECOND * 2);
    let metrics = host.metrics();
    let list = String::from_utf8(host.get("/quarantine")).unwrap();
    let configuration = host.configuration().to_str().unwrap().to_owned();
    let pid = std::process::id().to_string();
    let doctor = Capture::run(&["doctor", "--pid", &pid, "--config", &configuration]);
    host.agent().signal(Signal::TERM);
    let has_ended = ends_within(host.agent(), SHUTDOWN + ROOM);
    let unanswered = on_fuse.mount.unanswered();
    on_fuse.mount.abort();
    assert!(has_ended, "the agent waits for the file system");
    assert!(unanswered > 0, "nothing was read");
    assert!(metrics["profiling_agent_samples_lost_total"].abs() < f64::EPSILON);
    assert!(metrics["profiling_agent_quarantined"] >= 1.0);
    assert!(list.contains("it does not answer"), "{list}");
    let report = String::from_utf8(doctor.output).unwrap();
    let is_listed = report.contains("agent run     the file system at ");
    assert!(is_listed, "{report}");
    let (folder, messages) = host.finish();
    let logged = messages.matches("the file system at").count();
    assert_eq!(logged, 1, "{messages}");
    let profiles = profiles_in(&folder);
    for name in ["busy", "second"] {
        assert_busy(&profiles[name]);
    }
    // It has samples, without names.
    assert!(profiles["program"].total() > 0);
}
