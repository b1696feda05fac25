use std::process::id;

use agent_common::{
    layout::RunStyle,
    limits::{MAX_STACK_PAGES, STACK_PAGE_BYTES},
    python::PythonRuns,
    record::{Header, RecordKind},
};
use tokio::sync::mpsc::unbounded_channel;

use super::*;
use crate::{process::Process, threads::OutsideProcesses};

/// Stacks of this process, no code of which ever becomes known, or of one that has ended.
fn stacks() -> Stacks<impl FnMut(StackRest)> {
    let mut processes = OutsideProcesses::default();
    processes.add(Process::open(id()).unwrap(), None);
    let (requests, _) = unbounded_channel();
    let maps = Lookups::Outside(Arc::new(processes));
    let finish = |rest| panic!("{rest:?}");
    Stacks::new(maps, Arc::default(), requests, finish)
}

fn header(kind: RecordKind, bytes: usize) -> Header {
    Header {
        kind,
        reserved: 0,
        bytes: u32::try_from(bytes).unwrap(),
    }
}

fn position(number: u64, tgid: u32) -> UnfinishedStack {
    UnfinishedStack {
        header: header(RecordKind::UNFINISHED_STACK, size_of::<UnfinishedStack>()),
        stack: number,
        program: 0,
        tgid,
        python_depth: 0,
        status: NativeUnwindStatus::NO_TABLE,
        style: RunStyle::EACH,
        kept: 0,
        mappings_epoch: 0,
        position: NativeWalk::new().position,
        runs: PythonRuns::new(),
    }
}

fn add_pages(stacks: &mut Stacks<impl FnMut(StackRest)>, number: u64) {
    for page in 0..u64::from(MAX_STACK_PAGES) {
        stacks.add_page(&StackPage {
            header: header(RecordKind::STACK_PAGE, size_of::<StackPage>()),
            stack: number,
            address: page * STACK_PAGE_BYTES as u64,
            bytes: [0; STACK_PAGE_BYTES],
        });
    }
}

fn given_up(stacks: &Stacks<impl FnMut(StackRest)>) -> u64 {
    stacks.status.given_up.load(Ordering::Relaxed)
}

#[test]
fn what_waits_is_bounded_and_the_oldest_is_given_up() {
    let mut stacks = stacks();
    for number in 0..1000 {
        add_pages(&mut stacks, number);
        stacks.add(&position(number, id()));
        stacks.give_up();
        assert!(stacks.waiting_bytes <= MAX_WAITING_BYTES, "{number}");
    }
    assert!(stacks.copies.is_empty() && stacks.copied.is_empty());
    let waiting = stacks.waiting.len() as u64;
    assert!(waiting > 100 && given_up(&stacks) == 1000 - waiting);
    let oldest = stacks.waiting.front().map(|waiting| waiting.stack.stack);
    assert_eq!(oldest, Some(1000 - waiting));
    stacks.retry();
    assert_eq!(stacks.waiting.len() as u64, waiting);
}

#[test]
fn what_waits_too_long_is_given_up_with_the_mappings_of_its_program() {
    let mut stacks = stacks();
    stacks.add(&position(1, id()));
    assert_eq!((stacks.waiting.len(), stacks.programs.len()), (1, 1));
    let long_ago = Instant::now().checked_sub(LIFETIME).unwrap();
    stacks.waiting[0].since = long_ago;
    for program in stacks.programs.values_mut() {
        program.used = long_ago;
    }
    stacks.give_up();
    assert_eq!((stacks.waiting.len(), stacks.programs.len()), (0, 0));
    assert_eq!((given_up(&stacks), stacks.waiting_bytes), (1, 0));
}

#[test]
fn nothing_waits_for_a_program_that_runs_no_more() {
    let mut stacks = stacks();
    let replaced = UnfinishedStack {
        program: 7,
        ..position(1, id())
    };
    for stack in [replaced, position(2, u32::MAX)] {
        add_pages(&mut stacks, stack.stack);
        stacks.add(&stack);
    }
    assert_eq!((stacks.waiting.len(), given_up(&stacks)), (0, 2));
}

#[test]
fn pages_without_the_end_of_a_walk_are_bounded() {
    let mut stacks = stacks();
    for number in 0..200 {
        add_pages(&mut stacks, number);
        let bytes: usize = stacks.copies.values().map(StackCopy::bytes).sum();
        assert!(bytes <= MAX_COPIED_BYTES, "{number}");
        assert_eq!(stacks.copies.len(), stacks.copied.len());
    }
    assert!(stacks.copies.contains_key(&199) && !stacks.copies.contains_key(&0));
}
