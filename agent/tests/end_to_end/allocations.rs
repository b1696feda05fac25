//! Allocations, compared with what a program has asked for by its own account, which is `tracemalloc`'s.

use std::{fs, process::Command, thread, time::Duration};

use agent::testing::{process::Process, python::Detector};
use rustix::process::Signal;
use tempfile::TempDir;
use test_support::child;
use xtask::{interpreters::Interpreter, packages, process::capture};

use super::{
    capture::{Capture, Running},
    folded::{Folded, Frame},
    host::{Host, WINDOW, folded_report},
    machine, pprof,
    program::Program,
    target::{Target, mortal},
};

/// Bytes for which there is a sample, on average.
const PERIOD: f64 = (512 << 10) as f64;

/// How many functions of the workload allocate.
const FUNCTIONS: usize = 10;

/// What a function of the workload has asked for.
struct Asked {
    function: String,
    /// In bytes, by each call.
    size: f64,
    calls: f64,
}

impl Asked {
    fn parse(line: &str) -> Self {
        let mut words = line.split(' ');
        let function = words.next().unwrap().to_owned();
        let mut number = || words.next().unwrap().parse().unwrap();
        Self {
            function,
            size: number(),
            calls: number(),
        }
    }

    fn bytes(&self) -> f64 {
        self.size * self.calls
    }

    /// The standard error of the number of bytes: each call is recorded with a probability.
    fn standard_error(&self) -> f64 {
        let probability = -(-self.size / PERIOD).exp_m1();
        (self.calls * self.size * self.size * (1.0 - probability) / probability).sqrt()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "what is allocated in a test is below 2^53"
)]
fn number(bytes: u64) -> f64 {
    bytes as f64
}

/// Bytes that were allocated below a function.
fn found(profile: &Folded, function: &str) -> f64 {
    number(profile.count(|stack| stack.iter().any(|frame| frame.name == function)))
}

/// Runs the workload; returns what it has asked for, and the profile.
fn run(interpreter: &Interpreter, arguments: &[&str]) -> (Vec<Asked>, Folded, Capture) {
    let (asked, profile, capture) = run_program(&Program::of(interpreter, "allocating", arguments));
    assert_eq!(asked.len(), FUNCTIONS);
    (asked, profile, capture)
}

/// The same, however it is started.
fn run_program(program: &Program) -> (Vec<Asked>, Folded, Capture) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("allocated.folded");
    let mut command = vec!["--children", "--event", "alloc", "--output"];
    command.extend([file.to_str().unwrap(), "--"]);
    command.extend(program.0.iter().map(String::as_str));
    let capture = Running::start(&command).finish();
    capture.assert_success();
    let output = String::from_utf8(capture.output.clone()).unwrap();
    let asked: Vec<_> = output.lines().map(Asked::parse).collect();
    let profile = Folded::parse_all(&fs::read_to_string(file).unwrap());
    (asked, profile, capture)
}

/// Compares the profile with what was asked for: within five standard errors, and the small objects that belong to a
/// large allocation and that CPython has room for itself.
fn assert_found(name: &str, asked: &[Asked], profile: &Folded) {
    for of in asked {
        let found = found(profile, &of.function);
        println!("{name}: {}: {found} of {} bytes", of.function, of.bytes());
        let error = (found - of.bytes()).abs();
        let most = 5.0 * of.standard_error() + 0.015 * of.bytes();
        assert!(error <= most, "{name}: {}: {error} > {most}", of.function);
    }
}

#[test]
fn each_function_has_what_it_asks_for() {
    let _machine = machine::alone();
    machine::for_each_kind_that(
        |interpreter| !interpreter.free_threaded,
        |interpreter| {
            let (asked, profile, capture) = run(interpreter, &["200"]);
            assert_found(&interpreter.name, &asked, &profile);
            let messages = &capture.messages;
            assert!(messages.contains(" of memory allocated"), "{messages}");
            let cost = "of CPU time were taken of the profiled programs by the probes.";
            assert!(messages.contains(cost), "{messages}");
            assert!(!messages.contains("lost"), "{messages}");
        },
    );
}

/// The same ten places as `tracemalloc`, each within 5 %.
#[test]
fn much_that_is_allocated_is_known_within_a_twentieth() {
    let _machine = machine::shared();
    let (asked, profile, _) = run(machine::one_interpreter(), &["6000"]);
    for of in &asked {
        let found = found(&profile, &of.function);
        let share = found / of.bytes();
        println!("{}: {share}", of.function);
        assert!((share - 1.0).abs() < 0.05, "{}: {share}", of.function);
    }
    let all: f64 = asked.iter().map(Asked::bytes).sum();
    let share = number(profile.total()) / all;
    assert!((share - 1.0).abs() < 0.02, "{share}");
}

#[test]
fn forked_processes_and_threads_are_counted() {
    let _machine = machine::alone();
    let (asked, profile, _) = run(machine::one_interpreter(), &["500", "fork", "threads"]);
    assert_found("with a child", &asked, &profile);
}

/// Where there would be too many samples, each stands for more.
#[test]
fn many_large_allocations_are_estimated() {
    let _machine = machine::alone();
    let (asked, profile, capture) = run(machine::one_interpreter(), &["100", "flood"]);
    assert_found("before the flood", &asked, &profile);
    let share = found(&profile, "flood") / number(200_000 << 30);
    println!("{share} of the flood\n{}", capture.messages);
    assert!((share - 1.0).abs() < 0.1, "{share}");
    assert!(!capture.messages.contains("lost"), "{}", capture.messages);
}

/// The probes are attached before the time of the profile begins, and detached after it has ended.
#[test]
fn what_a_program_asks_for_in_the_time_of_a_profile_is_in_it() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "allocating_steadily");
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("allocated.pb.gz");
    let pid = target.pid().to_string();
    let mut options = vec!["--pid", &pid, "--event", "alloc", "--duration", "1"];
    options.extend(["--output", file.to_str().unwrap()]);
    Running::start(&options).finish().assert_success();
    let profile = pprof::decode(&fs::read(file).unwrap());
    let seconds = Duration::from_nanos(profile.duration_nanos.try_into().unwrap()).as_secs_f64();
    let bytes = profile
        .sample
        .iter()
        .map(|sample| sample.value[1])
        .sum::<i64>();
    let asked = Asked {
        function: "<module>".into(),
        size: 300_000.0,
        calls: 1_000.0 * seconds,
    };
    let found = number(bytes.try_into().unwrap());
    println!("{found} of {} bytes in {seconds} s", asked.bytes());
    let error = (found - asked.bytes()).abs();
    assert!(error <= 5.0 * asked.standard_error(), "{error}");
}

/// Allocators that replace the C library's: the package, and what the name of the file begins with.
const ALLOCATORS: [(&str, &str); 3] = [
    ("libjemalloc2", "libjemalloc.so."),
    ("libtcmalloc-minimal4", "libtcmalloc_minimal.so."),
    ("libmimalloc2.0", "libmimalloc.so."),
];

/// Each is asked by all functions, also by `new` of C++, and what it maps for itself counts for nobody.
#[test]
fn an_allocator_that_replaces_the_c_librarys_is_asked_instead() {
    let _machine = machine::alone();
    packages::install(&ALLOCATORS.map(|(package, _)| package)).unwrap();
    thread::scope(|scope| {
        for (package, prefix) in ALLOCATORS {
            scope.spawn(move || assert_asked(package, prefix));
        }
    });
}

/// The allocator of this package is asked, whose file begins so.
fn assert_asked(package: &str, prefix: &str) {
    let files = capture(Command::new("dpkg").args(["-L", package])).unwrap();
    let is_library = |file: &&str| file.rsplit('/').next().unwrap().starts_with(prefix);
    let library = files.lines().find(is_library).unwrap();
    let interpreter = machine::one_interpreter();
    let mut program = Program::of(interpreter, "allocating", &["100", "new"]);
    let start = ["/usr/bin/env", &format!("LD_PRELOAD={library}")].map(str::to_owned);
    program.0.splice(..0, start);
    let (asked, profile, capture) = run_program(&program);
    assert_eq!(asked.len(), FUNCTIONS + 1);
    assert_found(package, &asked, &profile);
    assert!(!capture.messages.contains("lost"), "{}", capture.messages);
    let is_of_allocator = |stack: &[Frame]| {
        let callers = stack.iter().rev().skip(1);
        callers
            .take(1)
            .any(|caller| caller.place.starts_with(prefix))
    };
    assert_eq!(profile.show(is_of_allocator), "", "{package}");
}

#[test]
fn a_free_threaded_build_is_said_to_have_its_own_allocator() {
    let _machine = machine::shared();
    machine::for_each_that(
        |interpreter| interpreter.free_threaded,
        |interpreter| {
            let target = Target::start(interpreter, "waiting");
            let pid = target.pid().to_string();
            let folder = TempDir::new().unwrap();
            let file = folder.path().join("allocated.folded");
            let mut options = vec!["--pid", &pid, "--event", "alloc", "--duration", "1"];
            options.extend(["--output", file.to_str().unwrap()]);
            let capture = Running::start(&options).finish();
            let messages = &capture.messages;
            let sentence = "a free-threaded build has an allocator of its own";
            assert!(
                messages.contains(sentence),
                "{}: {messages}",
                interpreter.name
            );
            assert!(!messages.contains("512 bytes"), "{messages}");
        },
    );
}

/// Runs a shell command under the agent; returns its messages.
fn messages_of(event: &str, options: &[&str], line: &str) -> String {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("recorded.folded");
    let mut command = vec!["--event", event, "--output", file.to_str().unwrap()];
    command.extend(options);
    command.extend(["--", "sh", "-c", line]);
    let capture = Running::start(&command).finish();
    capture.assert_success();
    capture.messages
}

/// Probes are only in CPython: of other programs it is not known that there was nothing.
#[test]
fn a_program_without_cpython_is_said_to_have_no_probes() {
    let _machine = machine::shared();
    for (event, what) in [("alloc", "allocations"), ("exceptions", "exceptions")] {
        let messages = messages_of(event, &[], "exec sleep 1");
        let reason = format!("{what} cannot be recorded: process ");
        assert!(messages.contains(&reason), "{messages}");
        assert!(
            messages.contains("sleep, which is not Python"),
            "{messages}"
        );
        let head = format!("no samples, as it runs no CPython of which {what} could be recorded.");
        assert!(messages.contains(&head), "{messages}");
        assert!(!messages.contains("512 bytes"), "{messages}");
        assert!(!messages.contains("the process "), "{messages}");

        let mut sleeping = mortal("sleep").arg("600").spawn().unwrap();
        let pid = sleeping.id().to_string();
        child::wait_until("it sleeps", || {
            fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() == "sleep\n"
        });
        let options = ["--pid", &pid, "--event", event, "--duration", "10m"];
        let refused = Capture::run(&options);
        sleeping.kill().unwrap();
        sleeping.wait().unwrap();
        assert!(!refused.status.success(), "{}", refused.messages);
        let reason = format!("{what} cannot be recorded: process {pid} runs ");
        assert!(refused.messages.contains(&reason), "{}", refused.messages);
    }
}

/// It counts what a program is in the end, and whether any process has a probe.
#[test]
fn a_shell_that_becomes_python_is_not_said_to_have_none() {
    let _machine = machine::shared();
    let python = Program::of(machine::one_interpreter(), "allocating", &["200"]).line();
    let messages = messages_of("alloc", &[], &format!("sleep 0.2; exec {python}"));
    assert!(!messages.contains("cannot be recorded"), "{messages}");
    assert!(!messages.contains("no probe"), "{messages}");
    assert!(messages.contains(" of memory allocated"), "{messages}");
    assert!(messages.contains("512 bytes"), "{messages}");
    // The shell stays.
    let messages = messages_of("alloc", &["--children"], &format!("{python}; sleep 0.2"));
    assert!(
        messages.contains("allocations cannot be recorded: process "),
        "{messages}"
    );
    assert!(
        messages.contains(" no probe, and no samples: "),
        "{messages}"
    );
    assert!(messages.contains(" of memory allocated"), "{messages}");
}

/// The first bytes of the functions with probes.
fn code_bytes(pid: u32) -> Vec<u8> {
    let process = Process::open(pid).unwrap();
    let interpreter = Detector::default().detect(&process).unwrap();
    let memory = process.memory().unwrap();
    let sites = interpreter.allocators.iter();
    let bytes = sites.flat_map(|site| {
        let start = site.mapping.start - site.mapping.file_offset;
        site.points.iter().map(move |point| start + point.offset)
    });
    let byte = |address| {
        let mut byte = [0];
        memory.read(address, &mut byte).unwrap();
        byte[0]
    };
    bytes.map(byte).collect()
}

/// The kernel takes the breakpoints away, however the agent ends.
#[test]
fn a_killed_agent_leaves_no_breakpoints() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "raising");
    let pid = target.pid();
    let original = code_bytes(pid);
    assert!(original.len() >= 6, "{original:x?}");
    let id = pid.to_string();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("allocated.folded");
    let mut options = vec!["--pid", &id, "--event", "alloc", "--duration", "10m"];
    options.extend(["--output", file.to_str().unwrap()]);
    let mut agent = Running::start(&options);
    child::wait_until("the breakpoints are there", || {
        let changed = code_bytes(pid);
        changed.iter().zip(&original).all(|(byte, was)| byte != was)
    });
    agent.signal(Signal::KILL);
    child::wait_until("the agent has ended", || agent.has_ended());
    child::wait_until("the breakpoints are gone", || code_bytes(pid) == original);
}

#[test]
fn the_profiles_of_a_host_have_allocations() {
    let _machine = machine::alone();
    let host = Host::start("events: [alloc, cpu]");
    let program = Program::of(machine::one_interpreter(), "allocating", &["2000"]);
    program.run_as("allocates");
    thread::sleep(WINDOW);
    let folder = host.stop();
    let merged = folded_report(&folder, "--service allocates --event alloc");
    let profile = Folded::parse_all(&merged);
    // It has the probes when it is known, which it was before the last functions were called.
    let mapped = found(&profile, "map_memory");
    let share = mapped / 2e9;
    assert!((share - 1.0).abs() < 0.2, "{share}: {merged}");
}
