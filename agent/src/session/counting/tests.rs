use agent_common::record::{ProfileKind, Sample, WaitReason};
use zerocopy::FromZeros as _;

use super::{Counting, Received};
use crate::threads::{Batch, PassTime, RestChanges};

/// Time between two passes, in nanoseconds.
const PERIOD: u64 = 10;

fn sample(tid: u32) -> Sample {
    Sample {
        kind: ProfileKind::WALL,
        tgid: 1,
        tid,
        count: 1,
        value: PERIOD,
        wait: WaitReason::SLEEP,
        ..Sample::new_zeroed()
    }
}

/// What a pass finds: samples of some threads, of which those of others begin and end to rest.
fn pass(turn: u32, samples: &[u32], begun: &[u32], ended: &[u32]) -> Batch {
    let mut batch = Batch::default();
    batch.samples = samples.iter().map(|tid| sample(*tid)).collect();
    batch.rest_changes = RestChanges {
        turn,
        ended: ended.to_vec(),
        pass: Some(PassTime {
            time_ns: 0,
            elapsed_ns: PERIOD,
        }),
        begun: begun.iter().map(|tid| sample(*tid)).collect(),
    };
    batch
}

fn counting(with_times: bool) -> Counting {
    let counting = Counting::with_passes(false, false);
    if with_times {
        counting.with_times()
    } else {
        counting
    }
}

fn receive(counting: &mut Counting, batches: &[Batch]) {
    for batch in batches {
        counting.receive_batch(batch, &mut Received::default());
    }
}

/// Passes in which a thread has a sample, counted so far and in the window that ends.
fn passes(counting: &mut Counting) -> (u64, u64) {
    let before = counting.windows.samples();
    (before, counting.windows.take().samples())
}

#[test]
fn a_thread_that_rests_has_a_sample_in_each_pass() {
    for with_times in [false, true] {
        let mut counting = counting(with_times);
        receive(
            &mut counting,
            &[
                pass(0, &[7, 8], &[7], &[]),
                pass(0, &[8], &[8], &[]),
                pass(0, &[], &[], &[]),
                // It has run.
                pass(0, &[7], &[], &[7]),
            ],
        );
        // Of the thread 7 in all four, and so of the other one.
        assert_eq!(passes(&mut counting), (8, 8));
        receive(
            &mut counting,
            &[pass(0, &[7], &[7], &[]), pass(0, &[], &[], &[8])],
        );
        // The other one has ended before the second of them.
        assert_eq!(passes(&mut counting), (3, 3));
        receive(&mut counting, &[pass(0, &[], &[], &[])]);
        assert_eq!(passes(&mut counting), (1, 1));
    }
}

#[test]
fn a_window_that_is_opened_later_has_no_time_before() {
    let mut counting = counting(false);
    let rests = || pass(0, &[], &[], &[]);
    receive(&mut counting, &[pass(0, &[7], &[7], &[]), rests(), rests()]);
    let opened = counting.windows.open();
    receive(&mut counting, &[rests()]);
    let window = counting.windows.close(opened).unwrap();
    assert_eq!(window.samples(), 1);
    assert_eq!(passes(&mut counting), (4, 4));
}

#[test]
fn what_another_thread_has_said_ends_with_it() {
    let mut counting = counting(false);
    receive(
        &mut counting,
        &[
            pass(0, &[7], &[7], &[]),
            pass(0, &[], &[], &[]),
            // Its successor finds all threads anew.
            pass(1, &[7], &[], &[]),
            pass(1, &[7], &[7], &[]),
            // It was held up, and goes on.
            pass(0, &[], &[9], &[7]),
            pass(1, &[], &[], &[]),
        ],
    );
    assert_eq!(passes(&mut counting), (5, 5));
}
