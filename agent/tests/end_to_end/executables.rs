//! A host on which thousands of different programs run, one after the other.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use test_support::child;

use super::{
    host::{Host, PROFILES, SECOND, wait_for_cpu},
    machine,
    native::compile,
    target::{Target, mortal},
    whole::{self, Location},
};

/// More than the agent opens at the same time.
const PROGRAMS: f64 = 2300.0;

/// Programs that run at the same time.
const AT_ONCE: usize = 100;

/// Descriptors of the agent besides those of executables.
const OTHERS: usize = 500;

/// Runs different programs for a moment, long enough to be examined.
fn run_programs(folder: &Path, first: usize) {
    let program = fs::read("/bin/sleep").unwrap();
    let copies: Vec<PathBuf> = (first..first + AT_ONCE)
        .map(|number| {
            let path = folder.join(number.to_string());
            fs::copy("/bin/sleep", &path).unwrap();
            fs::write(&path, [&program[..], &number.to_ne_bytes()].concat()).unwrap();
            path
        })
        .collect();
    let running: Vec<_> = copies
        .iter()
        .map(|path| Command::new(path).arg("0.4").spawn().unwrap())
        .collect();
    for mut program in running {
        program.wait().unwrap();
    }
    for path in copies {
        fs::remove_file(path).unwrap();
    }
}

/// Executables that the agent has had so far, and those that it has.
fn executables(host: &Host) -> (f64, f64) {
    let metrics = host.metrics();
    let of_state = |state| metrics[&format!("profiling_agent_executables{{state=\"{state}\"}}")];
    let present = of_state("open") + of_state("closed");
    let forgotten = metrics["profiling_agent_executables_forgotten_total"];
    (present + forgotten, present)
}

fn descriptors(host: &Host) -> usize {
    fs::read_dir(format!("/proc/{}/fd", host.pid()))
        .unwrap()
        .count()
}

#[test]
fn after_thousands_of_programs_a_new_one_has_names_and_whole_stacks() {
    let _machine = machine::alone();
    let host = Host::start("");
    let folder = TempDir::new().unwrap();
    let mut started = 0;
    child::wait_until("the agent has seen thousands of programs", || {
        run_programs(folder.path(), started);
        started += AT_ONCE;
        assert!(descriptors(&host) < 2048 + OTHERS, "{}", descriptors(&host));
        executables(&host).0 > PROGRAMS
    });

    let program = compile(&folder, "chain", "-O2 -fomit-frame-pointer");
    let mut command = mortal(&program);
    command.env("OTEL_SERVICE_NAME", "fresh");
    let fresh = Target::from_command(command);
    wait_for_cpu(&fresh, 2 * SECOND);
    drop(fresh);
    child::wait_until("programs that have ended are forgotten", || {
        executables(&host).1 < PROGRAMS / 2.0 && descriptors(&host) < 1024 + OTHERS
    });

    let folder = host.stop();
    let files = whole::files(&folder.path().join(PROFILES), "fresh");
    let (mut whole, mut all) = (0, 0);
    for file in files.values() {
        for (stack, count) in whole::of_pprof(&fs::read(file).unwrap()).stacks {
            all += count;
            whole += if is_whole(&stack) { count } else { 0 };
        }
    }
    assert!(whole * 10 > all * 8 && whole > 0, "{whole} of {all}");
}

/// Whether a stack leads from the entry of the program to its last function, and all have names.
fn is_whole(stack: &[Location]) -> bool {
    let lines = stack.iter().flat_map(|location| &location.lines);
    let names: Vec<_> = lines.map(|line| &*line.function).collect();
    let chain = ["leaf", "large", "variable", "outer", "main"];
    names.last() == Some(&"_start") && names.windows(chain.len()).any(|some| some == chain)
}
