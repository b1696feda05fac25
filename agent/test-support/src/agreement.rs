//! Compares a walk of native frames with the stack of gdb.

use std::fmt::Write as _;

use agent_common::{limits::MAX_NATIVE_FRAMES, maps::Mapping, record::NativeUnwindStatus};

use crate::{
    debugger::Thread,
    unwinder::{Unwinder, Unwound},
};

/// gdb's reason for the end of a complete stack.
const OUTERMOST: &str = "outermost";

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The same frames, down to the same end.
    Same,
    /// gdb uses words that are not return addresses.
    Lost,
    /// They differ from a frame without call-frame information on: gdb analyses the instructions,
    /// the walk uses the frame pointer.
    Guessed,
    /// They differ.
    Different,
}

impl Agreement {
    /// Compares.
    pub fn of(
        unwinder: &Unwinder,
        mappings: &[Mapping],
        thread: &Thread,
        unwound: &Unwound,
    ) -> Self {
        if is_same(thread, unwound) {
            return Self::Same;
        }
        let is_code = |address| {
            let mut ranges = mappings.iter().map(|mapping| mapping.start..mapping.end);
            ranges.any(|range| range.contains(&address))
        };
        if !thread.frames.iter().all(|frame| is_code(frame.address)) {
            // Temporarily, when the C++ runtime has already put the return address of a landing
            // pad on the stack.
            return Self::Lost;
        }
        let parting = common(thread, unwound).checked_sub(1);
        let parting = parting.map(|last| &unwound.frames[last].place);
        if parting.is_some_and(|location| !unwinder.is_described(location)) {
            return Self::Guessed;
        }
        Self::Different
    }
}

/// Number of equal frames from the leaf on.
pub fn common(thread: &Thread, unwound: &Unwound) -> usize {
    let pairs = thread.frames.iter().zip(&unwound.frames);
    pairs
        .take_while(|(frame, walked)| frame.address == walked.address)
        .count()
}

/// Whether a walk has the frames of gdb, and the same end.
fn is_same(thread: &Thread, unwound: &Unwound) -> bool {
    let common = common(thread, unwound);
    if common != unwound.frames.len() {
        return false;
    }
    if unwound.end == NativeUnwindStatus::TOO_DEEP {
        let native = unwound.frames.iter().filter(|frame| frame.runs.is_none());
        return native.count() > MAX_NATIVE_FRAMES;
    }
    let is_complete = unwound.end == NativeUnwindStatus::COMPLETE;
    common == thread.frames.len() && is_complete == (thread.end == OUTERMOST)
}

/// The frames of both, next to each other.
pub fn show(unwinder: &Unwinder, thread: &Thread, unwound: &Unwound) -> String {
    let mut text = format!("thread {} is\n", thread.tid);
    let lines = thread.frames.len().max(unwound.frames.len());
    for nth in 0..lines {
        let (mut left, mut right, mut name) = (String::new(), String::new(), "");
        if let Some(frame) = thread.frames.get(nth) {
            left = format!("{:x}", frame.address);
            name = &frame.name;
        }
        if let Some(frame) = unwound.frames.get(nth) {
            let shown = unwinder.show(&frame.place);
            right = format!("{:x} {shown} {:?}", frame.address, frame.place.rule);
            if let Some(runs) = frame.runs {
                write!(right, ", {runs} Python frames").unwrap();
            }
        }
        let mark = if left.is_empty() || !right.starts_with(&left) {
            '!'
        } else {
            ' '
        };
        writeln!(text, "  {mark} {left:12} {name:30} {right}").unwrap();
    }
    let (end, last) = (unwound.end.0, &thread.end);
    write!(text, "    {last}; {end}").unwrap();
    text
}
