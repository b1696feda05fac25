//! Where frames are missing, and what is counted then.

use agent_common::decoded::{Gap, NativeStack, Stack};
use agent_common::record::{NativeUnwindStatus, PythonUnwindStatus};

use super::stacks::{failed, joined, native, profile, python, text};
use crate::profile::{Losses, UnwindLosses};

#[test]
fn the_gap_of_a_truncated_stack_is_in_its_run() {
    let interleaved = |after, frames, native_frames: &str| {
        let mut stack = python("1 2 3 4");
        stack.gap = Some(Gap { after, frames });
        let (profile, _) = profile(
            Some(stack),
            Some(native(native_frames)),
            PythonUnwindStatus::COMPLETE,
            NativeUnwindStatus::COMPLETE,
        );
        let losses = Losses {
            truncated: 2,
            ..Losses::default()
        };
        assert_eq!(profile.losses, losses);
        text(&profile).replace("[frames left out]", "..")
    };
    assert_eq!(interleaved(2, 5, "P9 n6"), "f1 f2 .. f3 f4 n6");
    assert_eq!(interleaved(2, 5, "P3 n5 P6 n6"), "f1 f2 .. n5 .. f3 f4 n6");
    assert_eq!(
        interleaved(2, 5, "P1 n4 P7 n5 P1 n6"),
        "f1 n4 f2 .. f3 n5 f4 n6"
    );
    assert_eq!(
        interleaved(2, 5, "P2 n4 P5 n5 P2 n6"),
        "f1 f2 n4 .. n5 f3 f4 n6"
    );
}

#[test]
fn a_failed_native_walk_keeps_all_python_frames() {
    let (whole, losses) = failed(
        Some(python("1 2 3")),
        Some(native("n5 P1 n6")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::NO_TABLE,
    );
    assert_eq!(
        whole,
        "n5 f1 n6 [native frames unknown: the unwind table was not loaded yet] f2 f3"
    );
    let unwind = UnwindLosses {
        no_table: 2,
        ..UnwindLosses::default()
    };
    let only_unwind = Losses {
        unwind,
        ..Losses::default()
    };
    assert_eq!(losses, only_unwind);

    let (whole, losses) = failed(
        Some(python("1")),
        None,
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::NO_REGISTERS,
    );
    assert_eq!(whole, "[native frames unknown: no registers] f1");
    assert_eq!(losses.unwind.no_registers, 2);
    let (whole, losses) = failed(
        None,
        Some(native("n5")),
        PythonUnwindStatus::NO_PYTHON,
        NativeUnwindStatus(99),
    );
    assert_eq!(whole, "n5 [native frames unknown]");
    assert_eq!(losses.unwind.total(), 2);
}

#[test]
fn a_failed_python_walk_is_marked_where_its_frames_end() {
    let fault = PythonUnwindStatus::FRAME_FAULT;
    let marker = "[incomplete: a frame was not in memory]";
    let interleaved = |frames: Option<&str>, native_frames| {
        let (whole, losses) = failed(
            frames.map(python),
            Some(native(native_frames)),
            fault,
            NativeUnwindStatus::COMPLETE,
        );
        let only_incomplete = Losses {
            incomplete: 2,
            ..Losses::default()
        };
        assert_eq!(losses, only_incomplete);
        whole.replace(marker, "!")
    };
    assert_eq!(
        interleaved(Some("1 2"), "P1 n5 P9 n6 P1 n7"),
        "f1 n5 f2 ! n6 n7"
    );
    assert_eq!(interleaved(None, "n5 P0 n6 P3"), "n5 ! n6");
    assert_eq!(interleaved(None, "n5 n6"), "n5 n6 !");

    // Both failed.
    let (whole, _) = failed(
        Some(python("1 2")),
        Some(native("P1 n5")),
        fault,
        NativeUnwindStatus::FAULT,
    );
    assert_eq!(
        whole,
        format!("f1 n5 [native frames unknown: the stack was not in memory] f2 {marker}")
    );
}

#[test]
fn lost_stacks_are_marked() {
    let lost = Stack {
        hash: 7,
        ..python("1")
    };
    let (whole, losses) = failed(
        Some(lost),
        Some(native("n5 P2 n6")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    assert_eq!(whole, "n5 [stack lost] n6");
    assert_eq!(losses.incomplete, 2);

    let lost = NativeStack {
        hash: 7,
        ..native("n5")
    };
    for end in [NativeUnwindStatus::COMPLETE, NativeUnwindStatus::FAULT] {
        let (whole, losses) = failed(
            Some(python("1 2")),
            Some(lost.clone()),
            PythonUnwindStatus::COMPLETE,
            end,
        );
        assert_eq!(whole, "[native stack lost] f1 f2");
        let only_lost = Losses {
            lost_native_stacks: 2,
            ..Losses::default()
        };
        assert_eq!(losses, only_lost);
    }
}

#[test]
fn python_frames_without_an_evaluation_loop_are_at_the_root() {
    let (whole, losses) = failed(
        Some(python("1 2 3")),
        Some(native("n5 P1 n6")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    assert_eq!(whole, "n5 f1 n6 f2 f3");
    assert_eq!(losses.unmatched, 2);
    // Hidden frames need no evaluation loop.
    assert_eq!(joined("1 h2", "n5 P1 n6"), "n5 f1 n6");
}

#[test]
fn threads_without_python_have_native_frames_only() {
    let alone = |native_frames, end, native_end| {
        let (whole, losses) = failed(None, native_frames, end, native_end);
        (whole, losses.not_python)
    };
    assert_eq!(
        alone(
            Some(native("k5 n6 n7")),
            PythonUnwindStatus::NO_PYTHON,
            NativeUnwindStatus::COMPLETE
        ),
        ("k5 n6 n7".to_owned(), 0)
    );
    assert_eq!(
        alone(
            Some(native("k5 k6")),
            PythonUnwindStatus::NO_THREAD_STATE,
            NativeUnwindStatus::KERNEL_ONLY
        ),
        ("k5 k6".to_owned(), 0)
    );
    assert_eq!(
        alone(
            None,
            PythonUnwindStatus::NO_FRAME,
            NativeUnwindStatus::NOT_WALKED
        ),
        ("[no Python]".to_owned(), 2)
    );
    assert_eq!(
        alone(
            None,
            PythonUnwindStatus::NO_PYTHON,
            NativeUnwindStatus::NO_REGISTERS
        ),
        (
            "[native frames unknown: no registers] [no Python]".to_owned(),
            2
        )
    );
}
