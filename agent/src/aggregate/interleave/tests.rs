//! Stacks of which all frames are known.

mod last_frames;
mod missing_frames;
mod stacks;
mod symbols;

use agent_common::decoded::{Gap, NativeStack, Stack};
use agent_common::record::{
    Frame, FrameKind as WireKind, NativeFrame, NativeKind, NativeUnwindStatus, PythonUnwindStatus,
};
use proptest::prelude::*;

use self::stacks::{joined, native, profile, python};
use crate::profile::Function;

#[test]
fn python_frames_replace_their_evaluation_loops() {
    assert_eq!(joined("1 2", "n5 P2 n6"), "n5 f1 f2 n6");
    assert_eq!(joined("1 2", "P2 n6"), "f1 f2 n6");
    assert_eq!(joined("1", "k7 k8 n5 P1 n6"), "k7 k8 n5 f1 n6");
}

#[test]
fn a_callback_is_above_its_native_caller() {
    // main → list.sort → f
    assert_eq!(joined("1 9", "P1 n5 n6 P1 n7"), "f1 n5 n6 f9 n7");
    // The shim that CPython puts under each loop is hidden.
    assert_eq!(joined("1 h2 9 8 h3", "P2 n5 P3 n7"), "f1 n5 f9 f8 n7");
    assert_eq!(joined("h1 9 h3", "P1 n5 P2 n7"), "n5 f9 n7");
}

#[test]
fn parts_of_an_evaluation_loop_are_hidden() {
    assert_eq!(joined("1 2", "n5 n30 P1 n6 n31 P1 n7"), "n5 f1 n6 f2 n7");
    assert_eq!(joined("1 2", "n5 j9 n30 P2 n7"), "n5 f1 f2 n7");
    // Where no evaluation loop follows they are frames of their own.
    assert_eq!(
        joined("1", "n30 n5 j9 n6 P1 j9 n7"),
        "_TAIL_CALL_30 n5 n9 n6 f1 n9 n7"
    );
    let (profile, _) = profile(
        Some(python("1")),
        Some(native("n5 n30 P1 n7")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    let unseen = |function: &Function| function.name.starts_with("_TAIL_CALL_");
    assert!(!profile.functions.iter().any(unseen));
}

proptest! {
    /// Whatever the BPF programs send: each Python frame and each native frame is in the stack once,
    /// in order.
    #[test]
    fn no_frame_is_lost(
        hidden in prop::collection::vec(any::<bool>(), 0..12),
        gap in prop::option::of((0_usize..14, 1_u32..6)),
        frames in prop::collection::vec((0_u32..5, 0_u32..5), 0..20),
        end in 0_u16..13,
        native_end in 0_u16..11,
    ) {
        let count = hidden.len();
        let symbols = (1..).zip(hidden).map(|(symbol, hidden)| Frame {
            symbol,
            instruction_offset: 0,
            kind: if hidden { WireKind::HIDDEN } else { WireKind::PYTHON },
        });
        let stack = Stack {
            hash: 1,
            frames: symbols.collect(),
            gap: gap.map(|(after, frames)| Gap { after: after.min(count), frames }),
        };
        let shown: Vec<_> = stack
            .frames
            .iter()
            .filter(|frame| frame.kind != WireKind::HIDDEN)
            .map(|frame| format!("f{}", frame.symbol))
            .collect();
        let frames = (1..).zip(frames).map(|(address, (kind, of))| NativeFrame {
            address: address + 100,
            id_or_count: of,
            // Without anonymous ones, which may be parts of loops.
            kind: NativeKind(if kind == 3 { 2 } else { kind }),
        });
        let native = NativeStack { hash: 2, frames: frames.collect() };
        let own: Vec<_> = native
            .frames
            .iter()
            .filter(|frame| frame.kind != NativeKind::PYTHON)
            .map(|frame| frame.address)
            .collect();

        let (profile, _) = profile(
            Some(stack),
            Some(native),
            PythonUnwindStatus(end),
            NativeUnwindStatus(native_end),
        );
        prop_assert_eq!(profile.total(), 2);
        let locations = profile.stacks[0].iter().map(|id| profile.location(*id));
        let mut addresses = Vec::new();
        let mut names = Vec::new();
        for location in locations {
            match location.code {
                Some(code) => addresses.push(code.address),
                None => names.push(profile.function(location.lines[0].function).name.clone()),
            }
        }
        prop_assert_eq!(addresses, own);
        names.retain(|name| name.starts_with('f'));
        prop_assert_eq!(names, shown);
    }
}
