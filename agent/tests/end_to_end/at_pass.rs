//! Threads that run at a pass over the threads: it has them sampled at that moment.

use std::{fs, thread, time::Duration};

use agent::testing::{
    bpf::{Bpf, LoadOptions, Visits},
    profile::{CPU, RecordedExceptions},
};
use agent_common::{counter::Counter, maps::Children};
use rustix::thread::{CpuSet, sched_getaffinity};

use super::{
    abilities::has_fair_gil,
    folded::names,
    gil::captured,
    machine,
    target::{Target, mortal},
    waiting::ratio,
};

/// Most of these threads end before the clock of CPU time samples them. What they do while others wait for the GIL is
/// known all the same, and of what part of it there is more.
#[test]
fn threads_that_live_shortly_are_blamed_for_what_they_do() {
    let _machine = machine::alone();
    machine::for_each_kind_in_turn_that(has_fair_gil, |interpreter| {
        let target = Target::start(interpreter, "short_lived_threads");
        let [elapsed, blamed, held] = captured(target.pid(), "--idle -d 5");
        let unseen = "[incomplete: the thread was not sampled]";
        let time = |name: &str| blamed.count(|stack| names(stack).contains(&name));
        let held = |name: &str| held.count(|stack| names(stack).contains(&name));
        let shares = [
            ratio(held("first"), held("first") + held("second")),
            ratio(time("first") + time("second"), blamed.total()),
            ratio(time(unseen), blamed.total()),
            ratio(
                elapsed.count(|stack| names(stack).contains(&unseen)),
                elapsed.total(),
            ),
        ];
        println!("{}: {shares:.3?}", interpreter.name);
        let [first, known, unseen, unseen_of_elapsed] = shares;
        // Where others have the processors, a thread waits for one after some milliseconds, and is in `second` then.
        assert!((0.1..0.35).contains(&first), "{first}");
        assert!(known > 0.5, "{known}");
        assert!(unseen < 0.2, "{unseen}");
        assert!(unseen_of_elapsed < 0.05, "{unseen_of_elapsed}");
    });
}

/// A clock that a pass turns on is off soon after, also where the processor rests, and gives one sample where it runs
/// something.
#[test]
fn a_clock_gives_one_sample_and_is_off_again() {
    let _machine = machine::alone();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let _entered = runtime.enter();
    let mut bpf = Bpf::load(&LoadOptions {
        kinds: vec![&CPU],
        period: Duration::from_millis(10),
        hash_seed: 1,
        with_native: false,
        with_stack_copies: false,
        whole_host: false,
        with_appeared: false,
        visits: Visits::OfAll,
        with_loops: false,
        lock_releases: false,
        switches: None,
        exceptions: RecordedExceptions::default(),
    })
    .unwrap();
    let mut clocks = bpf.take_pass_maps().unwrap().clocks.unwrap();
    let cpus = cpus();
    let rounds = 20;
    let pause = Duration::from_millis(20);

    // The processors rest, but for the one of this thread.
    let mut interrupts_with = |cpus: &[u32]| {
        let before = interrupts();
        for _ in 0..rounds {
            clocks.sample(cpus);
            thread::sleep(pause);
        }
        interrupts() - before
    };
    let without = interrupts_with(&[]);
    let with = interrupts_with(&cpus);
    println!("{without} interrupts, {with} with clocks");
    // A clock that stays on has two thousand in each pause.
    let most = rounds * 200 * cpus.len() as u64;
    assert!(with < without + most, "{with} after {without}");

    let busy: Vec<_> = cpus.iter().map(|cpu| burner(*cpu)).collect();
    for process in &busy {
        bpf.add_process(process.pid(), None, Children::NONE)
            .unwrap();
    }
    let samples = || bpf.counter(Counter::PASS_SAMPLES).unwrap();
    let before = samples();
    for _ in 0..rounds {
        clocks.sample(&cpus);
        thread::sleep(pause);
    }
    // The burners share the processors with this thread, and with whatever else runs.
    let taken = samples() - before;
    let most = rounds * cpus.len() as u64;
    println!("{taken} samples of {most}");
    assert!(taken <= most && taken * 8 >= most, "{taken} of {most}");
}

/// A process that computes on one processor.
fn burner(cpu: u32) -> Target {
    let mut command = mortal("taskset");
    let script = "echo ready; while :; do :; done";
    command.args(["-c", &cpu.to_string(), "sh", "-c", script]);
    Target::from_command(command)
}

/// The processors that this thread may use.
fn cpus() -> Vec<u32> {
    let usable = sched_getaffinity(None).unwrap();
    let numbers = (0..CpuSet::MAX_CPU).filter(|cpu| usable.is_set(*cpu));
    numbers.map(|cpu| cpu.try_into().unwrap()).collect()
}

/// Interrupts of all processors since the start.
fn interrupts() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let mut lines = stat.lines();
    let total = lines.find_map(|line| line.strip_prefix("intr ")).unwrap();
    total.split(' ').next().unwrap().parse().unwrap()
}
