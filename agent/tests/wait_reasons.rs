//! What threads wait for, on interpreters of every layout: a program has a thread for each way to wait, and the
//! registers of each are looked at as a pass over the threads does, by way of `/proc`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use agent::testing::{
    process::Process,
    python::{Detector, Interpreter},
    threads::reason::{Abi, SystemCall, ThreadAtRest, descriptors::FileKinds, reason},
};
use agent_common::record::WaitReason;
use test_support::child;
use xtask::interpreters;

/// The program of the interpreters; documented there.
const PROGRAM: &str = include_str!("data/waits.py");

/// How long the threads are looked at, at least.
const DURATION: Duration = Duration::from_secs(1);

/// The same, at most: threads that want the GIL seldom keep still in 2.7, which hands it over after a few
/// microseconds.
const MOST: Duration = Duration::from_secs(60);

/// Between two looks at all threads: no divisor of the 5 ms after which a thread asks for the GIL.
const PAUSE: Duration = Duration::from_micros(3300);

/// The same, when only threads that want the GIL are still looked at.
const SHORT_PAUSE: Duration = Duration::from_micros(130);

/// The threads that want a GIL: those of the main interpreter, and those that share one of their own.
const GIL_GROUPS: [[&str; 2]; 2] = [["spin_1", "spin_2"], ["own_gil_1", "own_gil_2"]];

/// Least looks at each thread that waits for ever.
const LEAST_LOOKS: usize = 50;

/// Least looks at the threads that want the GIL in which one waits for it.
const LEAST_GIL_LOOKS: usize = 20;

/// What the threads of the program wait for, by name; all others want the GIL.
const EXPECTED: [(WaitReason, &[&str]); 9] = [
    (
        WaitReason::LOCK,
        &[
            "lock_acquire",
            "lock_acquire_with_time_limit",
            "rlock_acquire",
            "queue_get",
            "queue_get_with_time_limit",
            "condition_wait",
            "condition_wait_with_time_limit",
            "event_wait",
            "event_wait_with_time_limit",
            "thread_join",
            "file_lock",
            "record_lock",
        ],
    ),
    (
        WaitReason::SLEEP,
        &["time_sleep", "select_nothing", "poll_nothing"],
    ),
    (
        WaitReason::POLL,
        &[
            "select_pipe",
            "select_pipe_with_time_limit",
            "poll_pipe",
            "epoll_pipe",
        ],
    ),
    (
        WaitReason::SOCKET,
        &["socket_receive", "socket_read", "socket_accept"],
    ),
    (WaitReason::PIPE, &["pipe_read", "terminal_read", "main"]),
    (WaitReason::CHILD, &["child_wait"]),
    (WaitReason::FILE, &["open_named_pipe"]),
    (WaitReason::GIL, &GIL_GROUPS[0]),
    (WaitReason::GIL, &GIL_GROUPS[1]),
];

#[test]
fn every_thread_waits_for_what_its_program_says() {
    for interpreter in interpreters::few().unwrap() {
        let (mut child, threads) = start(&interpreter);
        let process = Process::open(child.id()).unwrap();
        let python = Detector::default().detect(&process).unwrap();
        let looks = look(&process, &python, &threads);
        let count = |reason| looks.iter().filter(|look| look.1 == reason).count();
        println!(
            "{interpreter}: {} threads, {} looks, {} at waits for the GIL",
            threads.len(),
            looks.len(),
            count(WaitReason::GIL),
        );
        // Own GILs exist from 3.12 on.
        let groups = if (interpreter.major, interpreter.minor) < (3, 12) {
            &EXPECTED[..8]
        } else {
            &EXPECTED
        };
        // Words of condition variables are elsewhere with musl.
        let has_musl = interpreter.name.ends_with("-musl");
        for (expected, names) in groups {
            let is_gil = *expected == WaitReason::GIL;
            let expected = if is_gil && has_musl {
                WaitReason::LOCK
            } else {
                *expected
            };
            let mut of_group = 0;
            for name in *names {
                let Some(tid) = threads.get(*name) else {
                    assert!(
                        interpreter.major == 2 && name.ends_with("with_time_limit"),
                        "{interpreter}: no {name}"
                    );
                    continue;
                };
                let of_thread = looks.iter().filter(|(looked, _)| looked == tid);
                let (right, mut wrong): (Vec<_>, Vec<_>) =
                    of_thread.partition(|(_, reason)| *reason == expected);
                // With musl the mutexes are recognized.
                wrong.retain(|(_, reason)| !(has_musl && is_gil && *reason == WaitReason::GIL));
                assert!(wrong.is_empty(), "{interpreter}: {name}: {wrong:?}");
                if !is_gil {
                    let looks = right.len();
                    assert!(looks >= LEAST_LOOKS, "{interpreter}: {name}: {looks} looks");
                }
                of_group += right.len();
            }
            assert!(
                of_group >= LEAST_GIL_LOOKS,
                "{interpreter}: {names:?}: {of_group} looks"
            );
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

/// Starts the program and waits until all its threads wait; also gives their IDs by name.
fn start(interpreter: &interpreters::Interpreter) -> (Child, BTreeMap<String, u32>) {
    let mut child = child::start(
        Command::new(&interpreter.path)
            .args(["-s", "-W", "ignore", "-c", PROGRAM])
            // Free-threaded builds have the GIL only when it is enabled.
            .env("PYTHON_GIL", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut threads = BTreeMap::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !threads.contains_key("main") {
        let line = lines.next().unwrap().unwrap();
        let (name, thread) = line.split_once(' ').unwrap();
        threads.insert(name.to_owned(), thread.parse().unwrap());
    }
    thread::sleep(Duration::from_millis(200));
    (child, threads)
}

/// Looks at all threads again and again, and then at those that want the GIL until there are enough looks at
/// them; each look is a thread ID and a reason. A thread that ran or changed its system call meanwhile is left
/// out.
fn look(
    process: &Process,
    python: &Interpreter,
    threads: &BTreeMap<String, u32>,
) -> Vec<(u32, WaitReason)> {
    let mut kinds = FileKinds::open(process).unwrap();
    let mut looks: Vec<(u32, WaitReason)> = Vec::new();
    let all: Vec<u32> = threads.values().copied().collect();
    let groups = GIL_GROUPS.map(|names| names.map(|name| threads.get(name).copied()));
    let start = Instant::now();
    loop {
        let elapsed = start.elapsed();
        let (tids, pause) = if elapsed < DURATION {
            (all.clone(), PAUSE)
        } else {
            let rare = groups.iter().filter(|group| {
                let of_group = looks.iter().filter(|look| group.contains(&Some(look.0)));
                of_group.count() < LEAST_GIL_LOOKS
            });
            (rare.flatten().flatten().copied().collect(), SHORT_PAUSE)
        };
        if tids.is_empty() || elapsed >= MOST {
            return looks;
        }
        kinds.begin_pass();
        let gil = python.gil.words(process.memory().unwrap());
        assert!(!gil.is_empty());
        for tid in tids {
            let thread = Thread(PathBuf::from(format!("/proc/{}/task/{tid}", process.pid())));
            let before = thread.system_call();
            let is_waiting = thread.is_interruptible();
            if before != thread.system_call() || !is_waiting {
                continue;
            }
            let Some(thread) = parse(&before) else {
                continue;
            };
            looks.push((tid, reason(&thread, |fd| kinds.kind(fd), Some(&gil))));
        }
        thread::sleep(pause);
    }
}

/// The directory of a thread.
struct Thread(PathBuf);

impl Thread {
    fn system_call(&self) -> String {
        fs::read_to_string(self.0.join("syscall")).unwrap()
    }

    fn is_interruptible(&self) -> bool {
        let stat = fs::read_to_string(self.0.join("stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    }
}

/// Reads `/proc/PID/task/TID/syscall`: the number, the arguments, the stack pointer and the program
/// counter, or only the word `running`.
fn parse(text: &str) -> Option<ThreadAtRest> {
    let mut words = text.split_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some(ThreadAtRest {
        system_call: Some(SystemCall {
            abi: if cfg!(target_arch = "aarch64") {
                Abi::Aarch64
            } else {
                Abi::X86_64
            },
            number: u32::try_from(number).ok()?,
            arguments,
        }),
        uninterruptible: false,
        runnable: false,
    })
}
