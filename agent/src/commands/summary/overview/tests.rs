use super::{fitting, lines, processes_line};
use crate::profile::{
    Kind, Profile, Sample, Thread, ThreadIndex,
    fixtures::{example_processes, example_profile, of_kind, with_waits},
    kinds::{
        copy_on_write, exceptions, gil, gil_held, growth, lock, lock_release, off_cpu, page_faults,
        wall,
    },
};

/// The lines, each with its first word and the rest.
fn overview(profile: &Profile) -> Vec<(String, String)> {
    let lines = lines(&profile.without_interpreters(), 200);
    let lines = lines.iter().map(|line| line.split_once(' ').unwrap());
    lines
        .map(|(label, text)| (label.to_owned(), text.trim_start().to_owned()))
        .collect()
}

/// The line with a label.
fn line(profile: &Profile, label: &str) -> Option<String> {
    let lines = overview(profile).into_iter();
    let mut lines = lines.filter(|(found, _)| found == label);
    let line = lines.next().map(|(_, text)| text);
    assert_eq!(lines.next(), None);
    line
}

#[test]
fn cpu_time_is_a_share_of_a_core_and_of_kinds_of_code() {
    let profile = with_waits(example_profile("/srv/app/main.py"), &[(0, "[gc]")]);
    assert_eq!(
        line(&profile, "CPU").as_deref(),
        Some("40 % of a core (GC 30 %): Python 92 %, native 2 %, kernel 5 %, unknown 0.8 %")
    );
    assert_eq!(line(&profile, "waiting"), None);
}

#[test]
fn libraries_are_packages_and_files() {
    let profile = example_profile("/srv/app/main.py");
    let libraries = line(&profile, "libraries").unwrap();
    assert!(
        libraries.starts_with("/srv/app 53 %, json 38 %, [kernel] 5 %, x;y 2 %, [jit] 0.8 %, "),
        "{libraries}"
    );
}

/// The example as one of this kind, with markers above the stacks of samples.
fn marked(kind: &'static Kind, markers: &[(usize, &str)]) -> Profile {
    with_waits(of_kind(example_profile("/srv/app/main.py"), kind), markers)
}

#[test]
fn exceptions_have_their_classes_and_locks_their_names() {
    let profile = marked(
        &exceptions::KIND,
        &[(0, "[raises: KeyError]"), (1, "[raises: OutOfStock]")],
    );
    let raised = line(&profile, "raised").unwrap();
    assert!(raised.starts_with("KeyError "), "{raised}");
    assert!(raised.contains(" %, OutOfStock "), "{raised}");
    let markers = [(0, "[lock: Pool.jobs (Queue at 0x7f00)]")];
    let locks = line(&marked(&lock::KIND, &markers), "locks").unwrap();
    assert!(locks.starts_with("Pool.jobs (Queue at 0x7f00) "), "{locks}");
    assert_eq!(line(&marked(&wall::KIND, &markers), "locks"), None);
}

#[test]
fn memory_has_its_types_or_what_of_it_was_written_to() {
    let grown = marked(
        &growth::KIND,
        &[(0, "[anonymous memory]"), (1, "[file memory]")],
    );
    let memory = line(&grown, "memory").unwrap();
    assert!(memory.starts_with("anonymous "), "{memory}");
    assert!(memory.contains(" %, file "), "{memory}");
    let copied = marked(
        &copy_on_write::KIND,
        &[(0, "[reference count]"), (1, "[data]")],
    );
    let written = line(&copied, "written").unwrap();
    assert!(written.starts_with("reference count "), "{written}");
    assert!(written.contains(" %, data "), "{written}");
    assert_eq!(line(&copied, "memory"), None);
    let cpu = example_profile("/srv/app/main.py");
    assert_eq!((line(&cpu, "memory"), line(&cpu, "written")), (None, None));
}

#[test]
fn threads_have_their_shares() {
    let profile = example_profile("");
    let threads = line(&profile, "threads").unwrap();
    assert!(threads.starts_with("MainThread (4242) "), "{threads}");
    assert_eq!(threads.matches(", ").count(), 3, "{threads}");
    let mut profile = profile;
    for thread in &mut profile.threads {
        thread.tid = 0;
    }
    assert_eq!(line(&profile, "threads"), None);
}

#[test]
fn many_threads_with_similar_names_are_one() {
    let mut profile = example_profile("");
    let first = profile.threads[0].clone();
    let sample = profile.samples[0];
    profile.threads.clear();
    profile.samples.clear();
    for number in 0..10_u32 {
        profile.threads.push(Thread {
            tid: 5000 + number,
            name: format!("Thread-{number} (handle)"),
            ..first.clone()
        });
        profile.samples.push(Sample {
            thread: ThreadIndex(number),
            ..sample
        });
    }
    let threads = line(&profile, "threads");
    assert_eq!(threads.as_deref(), Some("10 of Thread-# (handle) 100 %"));
    let mut named = profile.clone();
    for thread in &mut named.threads {
        thread.name = "apache2".to_owned();
    }
    let threads = line(&named, "threads");
    assert_eq!(threads.as_deref(), Some("10 of apache2 100 %"));
    profile.samples.truncate(2);
    let threads = line(&profile, "threads").unwrap();
    assert!(
        threads.contains("Thread-1 (handle) (5001) 50 %"),
        "{threads}"
    );
}

#[test]
fn states_have_their_time_and_reasons_are_sorted_by_it() {
    let waits = [
        (0, "[runnable]"),
        (1, "[waiting: lock]"),
        (2, "[waiting: sleep]"),
        (3, "[waiting: sleep]"),
    ];
    let profile = with_waits(example_profile(""), &waits);
    let of = |kind| of_kind(profile.clone(), kind);
    let reasons = "2.00 s: runnable 1.20 s, sleep 0.50 s, lock 0.30 s";
    assert_eq!(line(&of(&wall::KIND), "waiting").as_deref(), Some(reasons));
    let running = line(&of(&wall::KIND), "running").unwrap();
    assert!(running.starts_with("2.00 s, 20 % of a core: "), "{running}");
    for kind in [&off_cpu::KIND, &lock::KIND, &gil::KIND] {
        assert_eq!(line(&of(kind), "waiting").as_deref(), Some(reasons));
    }
    // What threads did that released locks is no state of theirs.
    assert_eq!(line(&of(&lock_release::KIND), "waiting"), None);
}

#[test]
fn that_threads_were_stopped_is_said() {
    let profile = with_waits(example_profile(""), &[(0, "[stopped]")]);
    let stopped = line(&of_kind(profile, &wall::KIND), "waiting");
    assert_eq!(stopped.as_deref(), Some("1.20 s: stopped 1.20 s"));
}

#[test]
fn a_state_without_time_is_not_shown() {
    let mut profile = of_kind(example_profile(""), &wall::KIND);
    assert_eq!(line(&profile, "waiting"), None);
    profile.samples.truncate(1);
    let profile = with_waits(profile, &[(0, "[waiting: gil]")]);
    assert_eq!(line(&profile, "running"), None);
    assert_eq!(
        line(&profile, "waiting").as_deref(),
        Some("1.20 s: gil 1.20 s")
    );
}

#[test]
fn events_are_not_cpu_time() {
    let profile = of_kind(example_profile(""), &page_faults::KIND);
    let labels: Vec<_> = overview(&profile).into_iter().map(|it| it.0).collect();
    assert_eq!(labels, ["code", "libraries", "threads"]);
}

#[test]
fn the_gil_has_its_share_where_it_was_measured() {
    let mut profile = example_profile("");
    assert_eq!(line(&profile, "GIL"), None);
    profile.filtered_out.without_gil = 100;
    assert_eq!(
        line(&profile, "GIL").as_deref(),
        Some("held in 80 % of the samples")
    );
    let held = of_kind(example_profile(""), &gil_held::KIND);
    assert_eq!(line(&held, "GIL").as_deref(), Some("held 40 % of the time"));
}

#[test]
fn several_processes_are_a_line() {
    let processes = |profile| processes_line(&profile, 80);
    assert_eq!(
        processes(example_processes("")).as_deref(),
        Some("processes  python3.12 (4242) 77 %, python2.7 (4300) 21 %, #; s\\nh (4301) 1 %")
    );
    assert_eq!(processes(example_profile("")), None);
}

#[test]
fn as_many_parts_are_shown_as_fit() {
    let parts = ["first 50 %", "second 30 %", "third 20 %"].map(str::to_owned);
    assert_eq!(fitting(&parts, 40), "first 50 %, second 30 %, third 20 %");
    assert_eq!(fitting(&parts, 34), "first 50 %, second 30 %, 1 more");
    assert_eq!(fitting(&parts, 25), "first 50 %, 2 more");
    assert_eq!(fitting(&parts, 3), "first 50 %, 2 more");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let profile = example_profile("/srv/app/main.py");
    for width in [60, 80] {
        for line in lines(&profile.without_interpreters(), width) {
            assert!(line.chars().count() <= width, "{line}");
        }
    }
}
