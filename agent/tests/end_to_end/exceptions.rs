//! Exceptions, compared with those that a program has raised.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
};

use agent::testing::{process::Process, python::Detector};
use rustix::process::Signal;
use tempfile::TempDir;
use test_support::child;

use super::{
    capture::{Capture, Running},
    folded::{Folded, Frame},
    host::{Host, SECOND, WINDOW, folded_report},
    machine,
    program::Program,
    target::Target,
};

/// The functions that raise exceptions, and the classes.
const RAISED: [(&str, &str); 5] = [
    ("raise_value", "ValueError"),
    ("raise_own", "OutOfStock"),
    ("look_up", "KeyError"),
    ("convert", "ValueError"),
    ("raise_index", "IndexError"),
];

/// A breakpoint.
const BREAKPOINT: u8 = if cfg!(target_arch = "x86_64") {
    0xcc
} else {
    0x00
};

/// A capture of exceptions of a program that waits for its input.
struct Recording {
    agent: Running,
    folder: TempDir,
}

impl Recording {
    fn start(pid: u32, options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("raised.folded");
        let process = pid.to_string();
        let mut arguments = vec![
            "--pid",
            &process,
            "--event",
            "exceptions,cpu",
            "--duration",
            "10m",
        ];
        arguments.extend(["--no-native", "--output", file.to_str().unwrap()]);
        arguments.extend(options);
        let mut agent = Running::start(&arguments);
        let links = format!("/proc/{}/fdinfo", agent.pid());
        // First comes the probe, and then the clock.
        child::wait_until("the agent samples", || {
            agent.assert_runs();
            let mut links = fs::read_dir(&links).unwrap().flatten();
            // It may be closed meanwhile.
            let text = |link: fs::DirEntry| fs::read_to_string(link.path()).unwrap_or_default();
            links.any(|link| text(link).contains("link_type:\tperf"))
        });
        // Where the interpreter is becomes known meanwhile.
        child::wait_until("the probe is attached", || has_probe(pid));
        Self { agent, folder }
    }

    fn finish(self) -> (Folded, Capture) {
        self.agent.signal(Signal::INT);
        let capture = self.agent.finish();
        capture.assert_success();
        let text = fs::read_to_string(profile_in(self.folder.path())).unwrap();
        (Folded::parse_all(&text), capture)
    }
}

/// The profile of exceptions that a capture has written into a folder.
fn profile_in(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().flatten();
    let mut paths = files.map(|file| file.path());
    let path = paths.find(|path| path.to_string_lossy().contains("exceptions"));
    path.unwrap()
}

/// The function and the class of a stack.
fn raised(stack: &[Frame]) -> (String, String) {
    let [.., frame, marker] = stack else {
        panic!("{stack:?}");
    };
    let class = marker.name.strip_prefix("[raises: ");
    let class = class.and_then(|class| class.strip_suffix(']'));
    let function = frame.name.rsplit('.').next().unwrap();
    (function.to_owned(), class.unwrap().to_owned())
}

/// How often each function has raised an exception of each class.
fn counts(profile: &Folded) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for (stack, count) in profile.iter() {
        // Modules of the standard library have their own.
        let [.., frame, _] = stack else {
            panic!("{stack:?}");
        };
        if !frame.place.ends_with("raising.py") {
            continue;
        }
        *counts.entry(raised(stack)).or_default() += count;
    }
    counts
}

/// As often as the workload was told.
fn expected(count: u64) -> BTreeMap<(String, String), u64> {
    let raised = RAISED.iter();
    raised
        .map(|(function, class)| (((*function).to_owned(), (*class).to_owned()), count))
        .collect()
}

/// Has the workload do something, and waits until it has.
fn order(target: &mut Target, what: &str) {
    target.send_line(what);
    assert_eq!(target.read_line(), "done");
}

#[test]
fn each_exception_is_counted_where_it_was_raised() {
    let _machine = machine::alone();
    machine::for_each_interpreter(|interpreter| {
        let mut target = Target::start(interpreter, "raising");
        let recording = Recording::start(target.pid(), &[]);
        order(&mut target, "100");
        order(&mut target, "threads 4 25");
        let (profile, capture) = recording.finish();
        let name = &interpreter.name;
        assert_eq!(counts(&profile), expected(200), "{name}");
        // From the outermost frame on.
        let deep = |stack: &[Frame]| {
            let is_own = |frame: &&Frame| frame.name.ends_with("raise_own");
            stack.iter().filter(is_own).count() == 21
        };
        assert_eq!(profile.count(deep), 200, "{name}");
        assert!(
            capture.messages.contains(" exceptions\n"),
            "{name}: {}",
            capture.messages
        );
    });
}

#[test]
fn ends_of_iterators_are_there_if_they_are_asked_for() {
    let _machine = machine::alone();
    let mut target = Target::start(machine::one_interpreter(), "raising");
    let recording = Recording::start(target.pid(), &["--all-exceptions"]);
    order(&mut target, "300");
    let (profile, _) = recording.finish();
    let mut all = expected(300);
    let end = ("end_iteration".to_owned(), "StopIteration".to_owned());
    all.insert(end, 300);
    assert_eq!(counts(&profile), all);
}

/// The interpreter cuts the frames of the import system off, after which an exception is like a new one.
#[test]
fn a_failed_import_counts_once() {
    let _machine = machine::alone();
    machine::for_each_interpreter(|interpreter| {
        let name = &interpreter.name;
        let is_old = interpreter.major == 2;
        let no_module = if is_old {
            "ImportError"
        } else {
            "ModuleNotFoundError"
        };
        let mut target = Target::start(interpreter, "raising");
        // What is imported first reads folders and files.
        order(&mut target, "import 1");
        let recording = Recording::start(target.pid(), &[]);
        order(&mut target, "import 100");
        let (profile, capture) = recording.finish();
        let is_import_error = |(stack, _): &(&[Frame], u64)| {
            let (_, class) = raised(stack);
            class == "ImportError" || class == "ModuleNotFoundError"
        };
        let mut errors = BTreeMap::new();
        for (stack, count) in profile.iter().filter(is_import_error) {
            *errors.entry(raised(stack)).or_insert(0) += count;
        }
        let by_name = if is_old {
            "import_module"
        } else {
            "_find_and_load_unlocked"
        };
        let expected = [
            ("import_missing", no_module),
            ("import_missing_name", "ImportError"),
            (by_name, no_module),
        ];
        let expected =
            expected.map(|(function, class)| ((function.to_owned(), class.to_owned()), 100));
        assert_eq!(errors, BTreeMap::from(expected), "{name}");
        let is_said = capture
            .messages
            .contains("inside the import system are left out");
        assert_eq!(is_said, !is_old, "{name}: {}", capture.messages);
    });
}

/// In every process that maps the interpreter there is a breakpoint, also in one that was forked.
#[test]
fn forked_processes_and_their_threads_are_counted() {
    let _machine = machine::alone();
    let mut target = Target::start(machine::one_interpreter(), "raising");
    let recording = Recording::start(target.pid(), &["--children"]);
    order(&mut target, "fork 400");
    order(&mut target, "threads 200 2");
    let (profile, _) = recording.finish();
    let mut functions = BTreeMap::new();
    for ((function, class), count) in counts(&profile) {
        // The page of a name may not be mapped in the child yet.
        assert!(class == "unknown" || RAISED.contains(&(&*function, &*class)));
        *functions.entry(function).or_insert(0) += count;
    }
    let all = RAISED.map(|(function, _)| (function.to_owned(), 800));
    assert_eq!(functions, BTreeMap::from(all));
}

/// The first bytes of the code at each place of the probe.
fn code_bytes(pid: u32) -> Vec<u8> {
    let process = Process::open(pid).unwrap();
    let interpreter = Detector::default().detect(&process).unwrap();
    let site = interpreter.raise_site.unwrap();
    let memory = process.memory().unwrap();
    let points = site.points.iter().map(|point| {
        let address = site.mapping.start + (point.offset - site.mapping.file_offset);
        let mut byte = [0];
        memory.read(address, &mut byte).unwrap();
        byte[0]
    });
    points.collect()
}

fn has_probe(pid: u32) -> bool {
    code_bytes(pid).iter().all(|byte| *byte == BREAKPOINT)
}

/// The kernel takes the breakpoint away, however the agent ends.
#[test]
fn a_killed_agent_leaves_no_breakpoint() {
    let _machine = machine::alone();
    let mut target = Target::start(machine::one_interpreter(), "raising");
    let pid = target.pid();
    let original = code_bytes(pid);
    assert!(!original.contains(&BREAKPOINT));
    let mut recording = Recording::start(pid, &[]);
    order(&mut target, "10");
    recording.agent.signal(Signal::KILL);
    child::wait_until("the agent has ended", || recording.agent.has_ended());
    child::wait_until("the breakpoint is gone", || code_bytes(pid) == original);
    order(&mut target, "10");
    // So does one that ends in order.
    let recording = Recording::start(pid, &[]);
    order(&mut target, "10");
    let (profile, _) = recording.finish();
    assert_eq!(counts(&profile), expected(10));
    assert_eq!(code_bytes(pid), original);
}

fn number(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

/// What was found of a program that raises all the time, at random times, and the rest estimated.
struct Estimated {
    profile: Folded,
    capture: Capture,
    /// Its exceptions.
    found: f64,
    raised: f64,
    /// What the probe takes of a processor.
    cost: f64,
}

impl Estimated {
    fn of(target: &mut Target) -> Self {
        // How many turns, and the CPU time of those that raise an exception and of as many that raise none.
        let run = |target: &mut Target| -> [f64; 3] {
            target.send_line("fast");
            let line = target.read_line();
            let numbers: Vec<f64> = line.split(' ').map(|it| it.parse().unwrap()).collect();
            numbers.try_into().unwrap()
        };
        let ratio = |[_, with, without]: [f64; 3]| with / without;
        let alone = ratio(run(target));
        let recording = Recording::start(target.pid(), &[]);
        let runs = [(); 5].map(|()| run(target));
        let (profile, capture) = recording.finish();
        let alone = alone.max(ratio(run(target)));
        let raised = runs.iter().map(|[turns, ..]| turns * 1.1).sum::<f64>();
        let lost = runs.iter().map(|[_, with, without]| with - without * alone);
        // Each run takes two seconds.
        let cost = lost.sum::<f64>() / 10.0;
        let found = number(profile.total());
        println!(
            "{found} of {raised}, {cost} of a processor for the probe\n{}",
            capture.messages
        );
        Self {
            profile,
            capture,
            found,
            raised,
            cost,
        }
    }

    /// As exact as the summary says it is.
    fn assert_true(&self) {
        let deviation = standard_error(&self.capture);
        let (found, raised) = (self.found, self.raised);
        let most = (raised * 0.05 + 3.0 * deviation).min(raised * 0.3);
        assert!(
            (found - raised).abs() < most,
            "{found} of {raised} ± {deviation}"
        );
        // What says nothing is no test.
        assert!(deviation < raised * 0.2, "{deviation} of {raised}");
    }
}

#[test]
fn a_program_that_raises_all_the_time_is_estimated_and_not_slowed_down() {
    let _machine = machine::alone();
    let mut target = Target::start(machine::one_interpreter(), "raising");
    let estimated = Estimated::of(&mut target);
    // All of them, at 11 us each, would be 0.2 to 0.3.
    assert!(estimated.cost < 0.12, "{}", estimated.cost);
    estimated.assert_true();
    let found = estimated.found;
    let own = estimated
        .profile
        .count(|stack| stack.iter().any(|it| it.name == "raise_own"));
    let own = number(own);
    assert!((own / found - 1.0 / 11.0).abs() < 0.02, "{own} of {found}");
    let messages = estimated.capture.messages;
    assert!(messages.contains(" milliseconds were left out"));
}

/// It has a processor a part of the time, and the agent is late.
#[test]
fn so_it_is_beside_programs_that_compute() {
    let _machine = machine::alone();
    let interpreter = machine::one_interpreter();
    let beside = 2 * thread::available_parallelism().unwrap().get();
    let _busy: Vec<_> = (0..beside)
        .map(|_| Target::start(interpreter, "busy"))
        .collect();
    let mut target = Target::start(interpreter, "raising");
    Estimated::of(&mut target).assert_true();
}

/// The standard error that a summary says.
fn standard_error(capture: &Capture) -> f64 {
    let found = capture.messages.split_once(" exceptions (± ");
    assert!(found.is_some(), "{}", capture.messages);
    let (_, error) = found.unwrap();
    let (error, _) = error.split_once(", the standard error)").unwrap();
    error.parse().unwrap()
}

/// Recording an exception takes several times as long as raising it. What is left without the breakpoint is a small
/// difference, so that one number may be off by half and more where others use the processors too, as its standard
/// error says. The middle one of some is right, and together they are as far off as their errors say.
#[test]
fn a_program_that_does_little_but_raise_is_estimated() {
    const CAPTURES: u64 = 5;
    let _machine = machine::alone();
    let (mut ratios, mut errors, mut squares) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..CAPTURES {
        let (found, deviation, raised) = estimate_of_fast_raises();
        println!("{found} ± {deviation} of {raised}");
        ratios.push(found / raised);
        errors.push(deviation / raised);
        squares += ((found - raised) / deviation.max(raised * 0.05)).powi(2);
    }
    // Of one that others have disturbed the standard error may say too little.
    let ratio = median(ratios);
    assert!((ratio - 1.0).abs() < 0.35, "{ratio}");
    let deviations = (squares / number(CAPTURES)).sqrt();
    assert!(deviations < 4.0, "{deviations} standard errors");
    // What says nothing is no test.
    let error = median(errors);
    assert!(error < 0.5, "{error}");
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// How many exceptions a program is said to have raised, the standard error of that, and how many it has raised.
fn estimate_of_fast_raises() -> (f64, f64, f64) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("raised.folded");
    let program = Program::of(machine::one_interpreter(), "raising_fast", &["5"]);
    let mut command = vec![
        "--event",
        "exceptions",
        "--output",
        file.to_str().unwrap(),
        "--",
    ];
    command.extend(program.0.iter().map(String::as_str));
    let capture = Running::start(&command).finish();
    capture.assert_success();
    let output = String::from_utf8(capture.output.clone()).unwrap();
    let profile = Folded::parse_all(&fs::read_to_string(file).unwrap());
    (
        number(profile.total()),
        standard_error(&capture),
        output.trim().parse().unwrap(),
    )
}

#[test]
fn the_profiles_of_a_host_have_exceptions() {
    let _machine = machine::alone();
    let host = Host::start("events: [exceptions, cpu]");
    let mut target = Target::start(machine::one_interpreter(), "raising");
    // It is known when it was sampled, and then has the probe.
    thread::sleep(2 * SECOND);
    order(&mut target, "100");
    thread::sleep(WINDOW);
    let folder = host.stop();
    let merged = folded_report(&folder, "--event exceptions");
    let profile = Folded::parse_all(&merged);
    for (function, class) in RAISED {
        let marker = format!("[raises: {class}]");
        let count = profile.count(|stack| {
            let has_function = stack.iter().any(|frame| frame.name == function);
            has_function && stack.last().is_some_and(|leaf| leaf.name == marker)
        });
        assert_eq!(count, 100, "{function}: {merged}");
    }
}
