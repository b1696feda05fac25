//! What frames are called.

use agent_common::record::{NativeUnwindStatus, PythonUnwindStatus};

use super::stacks::{failed, native, profile, python, text};
use crate::profile::{FrameKind, UnsymbolizedLosses};

#[test]
fn unknown_code_objects_are_counted() {
    let (whole, losses) = failed(
        Some(python("0 1 0")),
        Some(native("P2 n5 P1")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    let marker = "[unknown code object]";
    assert_eq!(whole, format!("{marker} f1 n5 {marker}"));
    assert_eq!(losses.unsymbolized_python_frames, 4);
}

#[test]
fn an_unsymbolized_frame_of_a_file_has_its_address() {
    let (profile, _) = profile(
        None,
        Some(native("k0 n5 n0 j0 n0 j0 j0")),
        PythonUnwindStatus::NO_PYTHON,
        NativeUnwindStatus::COMPLETE,
    );
    assert_eq!(
        text(&profile),
        "[kernel]+0x0 n5 [file 3]+0x0 [jit] [file 3]+0x0 [jit]"
    );
    let unnamed = UnsymbolizedLosses {
        no_symbols: 4,
        no_map: 6,
        kptr_restricted: 2,
        ..UnsymbolizedLosses::default()
    };
    assert_eq!(profile.losses.unsymbolized_native_frames, unnamed);
    assert_eq!(unnamed.total(), 12);
    let kinds: Vec<_> = profile.functions.iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [FrameKind::Native, FrameKind::Native]);
}

#[test]
fn equal_frames_are_symbolized_once() {
    let (_, symbolizer) = profile(
        Some(python("1 0 1 0")),
        Some(native("k5 n5 n30 n5 n30 P4 k5 n6")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    assert_eq!(symbolizer.calls, [5, 5, 30, 1, 0, 6]);
}

#[test]
fn inlined_functions_share_a_location() {
    let (profile, _) = profile(
        Some(python("1")),
        Some(native("n21 P1 n20")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    assert_eq!(text(&profile), "n21+n20 f1 n20");
    assert_eq!(profile.executables.len(), 1);
    let inlined = &profile.locations[0];
    assert_eq!(
        inlined.lines[1].function,
        profile.locations[2].lines[0].function
    );
}
