//! Where walks end.

use agent_common::record::{NativeUnwindStatus, PythonUnwindStatus};

use super::stacks::{native, profile, python};
use crate::profile::{LastFrame, ProcessIndex, UnwindStats};

#[test]
fn last_frames_of_native_stacks_are_counted() {
    let unwinding = |native_frames: Option<&str>, native_end| {
        let native = native_frames.map(native);
        let (profile, _) = profile(
            Some(python("1")),
            native,
            PythonUnwindStatus::COMPLETE,
            native_end,
        );
        let reached = |reached| match reached {
            LastFrame::NoFrame => "nothing".to_owned(),
            LastFrame::EvaluationLoop => "loop".to_owned(),
            LastFrame::Executable(id) => profile.executable(id).name().into_owned(),
        };
        let walks = profile.unwind_stats.iter().map(|unwinding| {
            let UnwindStats {
                process,
                walked,
                complete,
                incomplete,
            } = unwinding;
            assert_eq!(*process, ProcessIndex(0));
            let incomplete: Vec<_> = incomplete
                .iter()
                .map(|(at, count)| (reached(*at), *count))
                .collect();
            (*walked, *complete, incomplete)
        });
        walks.collect::<Vec<_>>()
    };
    let broken = |at: &str| vec![(2, 0, vec![(at.to_owned(), 2)])];
    assert_eq!(
        unwinding(Some("n5 P1 n6"), NativeUnwindStatus::COMPLETE),
        [(2, 2, vec![])]
    );
    // The walk was complete, even if its stack is lost.
    assert_eq!(
        unwinding(None, NativeUnwindStatus::COMPLETE),
        [(2, 2, vec![])]
    );
    assert_eq!(
        unwinding(None, NativeUnwindStatus::COMPLETE),
        [(2, 2, vec![])]
    );
    assert_eq!(
        unwinding(Some("k1 n5 P1 n6"), NativeUnwindStatus::NO_RULE),
        broken("[file 3]")
    );
    assert_eq!(
        unwinding(Some("n5 j9"), NativeUnwindStatus::CFA_NOT_ABOVE),
        broken("[jit]")
    );
    assert_eq!(
        unwinding(Some("n5 P1"), NativeUnwindStatus::FAULT),
        broken("loop")
    );
    assert_eq!(
        unwinding(Some("k1"), NativeUnwindStatus::NO_REGISTERS),
        broken("nothing")
    );
    assert_eq!(
        unwinding(None, NativeUnwindStatus::UNMAPPED),
        broken("nothing")
    );
    assert_eq!(unwinding(None, NativeUnwindStatus::NOT_WALKED), []);
    assert_eq!(unwinding(Some("k1"), NativeUnwindStatus::KERNEL_ONLY), []);
}
