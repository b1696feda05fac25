use agent_common::record::{GonePage, Header, NewPage, RecordKind};

use super::*;
use crate::aggregate::fixtures::sample;

const PAGE: u64 = 4096;
const START: u64 = 0x7f00_0020_0000;

fn page_of(tgid: u32, nth: u64, stack: u64) -> NewPage {
    NewPage {
        sample: Sample {
            stack,
            tgid,
            value: 10,
            ..sample()
        },
        address: START + nth * PAGE,
    }
}

fn new_page(nth: u64, stack: u64) -> PageEvent {
    PageEvent::New(page_of(7, nth, stack))
}

fn gone(address: u64) -> PageEvent {
    PageEvent::Gone(GonePage {
        header: Header {
            kind: RecordKind::GONE_PAGE,
            reserved: 0,
            bytes: 24,
        },
        address,
        tgid: 7,
        reserved: 0,
    })
}

/// Finds out what is not resident.
fn glance(ledger: &mut Ledger, is_resident: impl Fn(u64) -> bool) -> Instant {
    let now = Instant::now();
    let processes: Vec<_> = ledger.processes().collect();
    for tgid in processes {
        ledger.look(tgid, now, &|address| Some(is_resident(address)));
    }
    now
}

/// Does so, where nothing has been moved.
fn look(ledger: &mut Ledger, is_resident: impl Fn(u64) -> bool) {
    let now = glance(ledger, is_resident);
    ledger.forget_absent(now);
    ledger.note_peak();
}

fn moved(from: u64, to: u64, pages: u64) -> PageEvent {
    PageEvent::Moved(MovedMemory {
        header: Header {
            kind: RecordKind::MOVED_MEMORY,
            reserved: 0,
            bytes: 40,
        },
        from: START + from * PAGE,
        to: START + to * PAGE,
        bytes: pages * PAGE,
        tgid: 7,
        reserved: 0,
    })
}

fn stacks(samples: impl Iterator<Item = Sample>) -> Vec<u64> {
    let mut stacks: Vec<_> = samples.map(|sample| sample.stack).collect();
    stacks.sort_unstable();
    stacks
}

fn in_use(ledger: &Ledger) -> Vec<u64> {
    stacks(ledger.in_use(ProfileKind::IN_USE))
}

fn peak(ledger: &Ledger) -> Vec<u64> {
    stacks(ledger.at_peak(ProfileKind::PEAK))
}

#[test]
fn what_is_given_back_is_in_use_no_more_and_at_the_peak() {
    let mut ledger = Ledger::default();
    for nth in 0..4 {
        ledger.add(new_page(nth, nth));
    }
    look(&mut ledger, |_| true);
    ledger.add(new_page(9, 9));
    look(&mut ledger, |address| address >= START + 2 * PAGE);
    assert_eq!(in_use(&ledger), [2, 3, 9]);
    assert_eq!(peak(&ledger), [0, 1, 2, 3]);
    // More than ever before.
    for nth in 10..12 {
        ledger.add(new_page(nth, nth));
    }
    look(&mut ledger, |_| true);
    assert_eq!(peak(&ledger), [2, 3, 9, 10, 11]);
    let mut kinds = ledger.at_peak(ProfileKind::PEAK).map(|sample| sample.kind);
    assert!(kinds.all(|kind| kind == ProfileKind::PEAK));
}

#[test]
fn a_page_is_whose_was_the_last_at_its_address() {
    let mut ledger = Ledger::default();
    ledger.add(new_page(0, 1));
    ledger.add(new_page(3, 2));
    look(&mut ledger, |_| true);
    // One in the same place that is a sample too, and one that is not.
    ledger.add(new_page(0, 3));
    ledger.add(gone(START + 3 * PAGE));
    look(&mut ledger, |_| true);
    assert_eq!(in_use(&ledger), [3]);
    // A huge page in the place of several.
    ledger.add(new_page(511, 4));
    ledger.add(new_page(512, 5));
    let huge = page_of(7, 0, 6);
    ledger.add(PageEvent::New(NewPage {
        address: huge.address | IS_HUGE,
        ..huge
    }));
    look(&mut ledger, |_| true);
    assert_eq!(in_use(&ledger), [5, 6]);
    ledger.add(gone(START | IS_HUGE));
    assert_eq!(in_use(&ledger), [5]);
    assert_eq!(ledger.count, 1);
}

#[test]
fn what_cannot_be_looked_at_stays_as_it_is() {
    let mut ledger = Ledger::default();
    ledger.add(new_page(0, 1));
    ledger.look(7, Instant::now(), &|_| None);
    assert!(!ledger.has_absent());
    ledger.note_peak();
    assert_eq!((in_use(&ledger), peak(&ledger)), (vec![1], vec![1]));
}

#[test]
fn memory_that_is_moved_is_in_use_where_it_is_now() {
    let mut ledger = Ledger::default();
    for nth in [0, 3, 4, 1024] {
        ledger.add(new_page(nth, nth));
    }
    let huge = page_of(7, 2048, 5);
    ledger.add(PageEvent::New(NewPage {
        address: huge.address | IS_HUGE,
        ..huge
    }));
    look(&mut ledger, |_| true);
    // It is known a moment after the pages are not found.
    let is_now = |address| address >= START + 512 * PAGE;
    let at = glance(&mut ledger, is_now);
    assert!(ledger.has_absent());
    assert_eq!(in_use(&ledger), [5, 1024]);
    let page = |nth| START + nth * PAGE;
    let moves = ledger.add(moved(0, 1021, 4));
    assert_eq!(
        moves.iter().map(|it| (it.from, it.to)).collect::<Vec<_>>(),
        [(page(0), page(1021)), (page(3), page(1024))]
    );
    // What was there before is gone.
    ledger.forget_absent(at);
    assert!(!ledger.has_absent());
    assert_eq!(in_use(&ledger), [0, 3, 5]);
    look(&mut ledger, is_now);
    assert_eq!(in_use(&ledger), [0, 3, 5]);
    assert_eq!(peak(&ledger), [0, 3, 4, 5, 1024]);
    // Huge pages stay so.
    let moves = ledger.add(moved(2048, 4096, 512));
    let huge = (page(2048) | IS_HUGE, page(4096) | IS_HUGE);
    assert_eq!(
        moves.iter().map(|it| (it.from, it.to)).collect::<Vec<_>>(),
        [huge]
    );
    assert!(ledger.add(moved(9000, 8000, u64::MAX / PAGE)).is_empty());
    assert_eq!((in_use(&ledger), ledger.count), (vec![0, 3, 5], 3));
}

#[test]
fn processes_that_have_ended_have_nothing_in_use_but_the_last_one() {
    let mut ledger = Ledger::default();
    ledger.add(new_page(0, 1));
    ledger.add(PageEvent::New(page_of(8, 0, 2)));
    look(&mut ledger, |_| true);
    ledger.add(PageEvent::Ended(8));
    assert_eq!(in_use(&ledger), [1]);
    // It is at the peak, when both were there.
    look(&mut ledger, |_| true);
    assert_eq!(peak(&ledger), [1, 2]);
    // Another process with its number has its own pages.
    ledger.add(PageEvent::Began(8));
    ledger.add(PageEvent::New(page_of(8, 0, 3)));
    assert_eq!(in_use(&ledger), [1, 3]);
    ledger.add(PageEvent::Ended(8));
    ledger.add(PageEvent::Ended(7));
    ledger.add(PageEvent::Ended(9));
    assert_eq!((in_use(&ledger), peak(&ledger)), (vec![1], vec![1, 2]));
    assert_eq!((ledger.count, ledger.lost()), (0, 0));
}

#[test]
fn another_program_of_a_process_begins_with_nothing() {
    let mut ledger = Ledger::default();
    ledger.add(new_page(0, 1));
    look(&mut ledger, |_| true);
    ledger.add(PageEvent::Began(7));
    ledger.add(new_page(4, 2));
    look(&mut ledger, |_| true);
    assert_eq!((in_use(&ledger), peak(&ledger)), (vec![2], vec![1]));
}

#[test]
fn pages_are_bounded() {
    let mut ledger = Ledger::default();
    let most = u64::from(MAX_PAGES);
    for nth in 0..most {
        ledger.add(new_page(nth, nth));
    }
    assert_eq!(ledger.lost(), 0);
    ledger.add(new_page(most, most));
    assert_eq!(ledger.lost(), 1);
    // There is room again for what takes the place of another one.
    ledger.add(new_page(0, 1));
    look(&mut ledger, |address| address != START);
    ledger.add(new_page(most, most));
    assert_eq!(ledger.lost(), 1);
    look(&mut ledger, |_| false);
    assert_eq!(ledger.gone.len(), MAX_PAGES as usize - 1);
    assert_eq!(ledger.count, 0);
}
