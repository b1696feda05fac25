//! The kind *tasks*: what the tasks of asyncio do, whether they run or wait.

use std::{collections::HashMap, time::Duration};

use xtask::interpreters::Interpreter;

use super::{
    abilities::has_tasks,
    capture::Capture,
    host::Host,
    machine,
    pprof::{self, Profile, Sample},
    target::Target,
};

/// A profile, and what the program says of a little more time.
struct Profiled {
    profile: Profile,
    messages: String,
    /// Seconds of tasks by their kinds, and of all of that time.
    said: HashMap<String, f64>,
}

impl Profiled {
    /// Of a program with so many tasks that sleep, wait for an event, wait for an item of a queue, and live for a short time.
    fn of(interpreter: &Interpreter, tasks: [u32; 4], options: &str) -> Self {
        let tasks = tasks.map(|count| count.to_string());
        let mut target = Target::start_with(interpreter, "task_time", &tasks);
        let pid = target.pid().to_string();
        let options = options.split_whitespace();
        let arguments = "--event tasks --duration 5 --output - --format pprof --pid".split(' ');
        let arguments: Vec<_> = arguments.chain([&*pid]).chain(options).collect();
        let capture = Capture::run(&arguments);
        target.send_line("");
        let said = serde_json::from_str(&target.read_line()).unwrap();
        Self {
            messages: capture.messages.clone(),
            profile: capture.into_pprof_of("tasks"),
            said,
        }
    }

    /// Tasks whose samples are such ones, on average.
    fn tasks(&self, is_such: impl Fn(&Sample) -> bool) -> f64 {
        let samples = self.profile.samples.iter().filter(|it| is_such(it));
        let time: Duration = samples.map(|it| it.time).sum();
        time.as_secs_f64() / self.profile.duration.as_secs_f64()
    }

    /// What the program says of that.
    fn said(&self, kind: &str) -> f64 {
        self.said[kind] / self.said["all"]
    }
}

/// The functions and markers of a sample, the outermost first.
fn names(sample: &Sample) -> Vec<&str> {
    let frames = sample.thread.stack.iter();
    frames.map(|frame| &*frame.name).collect()
}

fn assert_near(found: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (found / expected - 1.0).abs();
    println!("{what}: {found:.3} of {expected:.3}");
    assert!(error < tolerance, "{what}: {found} of {expected}");
}

/// Each has all of the elapsed time, with the whole stack of its coroutines.
#[test]
fn each_task_has_its_elapsed_time() {
    let _machine = machine::alone();
    machine::for_each_that(has_tasks, |interpreter| {
        let profiled = Profiled::of(interpreter, [30, 10, 4, 0], "--idle");
        let name = &interpreter.name;
        let sleeping = |sample: &Sample| {
            let stack = ["sleeper", "sleep_inside", "sleep", "[waiting: await]"];
            names(sample).ends_with(&stack)
        };
        assert_near(profiled.tasks(sleeping), 30.0, 0.03, name);
        let waiting = |sample: &Sample| {
            let names = names(sample);
            names.contains(&"waiter") && names.ends_with(&["[waiting: await]"])
        };
        assert_near(profiled.tasks(waiting), 10.0, 0.03, name);
        let idle = |sample: &Sample| {
            let names = names(sample);
            names.contains(&"getter") && names.contains(&"[idle]")
        };
        assert_near(profiled.tasks(idle), 4.0, 0.03, name);
    });
}

/// Tasks that compute, also those that start at once in another one, and one that could run and waits for its loop meanwhile.
#[test]
fn tasks_run_and_wait_for_their_loop_as_long_as_they_say() {
    let _machine = machine::alone();
    machine::for_each_kind_that(has_tasks, |interpreter| {
        let profiled = Profiled::of(interpreter, [0; 4], "");
        let name = &interpreter.name;
        let runs = |functions: &[&str]| {
            profiled.tasks(|sample| {
                let names = names(sample);
                let is_waiting = names.iter().any(|name| name.starts_with("[waiting"));
                !is_waiting && functions.iter().all(|function| names.contains(function))
            })
        };
        // Of a hundred passes a quarter sees each of them run.
        assert_near(runs(&["busy"]), profiled.said("busy"), 0.5, name);
        // A task that has another one start at once has not ended its own step.
        let said = profiled.said("eager_child");
        assert_near(runs(&["eager_parent", "eager_child"]), said, 0.5, name);
        let of_child = runs(&["eager_child"]) - runs(&["eager_parent", "eager_child"]);
        assert_near(of_child, said, 0.5, name);
        let is_late = |sample: &Sample| {
            let names = names(sample);
            names.contains(&"late_one") && names.ends_with(&["[waiting: event loop]"])
        };
        assert_near(profiled.tasks(is_late), profiled.said("late"), 0.4, name);
    });
}

/// Tasks that live for milliseconds have all of their time, with a stack or without, also among thousands of others: where
/// there are more than are read at a time, those stand for the others.
#[test]
fn short_lived_tasks_and_thousands_have_all_of_their_time() {
    let _machine = machine::alone();
    machine::for_each_kind_that(has_tasks, |interpreter| {
        let name = &interpreter.name;
        for (sleepers, waiters) in [(0, 0), (3000, 1000), (11_000, 1000)] {
            let profiled = Profiled::of(interpreter, [sleepers, waiters, 0, 40], "");
            println!("{}", profiled.messages);
            let of = |function: &str| profiled.tasks(|it| names(it).contains(&function));
            if sleepers != 0 {
                assert_near(of("sleeper"), f64::from(sleepers), 0.1, name);
                let samples = profiled.profile.samples.iter();
                let samples = samples.filter(|it| names(it).contains(&"waiter"));
                let samples: u64 = samples.map(|it| it.count).sum();
                // Five standard deviations, which are about twice those of independent, equal samples, as measured.
                let tolerance = 11.0 / f64::from(u32::try_from(samples).unwrap()).sqrt();
                assert!(tolerance < 0.4, "{name}: {samples}");
                assert_near(of("waiter"), f64::from(waiters), tolerance, name);
                // There are too few samples of the others.
                continue;
            }
            // Some had ended before their stacks were read.
            let no_stack = profiled.tasks(|it| {
                let names = names(it);
                names.iter().all(|name| name.starts_with('['))
            });
            let short = of("short_lived") + no_stack;
            assert_near(short, profiled.said("short_lived"), 0.1, name);
            println!("{no_stack}");
            assert!(no_stack < short / 10.0, "{no_stack}");
        }
    });
}

/// Where there is no asyncio, or a Python that says nothing of its tasks, that is said.
#[test]
fn a_process_without_tasks_has_no_profile_of_them() {
    let _machine = machine::shared();
    machine::for_each_that(
        |interpreter| !has_tasks(interpreter),
        |interpreter| {
            let target = Target::start(interpreter, "busy");
            let pid = target.pid().to_string();
            let arguments = ["--pid", &pid, "--event", "tasks", "-d", "500ms", "-o", "-"];
            let messages = Capture::run(&arguments).messages;
            println!("{}: {messages}", interpreter.name);
            assert!(
                messages.contains("3.14"),
                "{}: {messages}",
                interpreter.name
            );
        },
    );
}

/// Of a process of a host that has begun, and imported asyncio, while nothing else is sampled.
#[test]
fn a_host_has_profiles_of_tasks_alone() {
    let _machine = machine::alone();
    let host = Host::start("events: [tasks]");
    machine::for_each_kind_in_turn_that(has_tasks, |interpreter| {
        let tasks = ["20", "5", "0", "0"].map(str::to_owned);
        let _target = Target::start_with(interpreter, "task_time", &tasks);
        // It is examined within that time, and again when it has imported asyncio.
        host.get("/debug/pprof/profile?seconds=2&event=tasks");
        let profile = host.get("/debug/pprof/profile?seconds=4&event=tasks");
        let profiled = Profiled {
            profile: pprof::read_times(&profile, "tasks"),
            messages: String::new(),
            said: HashMap::new(),
        };
        let sleeper = |sample: &Sample| names(sample).contains(&"sleeper");
        assert_near(profiled.tasks(sleeper), 20.0, 0.08, &interpreter.name);
    });
    host.stop();
}
