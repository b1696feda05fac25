use super::*;

fn cpu(tid: u32, stack: u64) -> Sample {
    Sample {
        stack,
        kind: ProfileKind::CPU,
        value: 10,
        count: 1,
        ..unseen((1, tid))
    }
}

fn kept(tid: u32) -> KeptWaiting {
    KeptWaiting {
        tid,
        is_stopped: false,
    }
}

fn running(tid: u32) -> RunningThread {
    RunningThread {
        tgid: 1,
        tid,
        elapsed_ns: 100,
        is_runnable: false,
        holds_gil: None,
        is_new: false,
    }
}

#[test]
fn the_next_sample_of_cpu_time_says_where_a_thread_ran() {
    let mut threads = RunningThreads::default();
    assert!(threads.add(&running(2)).is_none());
    assert!(threads.add(&running(2)).is_none());
    let runnable = RunningThread {
        is_runnable: true,
        ..running(2)
    };
    assert!(threads.add(&runnable).is_none());
    assert!(threads.pay(&cpu(3, 7)).is_empty());
    let paid = threads.pay(&cpu(2, 8));
    let shown = |(paid, _): &Paid| (paid.stack, paid.count, paid.value, paid.wait);
    assert_eq!(
        paid.iter().map(shown).collect::<Vec<_>>(),
        [
            (8, 2, 200, WaitReason::NONE),
            (8, 1, 100, WaitReason::RUNNABLE)
        ]
    );
    let is_wall = |(paid, _): &Paid| paid.kind == ProfileKind::WALL;
    assert!(paid.iter().all(is_wall));
    assert!(threads.pay(&cpu(2, 9)).is_empty());
}

#[test]
fn a_sample_tells_of_what_is_as_true_of_the_gil() {
    let mut threads = RunningThreads::default();
    for holds_gil in [Some(true), Some(false), Some(false)] {
        let running = RunningThread {
            holds_gil,
            ..running(2)
        };
        assert!(threads.add(&running).is_none());
    }
    let blocked = BlockedThread {
        tgid: 1,
        holder: 2,
        is_new: false,
        waiting: kept(5),
        elapsed_ns: 100,
    };
    assert!(threads.add_blocked(&blocked).is_none());
    let shown = |paid: Vec<Paid>| {
        let shown = paid.iter().map(|(paid, blocked)| {
            let of = (paid.kind, paid.holds_gil, blocked.tid);
            (paid.stack, paid.value, of)
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(
        shown(threads.pay(&cpu(2, 7))),
        [(7, 200, (ProfileKind::WALL, 0, 0))]
    );
    let with_gil = Sample {
        holds_gil: 1,
        ..cpu(2, 8)
    };
    assert_eq!(
        shown(threads.pay(&with_gil)),
        [
            (8, 100, (ProfileKind::WALL, 1, 0)),
            (8, 100, (ProfileKind::GIL, 1, 5))
        ]
    );
    let holding = |is_runnable| RunningThread {
        is_runnable,
        holds_gil: Some(true),
        ..running(2)
    };
    assert!(threads.add_holding(&holding(false)).is_none());
    assert!(threads.add_holding(&holding(true)).is_none());
    assert!(threads.pay(&cpu(2, 6)).is_empty());
    let held = (ProfileKind::GIL_HELD, 1, 0);
    assert_eq!(
        shown(threads.pay(&with_gil)),
        [(8, 100, held), (8, 100, held)]
    );
    // At the end nothing is left out, and what was with the GIL is where it had it.
    assert!(threads.add_blocked(&blocked).is_none());
    assert!(threads.add_holding(&holding(false)).is_none());
    assert!(threads.add(&running(2)).is_none());
    threads.pay(&cpu(2, 9));
    assert!(threads.add(&running(2)).is_none());
    let last = shown(threads.end_window());
    let wall = (9, 100, (ProfileKind::WALL, 0, 0));
    assert_eq!(
        last,
        [wall, (8, 100, held), (8, 100, (ProfileKind::GIL, 1, 5))]
    );
    // A thread that no pass has met.
    let unknown = threads.add_holding(&RunningThread {
        tid: 0,
        ..holding(false)
    });
    assert_eq!(shown(unknown.into_iter().collect()), [(0, 100, held)]);
}

/// A sample that a pass has asked for.
fn at_pass(time_ns: u64, tid: u32, stack: u64, holds_gil: u8) -> Sample {
    Sample {
        kind: ProfileKind::AT_PASS,
        value: 0,
        time_ns,
        holds_gil,
        ..cpu(tid, stack)
    }
}

#[test]
fn a_new_thread_was_where_its_pass_has_had_it_sampled() {
    let mut threads = RunningThreads::default();
    let runs = |holds_gil| RunningThread {
        holds_gil,
        is_new: true,
        ..running(2)
    };
    let blocked = BlockedThread {
        tgid: 1,
        holder: 2,
        is_new: true,
        waiting: kept(5),
        elapsed_ns: 100,
    };
    let shown = |(paid, kept): Paid| (paid.stack, paid.kind, paid.value, paid.count, kept.tid);
    let wall = |stack| Some((stack, ProfileKind::WALL, 100, 1, 0));
    threads.note_at_pass(&at_pass(40, 2, 6, 1));
    threads.note_at_pass(&at_pass(60, 2, 7, 0));
    threads.note_at_pass(&at_pass(70, 2, 8, 1));
    threads.begin_pass(50);
    assert_eq!(threads.add(&runs(Some(false))).map(shown), wall(7));
    assert_eq!(threads.add(&runs(Some(true))).map(shown), wall(8));
    assert_eq!(threads.add(&runs(None)).map(shown), wall(8));
    let holds = Some((8, ProfileKind::GIL_HELD, 100, 1, 0));
    assert_eq!(threads.add_holding(&runs(Some(true))).map(shown), holds);
    let keeps_waiting = Some((8, ProfileKind::GIL, 100, 1, 5));
    assert_eq!(threads.add_blocked(&blocked).map(shown), keeps_waiting);
    threads.end_pass();
    // One that comes late tells of nothing, and one without the GIL not of time with it.
    threads.note_at_pass(&at_pass(80, 2, 9, 1));
    threads.note_at_pass(&at_pass(110, 2, 10, 0));
    threads.begin_pass(100);
    assert!(threads.add(&runs(Some(true))).is_none());
    assert!(threads.add_blocked(&blocked).is_none());
    threads.end_pass();
    assert_eq!(
        threads
            .pay(&Sample {
                holds_gil: 1,
                ..cpu(2, 11)
            })
            .len(),
        2
    );
}

#[test]
fn a_thread_without_samples_of_cpu_time_was_where_a_pass_has_had_it_sampled() {
    let mut threads = RunningThreads::default();
    threads.note_at_pass(&at_pass(10, 2, 7, 0));
    threads.note_at_pass(&at_pass(10, 2, 8, 1));
    threads.note_at_pass(&at_pass(10, 3, 9, 0));
    let holding = RunningThread {
        holds_gil: Some(true),
        ..running(2)
    };
    let free = RunningThread {
        holds_gil: Some(false),
        ..running(2)
    };
    assert!(threads.add(&free).is_none());
    assert!(threads.add_holding(&holding).is_none());
    // One that has a sample of CPU time too was there.
    assert!(threads.add(&running(3)).is_none());
    threads.end_pass();
    assert_eq!(threads.pay(&cpu(3, 10)).len(), 1);
    assert!(threads.add(&running(3)).is_none());
    let shown = |(paid, _): &Paid| (paid.tid, paid.stack, paid.kind);
    let mut rest: Vec<_> = threads.end_window().iter().map(shown).collect();
    rest.sort_by_key(|(tid, _, kind)| (*tid, kind.0));
    let expected = [
        (2, 7, ProfileKind::WALL),
        (2, 8, ProfileKind::GIL_HELD),
        (3, 10, ProfileKind::WALL),
    ];
    assert_eq!(rest, expected);
}

#[test]
fn what_a_pass_has_seen_holds_until_a_later_one_sees_more() {
    let mut threads = RunningThreads::default();
    let free = RunningThread {
        holds_gil: Some(false),
        ..running(2)
    };
    threads.note_at_pass(&at_pass(10, 2, 8, 1));
    assert!(threads.add_holding(&running(2)).is_none());
    threads.end_pass();
    threads.note_at_pass(&at_pass(20, 2, 7, 0));
    assert!(threads.add(&free).is_none());
    threads.end_pass();
    // This one comes too late, and there is none of the pass that follows.
    threads.note_at_pass(&at_pass(25, 2, 9, 1));
    threads.begin_pass(30);
    assert!(threads.add(&free).is_none());
    threads.end_pass();
    let mut rest = threads.end_window();
    rest.sort_by_key(|(paid, _)| paid.kind.0);
    let stacks: Vec<_> = rest
        .iter()
        .map(|(paid, _)| (paid.kind, paid.stack))
        .collect();
    assert_eq!(stacks, [(ProfileKind::WALL, 7), (ProfileKind::GIL_HELD, 8)]);
}

#[test]
fn samples_that_passes_have_asked_for_are_forgotten() {
    let mut threads = RunningThreads::default();
    for tid in 0..10_000 {
        let sample = cpu(tid, 12);
        threads.note_at_pass(&sample);
    }
    assert_eq!(threads.at_pass.len(), MAX_AT_PASS);
    threads.end_pass();
    assert!(threads.at_pass.is_empty());
}

#[test]
fn a_thread_that_is_stopped_does_not_wait_for_the_gil() {
    let mut threads = RunningThreads::default();
    for is_stopped in [false, true, true] {
        let blocked = BlockedThread {
            tgid: 1,
            holder: 2,
            is_new: false,
            waiting: KeptWaiting { tid: 5, is_stopped },
            elapsed_ns: 100,
        };
        assert!(threads.add_blocked(&blocked).is_none());
    }
    let paid = threads.end_window().into_iter();
    let mut paid: Vec<_> = paid.map(|(it, kept)| (kept.is_stopped, it.value)).collect();
    paid.sort_unstable();
    assert_eq!(paid, [(false, 100), (true, 200)]);
}

#[test]
fn of_too_many_blocked_threads_is_remembered_how_long_they_waited() {
    let mut threads = RunningThreads::default();
    for tid in 1..=1000 {
        let blocked = BlockedThread {
            tgid: 1,
            holder: 2,
            is_new: false,
            waiting: kept(tid),
            elapsed_ns: 100,
        };
        assert!(threads.add_blocked(&blocked).is_none());
    }
    let samples = threads.end_window();
    assert_eq!(samples.len(), MAX_BLOCKED + 1);
    let total: u64 = samples.iter().map(|(sample, _)| sample.value).sum();
    assert_eq!(total, 100_000);
}

#[test]
fn what_is_not_paid_for_stays_where_the_thread_was_last_seen() {
    let mut threads = RunningThreads::default();
    threads.add(&running(2));
    threads.add(&running(3));
    assert_eq!(threads.pay(&cpu(2, 8)).len(), 1);
    threads.add(&running(2));
    let mut samples = threads.end_window();
    samples.sort_by_key(|(sample, _)| sample.tid);
    let seen: Vec<_> = samples
        .iter()
        .map(|(sample, _)| (sample.tid, sample.stack, sample.value))
        .collect();
    assert_eq!(seen, [(2, 8, 100), (3, 0, 100)]);
    assert!(threads.end_window().is_empty());
    assert!(threads.end_window().is_empty());
    assert!(threads.owed.is_empty());
}

#[test]
fn there_is_a_sample_for_each_of_too_many_threads() {
    let mut threads = RunningThreads::default();
    let most = u32::try_from(MAX_THREADS).unwrap();
    let unpaid = (0..most + 10).filter_map(|tid| threads.add(&running(tid)));
    assert_eq!(unpaid.count(), 10);
    assert_eq!(threads.end_window().len(), MAX_THREADS);
}
