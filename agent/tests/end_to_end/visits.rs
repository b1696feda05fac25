//! Passes over the threads: each thread of the profiled processes is visited once, and no other one.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use agent::testing::{
    bpf::{Bpf, LoadOptions, PassMaps, Visited, Visits},
    profile::{CPU, RecordedExceptions},
};
use agent_common::maps::Children;
use test_support::child;

use super::{machine, target::Target};

/// Threads of a process, more than one run of a program visits.
const MANY: usize = 2_500;

fn load(visits: Visits, with_loops: bool) -> Bpf {
    Bpf::load(&LoadOptions {
        kinds: vec![&CPU],
        period: Duration::from_millis(10),
        hash_seed: 1,
        with_native: true,
        with_stack_copies: false,
        whole_host: false,
        with_appeared: false,
        visits,
        with_loops,
        lock_releases: false,
        switches: None,
        exceptions: RecordedExceptions::default(),
    })
    .unwrap()
}

/// A process with so many threads that wait, besides the first one.
fn start(threads: usize) -> Target {
    let interpreter = machine::one_interpreter();
    Target::start_with(interpreter, "ending_threads", &[threads.to_string()])
}

/// The threads of processes, sorted.
fn threads(processes: &[&Target]) -> Vec<u32> {
    let threads = processes.iter().flat_map(|process| {
        let threads = fs::read_dir(format!("/proc/{}/task", process.pid())).unwrap();
        threads.map(|thread| thread.unwrap().file_name())
    });
    sorted(
        threads
            .map(|tid| tid.to_str().unwrap().parse().unwrap())
            .collect(),
    )
}

/// The threads that a pass visits, sorted.
fn visited(maps: &mut PassMaps) -> Vec<u32> {
    sorted(
        maps.visits
            .visit_all()
            .unwrap()
            .map(|it| tid(&it))
            .collect(),
    )
}

fn tid(visited: &Visited<'_>) -> u32 {
    match visited {
        Visited::Resting { tid, .. } => *tid,
        Visited::Seen(visit) => visit.head.tid,
    }
}

fn sorted(mut threads: Vec<u32>) -> Vec<u32> {
    threads.sort_unstable();
    threads
}

/// Whether programs loop over tasks: since Linux 6.8.
fn has_loops() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|it| it.parse().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(8))
}

#[test]
fn each_thread_of_the_profiled_processes_is_visited_once() {
    let _machine = machine::shared();
    for with_loops in [true, false] {
        assert_each_is_visited_once(with_loops);
    }
}

fn assert_each_is_visited_once(with_loops: bool) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let _entered = runtime.enter();
    let (many, few, excluded, unknown) = (start(MANY), start(3), start(3), start(3));

    let mut bpf = load(Visits::OfAll, with_loops);
    for process in [&many, &few, &excluded] {
        bpf.add_process(process.pid(), None, Children::NONE)
            .unwrap();
    }
    bpf.set_excluded(excluded.pid(), true).unwrap();
    let mut maps = bpf.take_pass_maps().unwrap();
    assert_eq!(maps.visits.finds_noted(), with_loops && has_loops());
    let expected = threads(&[&many, &few]);
    assert_eq!(expected.len(), MANY + 3 + 2);
    assert!(!expected.contains(&unknown.pid()));
    // With all that is recorded of a thread, and with little.
    assert_eq!(visited(&mut maps), expected);
    maps.visits.begin_chunk().unwrap();
    let visits: Vec<_> = maps.visits.visit_all().unwrap().collect();
    let heads: Vec<_> = visits
        .into_iter()
        .map(|visited| match visited {
            Visited::Seen(visit) => {
                assert!(visit.details.is_some());
                visit.head
            }
            Visited::Resting { tid, .. } => panic!("{tid} was not noted"),
        })
        .collect();
    // All but one in three.
    let noted: Vec<_> = heads.iter().filter(|head| head.tid % 3 != 0).collect();
    for head in &noted {
        assert!(maps.visits.note(head).unwrap());
    }
    let again = maps
        .visits
        .visit_noted()
        .unwrap()
        .map(|visit| visit.head.tid);
    let again = sorted(again.collect());
    assert_eq!(again, sorted(noted.iter().map(|head| head.tid).collect()));
    let mut resting = 0;
    let visited_again: Vec<u32> = maps
        .visits
        .visit_all()
        .unwrap()
        .map(|visited| {
            resting += usize::from(matches!(visited, Visited::Resting { .. }));
            tid(&visited)
        })
        .collect();
    assert_eq!(resting, noted.len());
    assert_eq!(sorted(visited_again), expected);
    // All rest: as many visits in a run as there may be.
    for head in &heads {
        assert!(maps.visits.note(head).unwrap());
    }
    let resting = maps.visits.visit_all().unwrap();
    let resting = resting.filter(|it| matches!(it, Visited::Resting { .. }));
    assert_eq!(sorted(resting.map(|it| tid(&it)).collect()), expected);

    let mut bpf = load(Visits::OfProcess(many.pid()), with_loops);
    for process in [&many, &few] {
        bpf.add_process(process.pid(), None, Children::NONE)
            .unwrap();
    }
    let mut maps = bpf.take_pass_maps().unwrap();
    assert_eq!(visited(&mut maps), threads(&[&many]));
}

#[test]
fn a_pass_goes_on_where_a_run_has_ended() {
    let _machine = machine::shared();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let _entered = runtime.enter();
    let (first, mut second, third) = (start(7), start(200), start(5));
    let mut bpf = load(Visits::OfAll, true);
    for process in [&first, &second, &third] {
        bpf.add_process(process.pid(), None, Children::NONE)
            .unwrap();
    }
    let mut maps = bpf.take_pass_maps().unwrap();
    let all = threads(&[&first, &second, &third]);
    // It ends at each thread, also the first and the last one of a process.
    for visits in [1, 2, 3, 7] {
        let mut runs = 0;
        let found = maps.visits.visit_all_in_runs(visits, |_| runs += 1);
        assert_eq!(sorted(found.unwrap().map(|it| tid(&it)).collect()), all);
        assert_eq!(runs > 200 / visits, has_loops(), "{runs} runs");
    }
    // Each thread ends after the run that has visited it.
    let pid = second.pid();
    let own = threads(&[&second]);
    let mut ended = BTreeSet::new();
    let found = maps.visits.visit_all_in_runs(1, |last| {
        if last != pid && own.contains(&last) && ended.insert(last) {
            second.send_line(&last.to_string());
            assert_eq!(second.read_line(), "ended");
            let thread = format!("/proc/{pid}/task/{last}");
            child::wait_until("the thread has ended", || !Path::new(&thread).exists());
        }
    });
    assert_eq!(sorted(found.unwrap().map(|it| tid(&it)).collect()), all);
    // The kernel's own iterator goes on by ids, in one run.
    assert_eq!(ended.len(), if has_loops() { 200 } else { 0 });
    assert_eq!(visited(&mut maps), threads(&[&first, &second, &third]));
}
