use super::*;
use crate::threads::balance::MAX_SAMPLES;

const ELAPSED: u64 = 10;

fn visit(run_ns: u64, run_delay_ns: u64, state: u32) -> ThreadVisit {
    ThreadVisit {
        bytes: 0,
        tgid: 1,
        tid: 2,
        state,
        on_cpu: 0,
        processor: 0,
        preempted: 0,
        start_time_ns: 3,
        switches: 4,
        run_ns,
        run_delay_ns,
        thread_pointer: 0,
        short_ns: 0,
        left_ns: 0,
        is_traced: 0,
        is_unchanged: 0,
        padding: 0,
    }
}

/// What the samples of a thread show of which the kernel accounts for so much time per pass.
fn shares(run_ns: u64, delay_ns: u64, state: u32) -> [usize; 3] {
    let mut thread = KnownThread::new(visit(0, 0, state));
    let mut counts = [0; 3];
    for pass in 1..=100 {
        let visit = visit(pass * run_ns, pass * delay_ns, state);
        let shown = match thread.update(&visit, ELAPSED, false, false) {
            Activity::Running => 0,
            Activity::Runnable => 1,
            _ => 2,
        };
        counts[shown] += 1;
    }
    counts
}

#[test]
fn the_kernel_says_how_long_a_thread_ran_and_waited_for_a_processor() {
    // Seen active each time.
    assert_eq!(shares(10, 0, 0), [100, 0, 0]);
    assert_eq!(shares(5, 5, 0), [50, 50, 0]);
    assert_eq!(shares(8, 2, 0), [80, 20, 0]);
    // Never seen active.
    assert_eq!(shares(0, 0, 1), [0, 0, 100]);
    assert_eq!(shares(2, 0, 1), [20, 0, 80]);
    // What is owed at the end is not shown yet.
    assert_eq!(shares(1, 3, 1), [10, 29, 61]);
}

#[test]
fn a_thread_that_starves_is_runnable_also_where_the_kernel_does_not_say_so() {
    assert_eq!(shares(5, 0, 0), [50, 50, 0]);
    assert_eq!(shares(0, 0, 0), [0, 100, 0]);
}

/// What 1000 samples show of a thread that passes see in this state each time but the fifth, when it waits.
fn shown(
    ran_ns: u64,
    delayed_ns: u64,
    is_moment: bool,
    is_seen: impl Fn(&mut ThreadVisit),
) -> [usize; 4] {
    const PERIOD: u64 = 20_000_000;
    let mut thread = KnownThread::new(visit(0, 0, 1));
    let mut counts = [0; 4];
    for pass in 1..=1000 {
        let mut visit = visit(pass * ran_ns, pass * delayed_ns, 1);
        visit.switches = pass;
        thread.reset();
        if pass % 5 == 0 {
            thread.reason = WaitReason::SLEEP;
            thread.stack = Some(Walked::UNPROVED);
        } else {
            is_seen(&mut visit);
        }
        thread.show(&visit, PERIOD, is_moment);
        counts[match thread.shown {
            Shown::Elsewhere { is_runnable: false } => 0,
            Shown::Elsewhere { is_runnable: true } => 1,
            Shown::Waiting(_) => 2,
            Shown::Traced { .. } => unreachable!(),
            Shown::Earlier => {
                let reason = thread.shown_wait().unwrap().reason;
                assert_eq!(reason, WaitReason::SLEEP);
                3
            }
        }] += 1;
    }
    counts
}

#[test]
fn a_thread_that_is_seen_active_too_often_has_waited() {
    let runs = |visit: &mut ThreadVisit| visit.on_cpu = 1;
    let is_runnable = |visit: &mut ThreadVisit| visit.state = 0;
    // Half of the time, by the accounts.
    for (shown, active) in [
        (shown(10_000_000, 0, false, runs), 0),
        (shown(0, 10_000_000, false, is_runnable), 1),
    ] {
        assert!((500..=502).contains(&shown[active]), "{shown:?}");
        assert_eq!(shown[2], 200, "{shown:?}");
    }
    // One that was preempted by the pass ran.
    let was_preempted = |visit: &mut ThreadVisit| (visit.state, visit.preempted) = (0, 1);
    let shown_as = shown(16_000_000, 0, false, was_preempted);
    assert_eq!(shown_as, [800, 0, 200, 0]);
    // Only this moment counts.
    assert_eq!(shown(10_000_000, 0, true, runs)[3], 0);
}

#[test]
fn a_thread_that_is_stopped_is_in_no_other_wait() {
    fn shown(thread: &mut KnownThread, state: u32, is_moment: bool) -> Shown {
        thread.show(&visit(0, 0, state), ELAPSED, is_moment);
        thread.shown
    }
    let mut thread = KnownThread::new(visit(0, 0, 1));
    thread.reason = WaitReason::LOCK;
    thread.stack = Some(Walked::UNPROVED);
    let in_lock = Shown::Waiting(WaitReason::LOCK);
    assert_eq!(shown(&mut thread, 1, false), in_lock);
    // By a signal, traced, frozen. A snapshot says in what.
    for state in [0x104, 0x8, 0x8000] {
        assert_eq!(
            shown(&mut thread, state, false),
            Shown::Waiting(WaitReason::STOPPED)
        );
        assert_eq!(shown(&mut thread, state, true), in_lock);
    }
    // It may have been in that since.
    let last = thread.last_wait.map(|wait| wait.reason);
    assert_eq!(last, Some(WaitReason::LOCK));
    thread.reason = WaitReason::OTHER;
    assert_eq!(
        shown(&mut thread, 0x104, true),
        Shown::Waiting(WaitReason::STOPPED)
    );
}

#[test]
fn a_stack_that_is_not_whole_is_read_again_ever_more_seldom() {
    let mut thread = KnownThread::new(visit(0, 0, 1));
    let mut times = Vec::new();
    for _ in 0..12 {
        thread.set_stack(Walked::UNPROVED, false, 0);
        times.push(thread.again_ns / MIN_BACKOFF_NS);
    }
    assert_eq!(times, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
    thread.set_stack(Walked::UNPROVED, true, 0);
    assert_eq!(thread.again_ns, 0);
}

#[test]
fn a_thread_that_was_woken_is_in_its_wait_unless_the_kernel_says_that_it_waits_for_a_processor() {
    const PERIOD: u64 = 10_000_000;
    let shown = |delay_ns: u64, is_moment| {
        let mut thread = KnownThread::new(visit(0, 0, 0));
        let activities = (1..=100).map(|pass| {
            let visit = visit(0, pass * delay_ns, 0);
            thread.update(&visit, PERIOD, true, is_moment)
        });
        let is_runnable = |activity: &Activity| *activity == Activity::Runnable;
        activities.filter(is_runnable).count()
    };
    assert_eq!(shown(0, false), 1);
    assert_eq!(shown(PERIOD / 2, false), 51);
    assert_eq!(shown(PERIOD, false), 100);
    assert_eq!(shown(0, true), 0);
}

#[test]
fn a_visit_of_a_thread_that_rests_is_completed() {
    let known = KnownThread::new(visit(5, 6, 1));
    let rests = ThreadVisit {
        is_unchanged: 1,
        ..visit(0, 0, 1)
    };
    let completed = known.completed(rests);
    assert_eq!((completed.run_ns, completed.run_delay_ns), (5, 6));
    let other = ThreadVisit {
        start_time_ns: 4,
        ..rests
    };
    assert_eq!(known.completed(other), other);
    let has_run = visit(7, 8, 1);
    assert_eq!(known.completed(has_run), has_run);
}

#[test]
fn time_without_a_stack_is_owed_while_the_thread_waits() {
    let mut thread = KnownThread::new(visit(0, 0, 1));
    thread.is_put_off = true;
    thread.show(&visit(0, 0, 1), ELAPSED, false);
    assert!(thread.owes(ELAPSED));
    assert!(!thread.owes(ELAPSED), "it has its stack in the next pass");
    assert_eq!(thread.take_owed(), ELAPSED);
    assert_eq!(thread.take_owed(), 0);
    // Where it runs, its samples of CPU time tell.
    thread.is_put_off = true;
    let runs = ThreadVisit {
        on_cpu: 1,
        ..visit(10, 0, 0)
    };
    thread.show(&runs, ELAPSED, false);
    assert!(!thread.owes(ELAPSED));
}

#[test]
fn a_thread_whose_processor_the_pass_has_taken_runs_where_its_stack_says() {
    let mut thread = KnownThread::new(visit(0, 0, 0));
    thread.stack = Some(Walked::UNPROVED);
    let taken = ThreadVisit {
        preempted: 1,
        ..visit(ELAPSED, 0, 0)
    };
    thread.show(&taken, ELAPSED, false);
    assert_eq!(thread.shown, Shown::Waiting(WaitReason::NONE));
    assert!(thread.last_wait.is_none());
    // It waits now, and has run for all of the time before: the stack is of the wait.
    let waits = ThreadVisit {
        switches: 5,
        ..visit(3 * ELAPSED, 0, 1)
    };
    thread.show(&waits, ELAPSED, false);
    assert_eq!(thread.shown, Shown::Elsewhere { is_runnable: false });
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut thread = KnownThread::new(visit(0, 0, 1));
    thread.update(&visit(1 << 60, 1 << 60, 1), ELAPSED, false, false);
    let most = MAX_SAMPLES * i64::try_from(ELAPSED).unwrap();
    assert!(thread.balance.run_ns <= most && thread.balance.delay_ns <= most);
}
