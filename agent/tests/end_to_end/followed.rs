//! Processes that start while a capture or a table goes on, and are selected as those at its start.

use std::{collections::BTreeMap, fs, path::Path, process::Command, thread, time::Duration};

use rustix::process::Signal;
use test_support::{child, control_groups::Groups};

use super::{
    capture::{Capture, Running},
    machine,
    schedstat::schedstat,
    selected::{named, samples_of},
    target::{Target, mortal, workload_path},
};

/// Samples per second of CPU time.
const RATE: &str = "499";

/// Least share of the CPU time of a process that is in the profile, as its interpreter says it: it has loaded its
/// libraries before it says anything.
const LEAST_SHARE: f64 = 0.8;

/// Makes scripts, each of which burns as many seconds of CPU time as its argument says, and prints its id and its CPU
/// time.
fn burning(folder: &Path, names: &[&str]) {
    for name in names {
        let script = folder.join(format!("{name}.py"));
        fs::copy(workload_path("burning"), script).unwrap();
    }
}

/// Runs a script by the interpreter of the tests, and returns the lines that it prints.
fn run(folder: &Path, script: &str, arguments: &[&str]) -> Vec<String> {
    let interpreter = &machine::one_interpreter().path;
    let mut command = mortal(interpreter);
    command.args(["-s", "-B"]).arg(folder.join(script));
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    lines_of(output.stdout)
}

/// The CPU time of processes in seconds, by what they have printed: name, id, time.
fn times(lines: &[String]) -> BTreeMap<(String, u32), f64> {
    let parsed = lines.iter().map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        let [name, pid, seconds] = words[..] else {
            panic!("{line}");
        };
        let key = (name.to_owned(), pid.parse().unwrap());
        (key, seconds.parse().unwrap())
    });
    parsed.collect()
}

/// Fails unless exactly the processes of this name are in the profile, with nearly all of their time.
fn assert_followed(capture: &Capture, times: &BTreeMap<(String, u32), f64>, name: &str) {
    let rate: f64 = RATE.parse().unwrap();
    for ((of, pid), seconds) in times {
        let samples = samples_of(capture, *pid);
        println!("{of} {pid}: {samples} samples of {seconds:.2} s");
        if of == name {
            let share = f64::from(u32::try_from(samples).unwrap()) / rate / seconds;
            assert!(share > LEAST_SHARE, "{of} {pid}: {share}");
        } else {
            assert_eq!(samples, 0, "{of} {pid}");
        }
    }
}

/// Starts a capture as folded stacks.
fn start(options: &str) -> Running {
    let options = format!("-d 1h -r {RATE} -f folded -o - {options}");
    let mut capture = Running::start(&options.split(' ').collect::<Vec<_>>());
    capture.wait_until_sampling();
    capture
}

/// Ends a capture.
fn end(capture: Running) -> Capture {
    capture.signal(Signal::INT);
    let capture = capture.finish();
    capture.assert_success();
    capture
}

fn assert_said(capture: &Capture, said: &str) {
    assert!(capture.messages.contains(said), "{}", capture.messages);
}

/// The lines that a program has printed.
fn lines_of(output: Vec<u8>) -> Vec<String> {
    let text = String::from_utf8(output).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// A supervisor starts a worker again each time that it has ended, and something else besides.
#[test]
fn a_worker_that_is_restarted_is_in_the_profile() {
    let _machine = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    burning(folder.path(), &["followed-web", "unmatched"]);
    let first = named(folder.path(), "followed-web-first");
    let capture = start("--name followed-web*");
    // Its parent does not wait for it.
    first.kill();
    fs::copy(
        workload_path("supervising"),
        folder.path().join("supervising.py"),
    )
    .unwrap();
    let lines = run(
        folder.path(),
        "supervising.py",
        &["followed-web.py", "unmatched.py"],
    );
    let capture = end(capture);
    let times = times(&lines);
    assert_eq!(times.len(), 6);
    assert_followed(&capture, &times, "followed-web");
    assert_said(&capture, "3 processes started meanwhile.\n");
    assert_said(&capture, "No matching process ran at the end.");
}

/// Forks are copies of what is selected, until they execute something else.
#[test]
fn forks_are_followed_until_they_execute_something_else() {
    let _machine = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    burning(folder.path(), &["unmatched"]);
    fs::copy(
        workload_path("forking"),
        folder.path().join("followed-master.py"),
    )
    .unwrap();
    fs::copy(workload_path("truth"), folder.path().join("truth.py")).unwrap();
    let mut command = mortal(&machine::one_interpreter().path);
    command
        .args(["-s", "-B"])
        .arg(folder.path().join("followed-master.py"));
    let mut master = Target::from_command(command);
    let capture = start("--name followed-master");
    master.send_line("go");
    let lines: Vec<_> = (0..4).map(|_| master.read_line()).collect();
    let capture = end(capture);
    let times = times(&lines);
    assert_eq!(times.len(), 4);
    let is_other = |(name, _): &(String, u32)| name == "unmatched";
    let (other, forks): (BTreeMap<_, _>, _) = times.into_iter().partition(|(key, _)| is_other(key));
    assert_followed(&capture, &forks, "fork");
    // Until its exec it is a copy of its parent, and that takes a moment.
    let (other, seconds) = other.into_iter().next().unwrap();
    let samples = samples_of(&capture, other.1);
    println!("{samples} samples of {seconds:.2} s");
    assert!(samples < 25, "{samples}");
    assert_said(&capture, "3 processes started meanwhile.\n");
}

/// A script of a shell, whose name does not match, executes what does.
#[test]
fn a_process_is_in_the_profile_from_the_exec_on_with_which_it_matches() {
    let _machine = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    burning(folder.path(), &["followed-late"]);
    let first = named(folder.path(), "followed-first");
    let capture = start("--name followed-*");
    let interpreter = machine::one_interpreter().path.display().to_string();
    let script = folder.path().join("followed-late.py");
    let script = script.display();
    let late = mortal("sh")
        .args(["-c", &format!("sleep 0.2; exec {interpreter} {script} 1")])
        .output()
        .unwrap();
    assert!(late.status.success(), "{late:?}");
    let lines = lines_of(late.stdout);
    let capture = end(capture);
    assert_followed(&capture, &times(&lines), "followed-late");
    assert!(samples_of(&capture, first.pid()) > 0);
    assert_said(&capture, "1 process started meanwhile.\n");
}

/// Thousands of programs that end at once, among them one that matches: nothing is lost, neither of what was
/// sampled before nor of the new one.
#[test]
fn a_burst_of_short_processes_holds_up_nothing() {
    let _machine = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    burning(folder.path(), &["followed-web"]);
    let first = named(folder.path(), "followed-first");
    let capture = start("--name followed-*");
    let seconds_before = cpu_seconds(first.pid());
    let burst = "for i in 1 2 3 4; do (for j in $(seq 2500); do /bin/true; done) & done; wait";
    let mut burst = child::start(mortal("sh").args(["-c", burst]));
    thread::sleep(Duration::from_millis(300));
    let lines = run(folder.path(), "followed-web.py", &["1"]);
    assert!(burst.wait().unwrap().success());
    let seconds = cpu_seconds(first.pid()) - seconds_before;
    let capture = end(capture);
    let mut times = times(&lines);
    times.insert(("followed-web".to_owned(), first.pid()), seconds);
    assert_followed(&capture, &times, "followed-web");
    assert_said(&capture, "1 process started meanwhile.\n");
}

/// CPU time of a process, by the scheduler.
fn cpu_seconds(pid: u32) -> f64 {
    let [nanoseconds, _, _] = schedstat(format!("/proc/{pid}"));
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

/// Puts a process into a control group.
fn put(group: &Path, pid: u32) {
    fs::write(group.join("cgroup.procs"), pid.to_string()).unwrap();
}

/// A container gets a process by `exec`, as runtimes start them, and one that runs already.
#[test]
fn control_groups_get_processes() {
    let _machine = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    burning(folder.path(), &["inside"]);
    let id = "7e57".repeat(16);
    let mut groups = Groups::new("followed");
    let group = groups.add(&format!("docker-{id}.scope"));
    // The id of another container begins alike.
    let other_group = groups.add(&format!("docker-7e57{}.scope", "0123".repeat(15)));
    let uid = "7e577e57-0000-4000-8000-0123456789ab";
    let inside = [
        group.clone(),
        groups.add("followed-by-test.service"),
        groups.add(&format!("pod{uid}")),
    ];
    let targets = [(); 7].map(|()| Target::start(machine::one_interpreter(), "busy"));
    let [other, pids @ ..] = targets.each_ref().map(Target::pid);
    let (first, moved) = pids.split_at(inside.len());
    for (group, pid) in inside.iter().zip(first) {
        put(group, *pid);
    }
    let capture = start(&format!(
        "--container 7e57 --unit followed-by-test --pod {uid}"
    ));
    for (group, pid) in inside.iter().zip(moved) {
        put(group, *pid);
    }
    put(&other_group, other);
    let interpreter = machine::one_interpreter().path.display().to_string();
    let script = folder.path().join("inside.py");
    let (group, script) = (group.display(), script.display());
    // Its first process runs twice, each time as something else.
    let started = format!("echo $$ > {group}/cgroup.procs; exec {interpreter} {script} 1");
    let lines = Command::new("sh").args(["-c", &started]).output().unwrap();
    let lines = lines_of(lines.stdout);
    // Until all processes were looked at.
    thread::sleep(Duration::from_secs(10));
    let capture = end(capture);
    assert_followed(&capture, &times(&lines), "inside");
    for pid in pids {
        assert!(samples_of(&capture, pid) > 0, "{pid}");
    }
    assert_eq!(samples_of(&capture, other), 0);
}

/// The last process ends; the capture says so, goes on, and has the next one.
#[test]
fn a_capture_without_processes_waits_for_the_next() {
    let _machine = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    burning(folder.path(), &["followed-next"]);
    let first = named(folder.path(), "followed-first");
    let mut capture = start("--name followed-*");
    // With its samples there are two processes, which are the roots of their stacks.
    thread::sleep(Duration::from_secs(1));
    let gone = first.pid();
    drop(first);
    child::wait_until("it is said that nothing runs", || {
        capture.assert_runs();
        capture.messages().contains("No matching process runs")
    });
    let lines = run(folder.path(), "followed-next.py", &["1"]);
    let capture = end(capture);
    assert_followed(&capture, &times(&lines), "followed-next");
    assert!(samples_of(&capture, gone) > 0);
}

/// The table has what has started since.
#[test]
fn top_follows_too() {
    let _machine = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    let first = named(folder.path(), "followed-first");
    let options = "top --name followed-* -b -n 6 -d 1 --table processes";
    let mut top = Running::start(&options.split(' ').collect::<Vec<_>>());
    top.wait_until_sampling();
    drop(first);
    let second = named(folder.path(), "followed-second");
    let top = top.finish();
    top.assert_success();
    let tables = String::from_utf8(top.output).unwrap();
    assert!(tables.starts_with("--name followed-*, "), "{tables}");
    let last = tables.rsplit("--name followed-*, ").next().unwrap();
    assert!(last.contains(&second.pid().to_string()), "{tables}");
}
