//! Events of processes in every order, and what they lead to.

use super::{
    Discovery, Examination, FIRST_PAUSE, LONGEST_PAUSE, MAX_EARLY, MAX_LATE, Step, Validity,
};
use crate::{profile, targets::examiner::Examiner};
use agent_common::record::{Header, ProcessEvent, ProcessEventKind, RecordKind};
use std::{
    process::id,
    time::{Duration, Instant},
};

fn event(kind: ProcessEventKind, tgid: u32, parent: u32) -> ProcessEvent {
    ProcessEvent {
        header: Header {
            kind: RecordKind::PROCESS_EVENT,
            reserved: 0,
            bytes: 32,
        },
        time_ns: 0,
        tgid,
        parent,
        kind,
        reserved: 0,
    }
}

fn examination(step: Option<&Step>) -> Option<Examination> {
    match step {
        Some(Step::Examine(examination)) => Some(*examination),
        _ => None,
    }
}

/// Examines a process, as another thread would.
fn examine(discovery: &mut Discovery, examination: &Examination) -> Validity {
    let examiner = Examiner::default();
    let result = examiner.examine(examination.pid, examination.parent);
    discovery.end(examination, &result)
}

fn add(discovery: &mut Discovery, pid: u32) {
    let examination = discovery.begin(pid, None).unwrap();
    assert_eq!(examine(discovery, &examination), Validity::Present);
}

#[test]
fn a_copy_is_what_its_parent_is() {
    let mut discovery = Discovery::default();
    add(&mut discovery, id());
    let forked = event(ProcessEventKind::FORKED, u32::MAX, id());
    let Some(Step::Copy(process)) = discovery.on_event(&forked) else {
        panic!("no copy");
    };
    assert_eq!(process.pid, u32::MAX);
    assert_eq!(process.parent, Some(id()));
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(process.name, name.trim_end());
}

#[test]
fn what_is_forked_during_an_examination_inherits_its_result() {
    let [child, grandchild, executed, gone] = [u32::MAX, u32::MAX - 1, u32::MAX - 2, u32::MAX - 3];
    let mut discovery = Discovery::default();
    discovery.add_unstarted(id());
    let examination = discovery.begin(id(), None).unwrap();
    for (pid, parent) in [
        (child, id()),
        (grandchild, child),
        (executed, id()),
        (gone, id()),
    ] {
        let forked = event(ProcessEventKind::FORKED, pid, parent);
        assert!(matches!(discovery.on_event(&forked), Some(Step::Copy(it)) if it.name.is_empty()));
    }
    discovery.on_event(&event(ProcessEventKind::EXECUTED, executed, 0));
    discovery.on_event(&event(ProcessEventKind::EXITED, gone, 0));
    assert_eq!(examine(&mut discovery, &examination), Validity::Present);
    let heirs = discovery.inherit(&examination);
    let found: Vec<_> = heirs.iter().map(|heir| (heir.pid, heir.parent)).collect();
    assert_eq!(found, [(child, Some(id())), (grandchild, Some(child))]);
    assert!(heirs.iter().all(|heir| !heir.name.is_empty()));
    assert!(discovery.inherit(&examination).is_empty());
}

#[test]
fn what_maps_code_again_and_again_is_examined_in_pauses() {
    let mut discovery = Discovery::default();
    add(&mut discovery, id());
    let mapped = event(ProcessEventKind::MAPPED, id(), 0);
    for _ in 0..12 {
        let begun = examination(discovery.on_event(&mapped).as_ref()).or_else(|| {
            let due = discovery.next_due().unwrap();
            discovery.begin_due(due)
        });
        examine(&mut discovery, &begun.unwrap());
    }
    assert!(discovery.on_event(&mapped).is_none());
    let due = discovery.next_due().unwrap();
    assert!(due <= Instant::now() + LONGEST_PAUSE);
}

/// Nothing is sampled of a process that waits for probes in an interpreter which it has not mapped yet.
#[test]
fn a_program_that_was_just_executed_is_examined_again_for_a_while() {
    let executed = event(ProcessEventKind::EXECUTED, id(), 0);
    let examinations = |discovery: &mut Discovery| {
        let step = discovery.on_event(&executed);
        let far = Instant::now() + Duration::from_secs(60);
        let first = examination(step.as_ref()).or_else(|| discovery.begin_due(far));
        let mut next = first;
        let mut count = 0;
        while let Some(begun) = next {
            assert_eq!(examine(discovery, &begun), Validity::Present);
            count += 1;
            assert!(count < 100);
            next = discovery.begin_due(far);
        }
        count
    };
    let mut discovery = Discovery::default();
    add(&mut discovery, id());
    assert!(discovery.next_due().is_none());
    assert_eq!(examinations(&mut discovery), 1 + MAX_EARLY + MAX_LATE);
    // Another program.
    assert_eq!(examinations(&mut discovery), 1 + MAX_EARLY + MAX_LATE);
    // What is noticed of it is examined as soon as ever.
    discovery.on_event(&event(ProcessEventKind::MAPPED, id(), 0));
    let soon = Instant::now() + 4 * FIRST_PAUSE;
    let due = discovery.next_due();
    assert!(due.is_none_or(|due| due <= soon));
    let mut host = Discovery::delayed(LONGEST_PAUSE);
    assert_eq!(examinations(&mut host), 1);
}

#[test]
fn a_process_that_is_gone_is_not_examined_again() {
    let mut discovery = Discovery::default();
    discovery.insert(profile::Process {
        pid: u32::MAX,
        ..profile::Process::default()
    });
    discovery.set_due(u32::MAX, Some(Instant::now()));
    let begun = discovery.begin_due(Instant::now()).unwrap();
    examine(&mut discovery, &begun);
    assert_eq!(discovery.next_due(), None);
    let exited = event(ProcessEventKind::EXITED, u32::MAX, 0);
    assert!(discovery.on_event(&exited).is_none());
    assert!(discovery.known.is_empty());
}

#[test]
fn with_delay_a_program_is_examined_when_it_is_sampled_or_has_run_for_a_while() {
    let mut discovery = Discovery::delayed(Duration::from_secs(60));
    let executed = event(ProcessEventKind::EXECUTED, id(), 0);
    assert!(discovery.on_event(&executed).is_none());
    assert!(discovery.begin_due(Instant::now()).is_none());
    let due = discovery.next_due().unwrap();
    let begun = discovery.begin_due(due).unwrap();
    examine(&mut discovery, &begun);
    assert!(discovery.on_event(&executed).is_none());
    let mapped = event(ProcessEventKind::MAPPED, id(), 0);
    assert!(examination(discovery.on_event(&mapped).as_ref()).is_some());
    assert_eq!(discovery.next_due(), None);
}

#[test]
fn a_process_has_one_examination_at_a_time() {
    let mut discovery = Discovery::default();
    let first = discovery.begin(id(), None).unwrap();
    assert_eq!(discovery.begin(id(), None), None);
    assert_eq!(examine(&mut discovery, &first), Validity::Present);
    let due = discovery.next_due().unwrap();
    let second = discovery.begin_due(due).unwrap();
    assert_eq!(examine(&mut discovery, &second), Validity::Present);
    assert_eq!(discovery.next_due(), None);
}

#[test]
fn a_finding_of_the_program_before_is_void_and_of_an_exited_process_past() {
    let mut discovery = Discovery::default();
    let before = discovery.begin(id(), None).unwrap();
    let executed = event(ProcessEventKind::EXECUTED, id(), 0);
    let after = examination(discovery.on_event(&executed).as_ref()).unwrap();
    assert_eq!(examine(&mut discovery, &before), Validity::Void);
    let exited = event(ProcessEventKind::EXITED, id(), 0);
    assert!(discovery.on_event(&exited).is_none());
    assert_eq!(examine(&mut discovery, &after), Validity::Past);
}

#[test]
fn a_process_that_is_sampled_after_its_end_is_not_kept() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let mut discovery = Discovery::default();
    discovery.add_unstarted(pid);
    discovery.on_event(&event(ProcessEventKind::EXITED, pid, 0));
    let step = discovery.on_event(&event(ProcessEventKind::MAPPED, pid, 0));
    let begun = examination(step.as_ref()).unwrap();
    examine(&mut discovery, &begun);
    assert!(!discovery.is_known(pid));
}
