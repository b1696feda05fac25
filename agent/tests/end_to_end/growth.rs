//! Growth of resident memory, compared with the kernel's account of the process.

use std::{collections::BTreeMap, fs, thread};

use tempfile::TempDir;
use xtask::interpreters::{self, Interpreter};

use super::{
    capture::{Capture, Running},
    folded::{Folded, Frame},
    host::{Host, WINDOW, folded_report},
    machine,
    packages::python_packages,
    program::Program,
    target::Target,
};

/// The functions of the workload, and the memory by which they grow.
const FUNCTIONS: [(&str, &str); 9] = [
    ("grow_list", ANONYMOUS),
    ("grow_bytes", ANONYMOUS),
    ("grow_private", ANONYMOUS),
    ("grow_shared", "[shared memory]"),
    ("grow_by_read", ANONYMOUS),
    ("grow_by_file", "[file memory]"),
    ("grow_huge", ANONYMOUS),
    ("grow_large", ANONYMOUS),
    ("grow_small", ANONYMOUS),
];

/// The functions of the workload with arrays.
const ARRAYS: [(&str, &str); 4] = [
    ("grow_ones", ANONYMOUS),
    ("grow_product", ANONYMOUS),
    ("grow_small_arrays", ANONYMOUS),
    ("grow_frame", ANONYMOUS),
];

/// Requirement specifiers of what it imports.
const PACKAGES: [&str; 4] = [
    "numpy==2.5.5",
    "pandas==3.1.1",
    "python-dateutil==2.9.0.post0",
    "six==1.17.0",
];

const ANONYMOUS: &str = "[anonymous memory]";

/// To which a summary rounds.
const TENTH_OF_MEGABYTE: u64 = 100_000;

/// Bytes for which there is a sample.
const PERIOD: u64 = 256 << 10;

/// What chance may do: a function begins and ends in the middle of a period, on each processor on which it runs.
const CHANCE: u64 = 4 * PERIOD;

/// The same of threads that grow at the same time: now and then a processor gets the pages that another one hands over in
/// the same microsecond.
const CHANCE_AT_ONCE: u64 = 8 * PERIOD;

/// Tolerated error besides, in per cent.
const TOLERANCE: u64 = 2;

/// What a workload has printed: names and bytes.
struct Printed(BTreeMap<String, u64>);

impl Printed {
    fn read(output: Vec<u8>) -> Self {
        let output = String::from_utf8(output).unwrap();
        let lines = output.lines().map(|line| {
            let (name, bytes) = line.split_once(' ').unwrap();
            (name.to_owned(), bytes.parse().unwrap())
        });
        Self(lines.collect())
    }

    /// Asserts that each function has its growth in a profile, as its memory.
    fn assert_in(&self, profile: &Folded, functions: &[(&str, &str)], name: &str) {
        for &(function, memory) in functions {
            let gained = self.0[function];
            let is_in = |stack: &[Frame]| stack.iter().any(|frame| frame.name == function);
            let found = profile.count(is_in);
            let of_memory = profile.count(|stack| {
                is_in(stack) && stack.last().is_some_and(|leaf| leaf.name == memory)
            });
            println!("{name}: {function}: {found} of {gained}");
            let error = found.abs_diff(gained);
            let chance = match function {
                "grow_large" | "grow_small" => CHANCE_AT_ONCE,
                _ => CHANCE,
            };
            assert!(
                error * 100 <= gained * TOLERANCE + chance * 100,
                "{name}: {function}: {found} of {gained}"
            );
            assert!(gained > 10_000_000, "{name}: {function}: {gained}");
            assert!(
                of_memory * 100 >= found * (100 - TOLERANCE) - CHANCE.min(found) * 100,
                "{name}: {function}: {of_memory} of {found} are {memory}"
            );
        }
    }
}

/// Runs a workload with the agent; returns its profile, what it has printed, and the summary.
fn profile(
    interpreter: &Interpreter,
    workload: &str,
    arguments: &[&str],
) -> (Folded, Printed, String) {
    let program = Program::of(interpreter, workload, arguments);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("growth.folded");
    let mut arguments = vec!["--event", "growth", "--output"];
    arguments.extend([file.to_str().unwrap(), "--"]);
    arguments.extend(program.0.iter().map(String::as_str));
    let capture = Running::start(&arguments).finish();
    capture.assert_success();
    let profile = Folded::parse_all(&fs::read_to_string(&file).unwrap());
    (profile, Printed::read(capture.output), capture.messages)
}

#[test]
fn each_function_has_the_memory_by_which_the_process_grew() {
    let _machine = machine::alone();
    machine::for_each_kind(|interpreter| {
        let (profile, printed, summary) = profile(interpreter, "growing", &[]);
        let name = &interpreter.name;
        printed.assert_in(&profile, &FUNCTIONS, name);
        let has_total = |line: &str| line.ends_with(" MB of new resident memory");
        assert!(summary.lines().any(has_total), "{summary}");
        let (total, given_back) = (profile.total(), given_back(&summary));
        let [must_be_given_back, resident] = ["given_back", "resident"].map(|of| printed.0[of]);
        println!("{name}: {total} - {given_back} = {resident}");
        assert!(
            given_back + TENTH_OF_MEGABYTE >= must_be_given_back,
            "{summary}"
        );
        if interpreter.root().is_some() {
            // A shell begins it, whose memory is in the profile too.
            return;
        }
        // Since the program began it has no other memory.
        let left = total - given_back;
        assert!(
            left.abs_diff(resident) * 100 <= total * TOLERANCE + CHANCE_AT_ONCE * 100,
            "{name}: {left} of {resident}"
        );
    });
}

#[test]
fn arrays_of_numpy_and_frames_of_pandas_have_their_memory() {
    let _machine = machine::shared();
    let interpreter = interpreters::named("3.12").unwrap();
    let packages = python_packages(&interpreter, "pandas", &PACKAGES);
    let arguments = [packages.to_str().unwrap()];
    let (profile, printed, _) = profile(&interpreter, "growing_arrays", &arguments);
    printed.assert_in(&profile, &ARRAYS, &interpreter.name);
}

/// The same of a program that begins while the agent of the host runs, and from which it learns at its first
/// samples.
#[test]
fn the_profiles_of_a_host_have_the_growth_of_each_function() {
    let _machine = machine::alone();
    let host = Host::start("events: [growth, cpu]");
    let program = Program::of(machine::one_interpreter(), "growing", &[]);
    let printed = Printed::read(program.run_as("growing"));
    let given_back = host.metrics()["profiling_agent_given_back_pages_total"];
    thread::sleep(WINDOW);
    let folder = host.stop();
    let merged = folded_report(&folder, "--service growing --event growth");
    let profile = Folded::parse_all(&merged);
    printed.assert_in(&profile, &FUNCTIONS, "host");
    let page_bytes = 4096.0;
    let must_be_given_back = f64::from(u32::try_from(printed.0["given_back"]).unwrap());
    assert!(
        given_back * page_bytes >= must_be_given_back,
        "{given_back}"
    );
}

/// The bytes in the sentence of a summary, to a tenth of a megabyte.
fn given_back(summary: &str) -> u64 {
    let sentence = " MB of resident memory was given back meanwhile, and not taken off.";
    let megabytes = summary
        .lines()
        .find_map(|line| line.strip_suffix(sentence))
        .unwrap_or_else(|| panic!("{summary}"));
    let tenths: u64 = megabytes.replace('.', "").parse().unwrap();
    tenths * TENTH_OF_MEGABYTE
}

#[test]
fn memory_that_was_there_before_is_no_growth() {
    let _machine = machine::alone();
    let target = Target::start(machine::one_interpreter(), "busy");
    let profile = Capture::whole(target.pid(), "--event growth --duration 1");
    let grown = profile.total();
    assert!(grown <= CHANCE, "{grown}");
}
