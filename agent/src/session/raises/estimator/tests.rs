#![expect(clippy::cast_sign_loss, reason = "no count is negative")]

use agent_common::maps::RunGaps;

use super::*;
use crate::session::raises::schedule::{BREAKPOINT_NS, cost_ns, tests::work};

/// So many windows in which programs have this CPU time.
fn windows_of(windows: u64, cpu_ns: u64) -> Elapsed {
    Elapsed {
        ns: windows * WINDOW_NS,
        cpu_ns,
    }
}

/// Blocks of a program that raises `rate` exceptions in a second of its own CPU time, which it has all the time or
/// a tenth of it; returns how many there are in the samples, over those that were raised.
fn recorded_share(rate: f64, is_busy: bool, blocks: u32) -> f64 {
    let windows = 20;
    let mut estimator = Estimator::new(BREAKPOINT_NS);
    let (mut recorded, mut total) = (0.0, 0.0);
    let window = WINDOW_NS as f64 / 1e9;
    for _ in 0..blocks {
        let own = if is_busy {
            window / (1.0 + rate * 10e-6)
        } else {
            window / 10.0
        };
        let raises = rate * own;
        let others = 19.0 * if is_busy { window } else { window / 10.0 };
        let weight = estimator.weight(windows);
        let seen = Seen {
            windows: windows as f64,
            raises: raises as u64,
            work: work(raises as u64),
            window: windows_of(1, ((own + raises * 10e-6) * 1e9) as u64),
            // The probe was attached for some time before the window.
            other: windows_of(19, (others * 1e9) as u64 + cost_ns(work(2_000))),
            outside: work(2_000),
        };
        recorded += raises * weight;
        total += raises + rate * others;
        estimator.add(&seen, weight);
    }
    recorded / total
}

#[test]
fn programs_that_the_probe_slows_down_have_their_usual_exceptions() {
    for (rate, is_busy) in [(1e5, true), (1e6, true), (1e5, false), (1e4, true)] {
        let share = recorded_share(rate, is_busy, 50);
        assert!((share - 1.0).abs() < 0.03, "{rate} {is_busy}: {share}");
    }
}

/// A program that has a processor in some windows and not in others, whoever records; each block is seen to be
/// longer than it is, so that one of a single window has others too.
#[test]
fn programs_that_run_in_bursts_have_their_usual_exceptions() {
    const RATE: f64 = 20_000.0;
    const BLOCKS: u64 = 4_000;
    let mut random = fastrand::Rng::with_seed(1);
    let mut estimator = Estimator::new(BREAKPOINT_NS);
    let (mut recorded, mut total) = (0.0, 0.0);
    for _ in 0..BLOCKS {
        let windows = random.u64(1..8);
        let mut cpu_ns = |windows: u64| -> u64 {
            let ran = (0..windows).filter(|_| random.f64() < 0.25);
            ran.count() as u64 * WINDOW_NS
        };
        let window_cpu_ns = cpu_ns(1);
        let (other_cpu_ns, late_cpu_ns) = (cpu_ns(windows - 1), cpu_ns(2));
        let own = window_cpu_ns as f64 / 1e9 / (1.0 + RATE * 10e-6);
        let weight = estimator.weight(windows);
        let seen = Seen {
            windows: windows as f64,
            raises: (RATE * own) as u64,
            work: work((RATE * own) as u64),
            window: windows_of(1, window_cpu_ns),
            other: windows_of(windows + 1, other_cpu_ns + late_cpu_ns),
            outside: RaiseCounts::default(),
        };
        recorded += RATE * own * weight;
        total += RATE * (own + other_cpu_ns as f64 / 1e9);
        estimator.add(&seen, weight);
    }
    let share = recorded / total;
    assert!((share - 1.0).abs() < 0.1, "{share}");
}

/// A program that does nothing but raise exceptions, two thousand nanoseconds for each, of which recording takes
/// five times as much, and not what is assumed.
#[test]
fn what_recording_costs_does_not_matter_where_it_takes_most_of_the_time() {
    let of_blocks = blocks_of_fast_raises(|_| 2_000);
    for (nth, (share, added)) in of_blocks.into_iter().enumerate() {
        // From the first window on.
        assert!((share - 1.0).abs() < 0.03, "{nth}: {share}");
        let deviation = added.variance.sqrt() + added.systematic;
        // One block alone does not tell how blocks differ.
        let most = if nth == 0 { 0.5 } else { 0.13 };
        assert!(deviation < most * FAST_RAISES, "{nth}: {added:?}");
    }
}

/// The processors are twice as fast in some blocks.
#[test]
fn how_blocks_differ_is_in_the_standard_error() {
    let of_blocks = blocks_of_fast_raises(|nth| [1_500, 2_500][nth % 2]);
    for (_, added) in &of_blocks[5..] {
        // A quarter up or down, of those that were not recorded.
        let share = added.variance.sqrt() / FAST_RAISES;
        assert!((0.2..0.4).contains(&share), "{added:?}");
    }
}

/// Exceptions of a block of [`blocks_of_fast_raises`], where each takes 2 us.
const FAST_RAISES: f64 = 390_000.0;

/// Blocks of a program that does little but raise exceptions, for each of which it needs so much time of its own
/// while that is measured; returns after each how many are in the samples, over those of a program that needs 2 us,
/// and what was added to the uncertainty.
fn blocks_of_fast_raises(own_ns: fn(usize) -> u64) -> Vec<(f64, Uncertainty)> {
    const RECORDED_NS: u64 = 10_000;
    let gaps = |count: u64, each_ns: u64| RunGaps {
        count,
        ns: count * each_ns,
    };
    let recorded = |runs: u64| RaiseCounts {
        runs,
        raises: runs,
        ns: runs * 5_000,
        recorded: gaps(runs, RECORDED_NS),
        ..RaiseCounts::default()
    };
    let windows = 40;
    let mut estimator = Estimator::new(900);
    let all = WINDOW_NS / RECORDED_NS;
    estimator.note_present(all, WINDOW_NS);
    estimator.note_all(recorded(all), RaiseCounts::default());
    let (mut sampled, mut total) = (0.0, 0.0);
    let block = |nth| {
        estimator.note_idle(RaiseCounts {
            idle: gaps(1_000, own_ns(nth) + 1_080),
            ..RaiseCounts::default()
        });
        let weight = estimator.weight(windows);
        let seen = Seen {
            windows: windows as f64,
            raises: all,
            work: recorded(all),
            window: windows_of(1, WINDOW_NS),
            other: windows_of(windows - 1, (windows - 1) * WINDOW_NS),
            outside: RaiseCounts {
                runs: 1_000,
                ..RaiseCounts::default()
            },
        };
        sampled += all as f64 * weight;
        total += all as f64 + FAST_RAISES;
        (sampled / total, estimator.add(&seen, weight))
    };
    (0..20).map(block).collect()
}

/// A program that raises as many exceptions in each window as another one, however long the last block was, and
/// whether its window had come.
#[test]
fn wherever_recording_ends_the_number_is_that_of_all_of_the_time() {
    let seen = |windows: f64| Seen {
        windows,
        raises: 1_000,
        work: RaiseCounts::default(),
        window: windows_of(1, WINDOW_NS),
        other: windows_of(19, 19 * WINDOW_NS),
        outside: RaiseCounts::default(),
    };
    let ended = |last: f64, has_window: bool| {
        let mut estimator = Estimator::new(BREAKPOINT_NS);
        let mut sampled = 0.0;
        for _ in 0..4 {
            let weight = estimator.weight(20);
            sampled += 1_000.0 * weight;
            estimator.add(&seen(20.0), weight);
        }
        let added = if has_window {
            let weight = estimator.weight(20);
            sampled += 1_000.0 * weight;
            estimator.add(&seen(last), weight)
        } else {
            estimator.add_unseen(20, last, 0)
        };
        (sampled + estimator.owed() as f64, added)
    };
    for last in [1.0, 2.5, 10.0, 19.0] {
        for has_window in [true, false] {
            let (found, added) = ended(last, has_window);
            let raised = 1_000.0 * (80.0 + last);
            assert!((found / raised - 1.0).abs() < 0.001, "{last}: {found}");
            assert!(added.variance > 0.0 || last <= 1.0, "{last}: {added:?}");
            let deviation = added.variance.sqrt() + added.systematic;
            assert!(deviation < 0.1 * raised, "{last}: {added:?}");
        }
    }
}

#[test]
fn what_is_in_the_samples_of_a_window_that_was_cut_off_is_not_owed() {
    let mut estimator = Estimator::new(BREAKPOINT_NS);
    estimator.note_present(1_000, WINDOW_NS);
    assert_eq!(estimator.weight(20).to_bits(), 20.0_f64.to_bits());
    estimator.add_unseen(20, 10.0, 150);
    assert_eq!(estimator.owed(), 7_000);
}

/// The first block of a burst after a time in which nothing was raised.
#[test]
fn a_time_without_exceptions_is_forgotten_when_there_are_some() {
    let mut estimator = Estimator::new(BREAKPOINT_NS);
    for _ in 0..20 {
        estimator.note_present(0, WINDOW_NS);
    }
    for _ in 0..5 {
        estimator.note_present(1_000, WINDOW_NS);
    }
    let added = estimator.add_unseen(20, 10.0, 0);
    let deviation = added.variance.sqrt() + added.systematic;
    let missing = 10_000.0 - estimator.owed() as f64;
    assert!(missing > 0.0 && missing < deviation, "{missing} {added:?}");
}

#[test]
fn what_is_recorded_whole_has_no_error() {
    let seen = |raises, windows: u64| Seen {
        windows: windows as f64,
        raises,
        work: RaiseCounts {
            raises,
            ..RaiseCounts::default()
        },
        window: windows_of(1, WINDOW_NS),
        other: windows_of(windows - 1, (windows - 1) * WINDOW_NS),
        outside: RaiseCounts::default(),
    };
    let mut estimator = Estimator::new(BREAKPOINT_NS);
    let error = |added: Uncertainty| (added.variance, added.systematic.round());
    assert_eq!(error(estimator.add(&seen(100, 1), 1.0)), (0.0, 0.0));
    // Two more windows of about as many: as a Poisson process has it, and a little for what the probe costs.
    let (variance, systematic) = error(estimator.add(&seen(100, 3), 3.0));
    assert!((variance - 600.0).abs() < 20.0, "{variance}");
    assert!(systematic < 2.0, "{systematic}");
    let (variance, _) = error(estimator.add(&seen(200, 3), 3.0));
    assert!((variance - 31_000.0).abs() < 1_000.0, "{variance}");
}
