//! Sentences of losses, written and read.

use super::*;

#[test]
fn without_losses_there_is_no_sentence() {
    assert!(sentences(&FilteredOut::default(), &Losses::default()).is_empty());
}

#[test]
fn each_loss_is_a_sentence() {
    let losses = Losses {
        lost_samples: 12,
        truncated: 1,
        unsymbolized_python_frames: 2,
        names_only: 3,
        unread_files: 1,
        untimed_samples: 7,
        given_back: 1_234_567_890,
        ..Losses::default()
    };
    let filtered_out = FilteredOut {
        other_threads: 40,
        without_gil: 1,
        in_imports: 2,
        idle_ns: 12_345_678_901,
    };
    assert_eq!(
        sentences(&filtered_out, &losses),
        [
            "40 samples are of other threads, and filtered out.",
            "1 sample is of threads that did not hold the GIL, and filtered out.",
            "2 exceptions inside the import system are left out: they count where code imports, or not \
             at all if the import system catches them.",
            "12 samples were lost: the ring buffer was full.",
            "1 stack was truncated: only the 256 frames at either end are kept.",
            "2 Python frames have no name: the code object is unknown.",
            "3 addresses have no lines and no inlined functions: there was no time to look \
             them up.",
            "1 file was not read for names and lines: it would have taken too long.",
            "7 samples are not in the chart: it ends early, as only the times of 1,000,000 samples \
             are kept.",
            "1234.6 MB of resident memory was given back meanwhile, and not taken off.",
            "idle threads: 12.35 s left out (--idle shows them)",
        ]
    );
}

#[test]
fn sentences_can_be_read_again() {
    let mut filtered_out = FilteredOut {
        idle_ns: 90_120_000_000,
        ..FilteredOut::default()
    };
    let mut losses = Losses::default();
    for (number, counter) in (1..).zip(FilteredOut::SAMPLES) {
        *counter(&mut filtered_out) = number;
    }
    for (number, counter) in (5..).zip(Losses::COUNTERS) {
        *counter(&mut losses) = number;
    }
    losses.given_back = 1_234_500_000;
    for (number, counter) in (20..).zip(UnwindLosses::ALL) {
        *counter(&mut losses.unwind) = number;
    }
    for (number, counter) in (60..).zip(WaitTotals::ALL) {
        *counter(&mut losses.waits) = number;
    }
    for (number, counter) in (40..).zip(UnsymbolizedLosses::ALL) {
        *counter(&mut losses.unsymbolized_native_frames) = number;
    }
    let (mut left_out_again, mut losses_again) = (FilteredOut::default(), Losses::default());
    for sentence in sentences(&filtered_out, &losses) {
        read(&sentence, &mut left_out_again, &mut losses_again);
    }
    assert_eq!((left_out_again, losses_again), (filtered_out, losses));
}

#[test]
fn other_text_is_ignored() {
    let (mut filtered_out, mut losses) = (FilteredOut::default(), Losses::default());
    for sentence in [
        "",
        "12 samples",
        "12 samples were lost: the ring buffer was full!",
        "0 samples were lost: the ring buffer was full.",
        "5 native frames have no name: the file has no symbols (",
        "5 stacks lack native frames: the stack was not in memory (x).",
        "idle threads: 1 s left out (--idle shows them)",
        "idle threads: 99999999999999.00 s left out (--idle shows them)",
        "idle threads: 1.é s left out (--idle shows them)",
        "1.25 MB of resident memory was given back meanwhile, and not taken off.",
        "x.5 MB of resident memory was given back meanwhile, and not taken off.",
    ] {
        read(sentence, &mut filtered_out, &mut losses);
    }
    assert_eq!((filtered_out, losses), Default::default());
}

#[test]
fn missing_native_frames_are_one_sentence() {
    let losses = Losses {
        unwind: UnwindLosses {
            no_table: 3,
            fault: 12,
            ..UnwindLosses::default()
        },
        unmatched: 1,
        unsymbolized_native_frames: UnsymbolizedLosses {
            no_symbols: 2,
            no_map: 3,
            ..UnsymbolizedLosses::default()
        },
        ..Losses::default()
    };
    assert_eq!(
        sentences(&FilteredOut::default(), &losses),
        [
            "15 stacks lack native frames: the stack was not in memory (12), \
             an unwind table was not loaded yet (3).",
            "1 stack has Python frames without a native frame that runs them: \
             they are at the root.",
            "5 native frames have no name: JIT code without a perf map (3), \
             the file has no symbols (2).",
        ]
    );
}

#[test]
fn hidden_kernel_addresses_come_with_advice() {
    let losses = Losses {
        unsymbolized_native_frames: UnsymbolizedLosses {
            kptr_restricted: 1,
            ..UnsymbolizedLosses::default()
        },
        ..Losses::default()
    };
    assert_eq!(
        sentences(&FilteredOut::default(), &losses),
        [
            "1 native frame has no name: the kernel hides its addresses (1). For names of \
             the kernel's functions, run agent as root or with CAP_SYSLOG, and set the \
             sysctl kernel.kptr_restrict to 0 or 1."
        ]
    );
}

#[test]
fn measured_waits_are_one_sentence() {
    let losses = Losses {
        switch_ms: 12,
        waits: WaitTotals {
            sleep: 5000,
            lock: 5100,
            ..WaitTotals::default()
        },
        ..Losses::default()
    };
    assert_eq!(
        sentences(&FilteredOut::default(), &losses),
        [
            "12 milliseconds of CPU time were taken of the profiled programs by tracing their context switches.",
            "10100 milliseconds of waits were measured: for locks and the GIL (5100), for the end of a time (5000).",
        ]
    );
}
