//! Which processes a command is about: several at once, and what is said about those that cannot be.

use std::{fs, path::Path, thread, time::Duration};

use serde_json::Value;
use test_support::control_groups::Groups;

use super::{
    capture::{Capture, Running},
    machine,
    target::{Target, mortal, workload_path},
};

/// An id that no process can have, the first above the kernel's `PID_MAX_LIMIT`.
const NO_PROCESS: u32 = 4_194_304;

/// Samples of each process in folded stacks, by the id in their roots.
pub(crate) fn samples_of(capture: &Capture, pid: u32) -> u64 {
    let folded = String::from_utf8_lossy(&capture.output);
    let root = format!("({pid})");
    let lines = folded.lines().filter(|line| {
        let process = line.split(';').next();
        process.is_some_and(|process| process.ends_with(&root))
    });
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

fn folded(options: &str) -> Capture {
    let options = format!("--format folded --output - {options}");
    let capture = Capture::run(&options.split(' ').collect::<Vec<_>>());
    capture.assert_success();
    capture
}

#[test]
fn one_profile_has_several_processes() {
    let _machine = machine::shared();
    let targets = [(); 3].map(|()| Target::start(machine::one_interpreter(), "busy"));
    let [a, b, other] = targets.each_ref().map(Target::pid);
    // One is there twice, and counts once.
    let capture = folded(&format!("-d 2s -r 499 -p {a},{b} --pid {a}"));
    assert!(
        capture.messages.contains("2 processes"),
        "{}",
        capture.messages
    );
    let counts = [a, b, other].map(|pid| samples_of(&capture, pid));
    println!("{counts:?}");
    assert!(counts[0] > 0 && counts[1] > 0, "{counts:?}");
    assert_eq!(counts[2], 0);
    // Nobody has more samples than the time allows: none is counted twice.
    assert!(counts[0] <= 2 * 499 * 11 / 10, "{counts:?}");
}

#[test]
fn the_end_of_one_process_does_not_end_the_capture_of_others() {
    let _machine = machine::shared();
    let [first, second] = [(); 2].map(|()| Target::start(machine::one_interpreter(), "busy"));
    let [a, b] = [&first, &second].map(Target::pid);
    let pids = format!("{a},{b}");
    let arguments = ["-p", &pids, "-d", "1h", "-f", "folded", "-o", "-"];
    let mut capture = Running::start(&arguments);
    capture.wait_until_sampling();
    thread::sleep(Duration::from_secs(1));
    first.kill();
    thread::sleep(Duration::from_secs(2));
    capture.assert_runs();
    second.kill();
    let capture = capture.finish();
    capture.assert_success();
    let said = "All processes ended before the time was over.";
    assert!(capture.messages.contains(said), "{}", capture.messages);
    let [of_first, of_second] = [a, b].map(|pid| samples_of(&capture, pid));
    assert!(
        of_first > 0 && of_second > of_first,
        "{of_first} {of_second}"
    );
}

#[test]
fn each_process_that_cannot_be_profiled_is_named() {
    let _machine = machine::shared();
    let target = Target::start_with(machine::one_interpreter(), "threads", &["2".to_owned()]);
    let pid = target.pid();
    let thread = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let thread = thread
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .find(|tid| *tid != pid.to_string())
        .unwrap();
    let pids = format!("{pid},{NO_PROCESS},{thread},2");
    for command in ["record", "dump", "top"] {
        let capture = Capture::run(&[command, "--pid", &pids]);
        assert_eq!(capture.status.code(), Some(1));
        let lines: Vec<_> = capture.messages.lines().collect();
        let [missing, of_thread, kernel] = lines[..] else {
            panic!("{command}: {}", capture.messages);
        };
        let expected = format!("agent: process 2 of 4: there is no process {NO_PROCESS}");
        assert!(missing.starts_with(&expected), "{missing}");
        let expected = format!("process 3 of 4: {thread} is a thread of process {pid}");
        assert!(of_thread.starts_with(&expected), "{of_thread}");
        assert!(
            kernel.starts_with("process 4 of 4: process 2 ("),
            "{kernel}"
        );
        assert!(kernel.contains("kernel thread"), "{kernel}");
    }
}

#[test]
fn dump_and_top_have_several_processes_too() {
    let _machine = machine::shared();
    let [first, second] = [(); 2].map(|()| Target::start(machine::one_interpreter(), "busy"));
    let pids = format!("{},{}", first.pid(), second.pid());
    let dump = Capture::run(&["dump", "--json", "--pid", &pids]);
    dump.assert_success();
    let document: Value = serde_json::from_slice(&dump.output).unwrap();
    let processes = document["processes"].as_array().unwrap();
    let mut dumped: Vec<_> = processes
        .iter()
        .map(|it| it["pid"].as_u64().unwrap())
        .collect();
    dumped.sort_unstable();
    let mut expected = [&first, &second].map(|it| u64::from(it.pid()));
    expected.sort_unstable();
    assert_eq!(dumped, expected, "{document:#}");
    for process in processes {
        let threads = process["threads"].as_array().unwrap();
        assert!(!threads[0]["frames"].as_array().unwrap().is_empty());
    }
    let options = [
        "top",
        "--pid",
        &pids,
        "-b",
        "-n",
        "1",
        "--table",
        "processes",
    ];
    let top = Capture::run(&options);
    top.assert_success();
    let table = String::from_utf8(top.output).unwrap();
    assert!(table.starts_with("2 processes, "), "{table}");
    for target in [&first, &second] {
        assert!(table.contains(&target.pid().to_string()), "{table}");
    }
}

/// A workload that runs as another script, whose name nothing else has.
pub(crate) fn named(folder: &Path, name: &str) -> Target {
    let script = folder.join(format!("{name}.py"));
    fs::copy(workload_path("busy"), &script).unwrap();
    fs::copy(workload_path("truth"), folder.join("truth.py")).unwrap();
    let mut command = mortal(&machine::one_interpreter().path);
    command.args(["-s", "-B"]).arg(&script);
    Target::from_command(command)
}

#[test]
fn processes_are_selected_by_name() {
    let _machine = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    let targets = ["selected-web", "selected-api", "unselected"].map(|it| named(folder.path(), it));
    let [web, api, other] = targets.each_ref().map(Target::pid);
    for (pattern, expected) in [
        ("--name selected-*", vec![web, api]),
        ("--name selected-api.py", vec![api]),
        ("--name selected-web --name selected-ap?", vec![web, api]),
    ] {
        let capture = folded(&format!("-d 1s -r 499 {pattern} --pid {other}"));
        for pid in [web, api] {
            let is_selected = expected.contains(&pid);
            assert_eq!(samples_of(&capture, pid) > 0, is_selected, "{pattern}");
        }
        assert!(samples_of(&capture, other) > 0);
    }
    let capture = Capture::run(&["--name", "selectde-web"]);
    assert_eq!(capture.status.code(), Some(1));
    let expected = format!(
        "agent: no process matches --name selectde-web: did you mean selected-web (process {web}) or \
         selected-api (process {api})"
    );
    assert!(
        capture.messages.starts_with(&expected),
        "{}",
        capture.messages
    );
    // A command that takes one says how many there are.
    for command in ["gil", "lock", "doctor"] {
        let capture = Capture::run(&[command, "--name", "selected-*"]);
        assert_eq!(capture.status.code(), Some(1));
        let expected = "agent: 2 processes are selected, and this command takes one";
        assert!(
            capture.messages.starts_with(expected),
            "{}",
            capture.messages
        );
    }
    let doctor = Capture::run(&["doctor", "--name", "selected-api"]);
    assert!(doctor.status.success());
    let report = String::from_utf8(doctor.output).unwrap();
    assert!(report.contains(&format!("Process {api}")), "{report}");
}

#[test]
fn processes_are_selected_by_their_control_groups() {
    let _machine = machine::alone();
    let id = "7e57".repeat(16);
    let uid = "7e577e57-0000-4000-8000-0123456789ab";
    let mut groups = Groups::new("selected");
    let folders = [
        groups.add("selected-by-test.service"),
        groups.add(&format!("docker-{id}.scope")),
        groups.add(&format!("pod{uid}")),
    ];
    let targets = [(); 4].map(|()| Target::start(machine::one_interpreter(), "busy"));
    let pids = targets.each_ref().map(Target::pid);
    for (folder, pid) in folders.iter().zip(pids) {
        fs::write(folder.join("cgroup.procs"), pid.to_string()).unwrap();
    }
    let path = fs::read_to_string(format!("/proc/{}/cgroup", pids[0])).unwrap();
    let path = path.lines().find_map(|line| line.strip_prefix("0::"));
    for (selector, expected) in [
        ("--unit selected-by-test", vec![pids[0]]),
        ("--unit selected-by-test.service", vec![pids[0]]),
        ("--container 7e577e57", vec![pids[1]]),
        (&*format!("--pod {uid}"), vec![pids[2]]),
        (&*format!("--cgroup {}", path.unwrap()), vec![pids[0]]),
        (
            &*format!("--unit selected-by-test --container {id}"),
            vec![pids[0], pids[1]],
        ),
    ] {
        let dump = format!("dump --json {selector}");
        let capture = Capture::run(&dump.split(' ').collect::<Vec<_>>());
        capture.assert_success();
        let document: Value = serde_json::from_slice(&capture.output).unwrap();
        let processes = document["processes"].as_array().unwrap().iter();
        let mut found: Vec<_> = processes.map(|it| it["pid"].as_u64().unwrap()).collect();
        found.sort_unstable();
        let mut expected: Vec<_> = expected.into_iter().map(u64::from).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{selector}");
    }
    let capture = Capture::run(&["dump", "--unit", "selected-by-tset"]);
    assert_eq!(capture.status.code(), Some(1));
    let expected = "agent: no process matches --unit selected-by-tset: did you mean ";
    assert!(
        capture.messages.starts_with(expected),
        "{}",
        capture.messages
    );
    let closest = format!("selected-by-test.service (process {})", pids[0]);
    assert!(capture.messages.contains(&closest), "{}", capture.messages);
}

/// Workers that run code of their parent, as those of `multiprocessing`, are part of what it runs; other code is not.
#[test]
fn workers_are_selected_by_the_script_that_has_started_them() {
    let _machine = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("selected-pool.py");
    fs::copy(workload_path("multiprocessing_workers"), &script).unwrap();
    let python = &machine::one_interpreter().path;
    let mut other = mortal(python);
    other.args(["-c", "print('ready', flush=True)\nwhile True: pass"]);
    let other = Target::from_command(other);
    let mut command = mortal(python);
    command.args(["-s", "-B"]).arg(&script);
    let mut pool = Target::from_command(command);
    let workers: Vec<u32> = pool
        .read_line()
        .split(' ')
        .map(|it| it.parse().unwrap())
        .collect();
    assert_eq!(workers.len(), 3);
    let capture = folded("-d 2s -r 499 --name selected-pool");
    for pid in workers {
        assert!(samples_of(&capture, pid) > 0, "{pid}: {}", capture.messages);
    }
    assert_eq!(samples_of(&capture, other.pid()), 0);
}
