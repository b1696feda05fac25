//! Hostile processes: beside each of them the profile of another process is as complete as beside a
//! process that only works, no record waits longer, and the agent stays within its limits.
//!
//! A program beside which an agent is not what it should be is named with all that it did; the others
//! are tried all the same.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rustix::process::{Pid, Signal, getpriority_process, kill_process, setpriority_process};
use tempfile::TempDir;

use super::{
    capture::{Capture, Running},
    folded::Frame,
    host::{Host, PROFILES, RATE, SECOND, cpu_ticks, service, wait_for_cpu},
    machine,
    native::compile,
    pprof,
    target::{Target, mortal},
    whole::{self, Kind, Location},
};

/// A program that only works.
const CALM: (&str, &str) = ("restless", "work");

/// The hostile programs, each with its argument.
const HOSTILE: [(&str, &str); 14] = [
    ("fake_files", "huge-tables"),
    ("fake_files", "changing-headers"),
    ("fake_files", "mappings"),
    ("fake_python", "endless-code"),
    ("fake_python", "distant-frames"),
    ("fake_python", "endless-frames"),
    ("fake_python", "endless-states"),
    ("fake_python", "absent-pages"),
    ("restless", "threads"),
    ("restless", "stacks"),
    ("restless", "perf-map"),
    ("restless", "names"),
    ("restless", "forks"),
    ("restless", "environment"),
];

/// Time in which doctor ends: it gives up what takes longer than ten seconds, and samples for one.
const DOCTOR_LIMIT: Duration = Duration::from_secs(60);

/// The marker of samples whose thread is not searched because that takes too long.
const NOT_SEARCHED: &str = "[incomplete: searching the threads takes too long]";

/// The service of a program.
const NEIGHBOUR: &str = "neighbour";

/// CPU time that the other process uses beside a program: longer than a window, so that one begins
/// meanwhile.
const BESIDE: Duration = Duration::from_millis(2500);

/// The priority of the other process: nothing interrupts it for long.
const FIRST: i32 = -20;

/// The priority of all else that belongs to the test.
const SECOND_TO_IT: i32 = -10;

/// Ticks of CPU time per second.
const TICKS: u64 = 100;

/// Time that a record may wait longer than beside a calm program, in seconds: five times that between
/// two readings.
const MORE_DELAY: f64 = 1.0;

/// Memory that the agent uses at most by default, in bytes.
const MAX_MEMORY: f64 = 256.0 * 1024.0 * 1024.0;

/// Descriptors that the agent has more than beside a calm program, at most.
const MORE_DESCRIPTORS: f64 = 256.0;

/// Counters that stay 0.
const LOSSES: [&str; 9] = [
    "profiling_agent_samples_lost_total",
    "profiling_agent_python_stacks_lost_total",
    "profiling_agent_native_stacks_lost_total",
    "profiling_agent_code_objects_lost_total",
    "profiling_agent_process_events_lost_total",
    "profiling_agent_unknown_process_samples_total",
    "profiling_agent_window_lost_samples_total",
    r#"profiling_agent_dropped_records_total{kind="record"}"#,
    r#"profiling_agent_dropped_records_total{kind="event"}"#,
];

/// The programs, compiled.
type Programs = BTreeMap<&'static str, PathBuf>;

/// What is started as long as it exists takes precedence over what else runs on the machine.
struct Precedence(i32);

impl Precedence {
    fn take() -> Self {
        let before = getpriority_process(None).unwrap();
        // Of this thread, and of all that it starts.
        setpriority_process(None, SECOND_TO_IT).unwrap();
        Self(before)
    }
}

impl Drop for Precedence {
    fn drop(&mut self) {
        // A thread may always lower its priority.
        let _ = setpriority_process(None, self.0);
    }
}

/// What an agent of the host has done beside one program.
struct Outcome {
    metrics: BTreeMap<String, f64>,
    messages: String,
    /// CPU time of the other process, in ticks.
    ticks: u64,
    /// Its samples.
    samples: u64,
    /// Its samples in windows that began beside the program.
    beside: u64,
    /// Those of them whose stacks have no gap.
    complete: u64,
    /// The other stacks.
    incomplete: Vec<String>,
    /// Samples of the program.
    own: u64,
}

impl Outcome {
    /// Profiles a process beside a program.
    fn beside(programs: &Programs, (program, argument): (&str, &str)) -> Self {
        let host = Host::start("");
        let busy = service("busy", "busy");
        // Its samples are as many as its CPU time says only where it is not interrupted all the time.
        let pid = Pid::from_raw(busy.pid().cast_signed()).unwrap();
        setpriority_process(Some(pid), FIRST).unwrap();
        wait_for_cpu(&busy, SECOND / 2);
        let mut command = mortal(&programs[program]);
        command.env("OTEL_SERVICE_NAME", NEIGHBOUR).arg(argument);
        let neighbour = Target::from_command(command);
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        wait_for_cpu(&busy, BESIDE);
        // From now on its CPU time and its samples do not change.
        kill_process(pid, Signal::STOP).unwrap();
        let ticks = cpu_ticks(&busy);
        let metrics = host.metrics();
        let map = format!("/tmp/perf-{}.map", neighbour.pid());
        drop(neighbour);
        // Only one of the programs has one.
        drop(fs::remove_file(map));
        let (folder, messages) = host.stop_with_warnings();
        let profiles = folder.path().join(PROFILES);
        let samples = |service| {
            let files = whole::files(&profiles, service);
            let profiles = files
                .values()
                .map(|file| pprof::read(&fs::read(file).unwrap()));
            profiles.map(|profile| profile.total()).sum()
        };
        let (mut beside, mut complete, mut incomplete) = (0, 0, Vec::new());
        for (began_ns, file) in whole::files(&profiles, "busy") {
            if u128::from(began_ns) >= start.as_nanos() {
                for (stack, count) in whole::of_pprof(&fs::read(file).unwrap()).stacks {
                    beside += count;
                    if is_complete(&stack) {
                        complete += count;
                    } else {
                        incomplete.push(format!("{count} {}", names(&stack).join(";")));
                    }
                }
            }
        }
        Self {
            metrics,
            messages,
            ticks,
            samples: samples("busy"),
            beside,
            complete,
            incomplete,
            own: samples(NEIGHBOUR),
        }
    }

    fn metric(&self, name: &str) -> f64 {
        self.metrics[name]
    }

    /// What is wrong in comparison with the profile beside a calm program.
    fn faults(&self, calm: &Self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |holds: bool, fault: String| {
            if !holds {
                faults.push(fault);
            }
        };
        let due = self.ticks * RATE / TICKS;
        // Of a clock that hits at random, as where others interrupt: three standard deviations.
        check(
            self.samples + 3 * due.isqrt() >= due,
            format!("{} of {due} samples", self.samples),
        );
        check(
            self.share() * 100 + 3 * SHARE >= calm.share() * 100,
            format!(
                "{} of {} stacks are complete, {} of {} beside a calm program",
                self.complete, self.beside, calm.complete, calm.beside
            ),
        );
        for lost in LOSSES {
            let count = self.metric(lost);
            check(count.abs() < f64::EPSILON, format!("{lost} {count}"));
        }
        let delay = "profiling_agent_longest_drain_delay_seconds";
        let (here, there) = (self.metric(delay), calm.metric(delay));
        check(
            here < there + MORE_DELAY,
            format!("{here} s in the ring buffer, not {there}"),
        );
        let bytes = self.metric("process_resident_memory_bytes");
        check(bytes < MAX_MEMORY, format!("{bytes} bytes of memory"));
        let open = "process_open_fds";
        let (here, there) = (self.metric(open), calm.metric(open));
        check(
            here < there + MORE_DESCRIPTORS,
            format!("{here} descriptors, not {there}"),
        );
        check(self.beside > 0, "no window".to_owned());
        check(self.own > 0, "no sample of the program".to_owned());
        faults
    }

    /// Complete stacks, in parts of [`SHARE`].
    fn share(&self) -> u64 {
        self.complete * SHARE / self.beside.max(1)
    }
}

/// Parts of a whole in which shares are compared.
const SHARE: u64 = 1000;

/// The functions of a stack, leaf first.
fn names(stack: &[Location]) -> Vec<&str> {
    let lines = stack.iter().flat_map(|location| &location.lines);
    lines.map(|line| &*line.function).collect()
}

/// Whether a stack leads from the entry of the program to the function of the workload, without a
/// gap.
fn is_complete(stack: &[Location]) -> bool {
    let names = names(stack);
    stack.iter().all(|location| location.kind != Kind::Marker)
        && names.last() == Some(&"_start")
        && names.contains(&"main")
}

#[test]
fn no_process_spoils_the_profile_of_another() {
    let _machine = machine::alone();
    let _precedence = Precedence::take();
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("zoo")).unwrap();
    let programs: Programs = ["fake_files", "fake_python", "restless"]
        .into_iter()
        .map(|program| (program, compile(&folder, &format!("zoo/{program}"), "-O1")))
        .collect();
    let calm = Outcome::beside(&programs, CALM);
    let mut all = calm.faults(&calm);
    for hostile in HOSTILE {
        let outcome = Outcome::beside(&programs, hostile);
        let faults = outcome.faults(&calm);
        println!(
            "{hostile:?}: {} of {} samples, {} of {} complete, {} of its own, {:.0} ms, {:.0} MB: \
             {faults:?}",
            outcome.samples,
            outcome.ticks * RATE / TICKS,
            outcome.complete,
            outcome.beside,
            outcome.own,
            outcome.metric("profiling_agent_longest_drain_delay_seconds") * 1e3,
            outcome.metric("process_resident_memory_bytes") / 1e6,
        );
        if !faults.is_empty() {
            println!("{}\n{}", outcome.messages, outcome.incomplete.join("\n"));
        }
        all.extend(
            faults
                .into_iter()
                .map(|fault| format!("{hostile:?}: {fault}")),
        );
    }
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn searching_the_threads_of_a_process_has_a_budget() {
    let _machine = machine::alone();
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("zoo")).unwrap();
    let mut command = mortal(compile(&folder, "zoo/fake_python", "-O1"));
    command.arg("endless-states");
    let hostile = Target::from_command(command);
    let profile = Capture::whole(hostile.pid(), "-d 2 -r 997");
    let is_left_out = |stack: &[Frame]| stack.iter().any(|frame| frame.name == NOT_SEARCHED);
    let (left_out, all) = (profile.count(is_left_out), profile.total());
    println!("{left_out} of {all}");
    // Each search takes a part of a millisecond, and a second has ten of them.
    assert!(left_out * 2 > all, "{left_out} of {all}");
    assert!(left_out < all, "{left_out} of {all}");
}

/// Doctor reads more of a process than an agent that samples it.
#[test]
fn doctor_answers_about_each() {
    let _machine = machine::alone();
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("zoo")).unwrap();
    for (program, what) in [
        ("fake_files", "huge-tables"),
        ("fake_files", "mappings"),
        ("fake_python", "endless-code"),
        ("fake_python", "absent-pages"),
    ] {
        let mut command = mortal(compile(&folder, &format!("zoo/{program}"), "-O1"));
        command.arg(what);
        let hostile = Target::from_command(command);
        let pid = hostile.pid().to_string();
        let mut doctor = Running::start(&["doctor", "--pid", &pid]);
        let begun = Instant::now();
        while !doctor.has_ended() {
            let is_late = begun.elapsed() > DOCTOR_LIMIT;
            assert!(!is_late, "{what}: doctor does not end");
            thread::sleep(Duration::from_millis(10));
        }
        let report = String::from_utf8(doctor.finish().output).unwrap();
        println!("{what}, {:.1} s:\n{report}", begun.elapsed().as_secs_f64());
        assert!(report.contains("It can be profiled: "), "{what}: {report}");
    }
}
