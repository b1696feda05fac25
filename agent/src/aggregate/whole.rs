//! Whole stacks: kernel and native frames, with Python frames where the interpreter ran them.
//!
//! ```text
//! native stack       Python stack    whole stack, leaf first
//! KERNEL  do_read                    do_read
//! FILE    read                       read
//! PYTHON  2          load, key       load
//!                                    key
//! FILE    list_sort                  list_sort
//! PYTHON  1          main            main
//! FILE    _start                     _start
//! ```
//!
//! Invariants: a frame that one of the walks has found is in the whole stack, unless the
//! interpreter hides it or it is a piece of an evaluation loop; what a walk has not found is
//! marked once, where it is missing; all numbers of the kernel half are claims.

#[cfg(test)]
mod tests;

use agent_common::record::{
    Frame, FrameKind, NativeFrame, NativeKind, NativeUnwindStatus, PythonUnwindStatus,
};

use super::{
    Key,
    build::Builder,
    python::{PythonFrames, Step},
    resolve::Resolve,
};
use crate::{
    profile::{LocationId, ProcessIndex, Reached, StackId, UnwindLosses},
    record::{NativeStack, Stack},
};

/// Functions that CPython's tail-calling interpreter runs single instructions in (3.14 and later).
const TAIL_CALL: &str = "_TAIL_CALL_";

/// Samples that have all in common, and their stacks as far as these are there.
pub(super) struct Sampled<'a> {
    pub(super) key: &'a Key,
    pub(super) python: Option<&'a Stack>,
    pub(super) native: Option<&'a NativeStack>,
    /// Their process.
    pub(super) process: ProcessIndex,
    /// Whether it runs Python.
    pub(super) is_python: bool,
    /// How many.
    pub(super) count: u64,
}

impl Sampled<'_> {
    /// The index of their whole stack; says what is missing of it.
    pub(super) fn stack(&self, builder: &mut Builder, resolve: &mut impl Resolve) -> StackId {
        let mut whole = Whole {
            sampled: self,
            builder,
            resolve,
            python: PythonFrames::new(self.python),
            locations: Vec::new(),
            of_loop: Vec::new(),
        };
        whole.join();
        let locations = whole.locations;
        self.count_walks(builder, resolve);
        builder.stack(locations)
    }

    /// Counts how far the native walks came.
    fn count_walks(&self, builder: &mut Builder, resolve: &mut impl Resolve) {
        match self.key.native_end {
            NativeUnwindStatus::NOT_WALKED | NativeUnwindStatus::KERNEL_ONLY => {}
            NativeUnwindStatus::COMPLETE => builder.walks.add_whole(self.process, self.count),
            _ => {
                let reached = self.reached(builder, resolve);
                builder.walks.add_broken(self.process, reached, self.count);
            }
        }
    }

    /// How far a native walk came that did not reach the entry.
    fn reached(&self, builder: &mut Builder, resolve: &mut impl Resolve) -> Reached {
        match self.native.and_then(|stack| stack.frames.last()) {
            Some(frame) if frame.kind == NativeKind::PYTHON => Reached::EvaluationLoop,
            Some(frame) if frame.kind != NativeKind::KERNEL => builder
                .executable(self.key.thread.tgid, frame, resolve)
                .map_or(Reached::Nothing, Reached::Executable),
            _ => Reached::Nothing,
        }
    }
}

/// A whole stack in the making.
struct Whole<'a, R> {
    sampled: &'a Sampled<'a>,
    builder: &'a mut Builder,
    resolve: &'a mut R,
    /// Python frames that have no place yet.
    python: PythonFrames<'a>,
    locations: Vec<LocationId>,
    /// Native frames at the root end so far that are a piece of an evaluation loop if one follows.
    of_loop: Vec<NativeFrame>,
}

impl<R: Resolve> Whole<'_, R> {
    fn join(&mut self) {
        let Sampled { key, count, .. } = *self.sampled;
        // Where the Python frames end, this is missing.
        let mut missing = self.python_missing();
        let native = self.sampled.native;
        for frame in native.iter().flat_map(|stack| &stack.frames) {
            if frame.kind == NativeKind::PYTHON {
                self.of_loop.clear();
                self.python_frames(u64::from(frame.id_or_count));
                if self.python.is_empty() {
                    self.markers(missing.drain(..));
                }
            } else {
                self.native_frame(frame);
            }
        }
        self.keep_of_loop();
        let has_native = !self.locations.is_empty();
        if native.is_none() && key.native_stack != 0 {
            self.builder.losses.lost_native_stacks += count;
            self.markers(["[native stack lost]"]);
        } else if let Some(marker) = unwound(key.native_end) {
            *unwind_loss(&mut self.builder.losses.unwind, key.native_end) += count;
            self.markers([marker]);
        }
        let matched = self.locations.len();
        self.python_frames(u64::MAX);
        if key.native_end == NativeUnwindStatus::COMPLETE
            && native.is_some()
            && self.locations.len() > matched
        {
            self.builder.losses.unmatched += count;
        }
        self.markers(missing);
        if ran_no_python(key.end) && !has_native {
            self.builder.losses.not_python += count;
            self.markers(["[no Python]"]);
        }
    }

    /// Counts what is missing of the Python frames; the markers for it.
    fn python_missing(&mut self) -> Vec<&'static str> {
        let Sampled { key, count, .. } = *self.sampled;
        let losses = &mut self.builder.losses;
        let mut missing = Vec::new();
        if self.sampled.python.is_some_and(|stack| stack.gap.is_some()) {
            losses.truncated += count;
        }
        if self.sampled.python.is_none() && key.stack != 0 {
            losses.incomplete += count;
            missing.push("[stack lost]");
        }
        if key.end != PythonUnwindStatus::COMPLETE && !ran_no_python(key.end) {
            losses.incomplete += count;
            missing.push(incomplete(key.end));
        }
        missing
    }

    /// Gives the next Python frames their place.
    fn python_frames(&mut self, frames: u64) {
        for step in self.python.take(frames) {
            let location = match step {
                Step::LeftOut => self.builder.marker("[frames left out]"),
                Step::Frame(frame) if frame.kind == FrameKind::HIDDEN => continue,
                Step::Frame(frame) => self.python_frame(frame),
            };
            self.locations.push(location);
        }
    }

    fn python_frame(&mut self, frame: &Frame) -> LocationId {
        if let Some(location) = self.builder.python(frame, self.resolve) {
            return location;
        }
        self.builder.losses.unresolved_frames += self.sampled.count;
        self.builder.marker("[function could not be read]")
    }

    fn native_frame(&mut self, frame: &NativeFrame) {
        if self.can_be_of_loop(frame) {
            self.of_loop.push(*frame);
        } else {
            self.keep_of_loop();
            self.keep(frame);
        }
    }

    /// Whether a frame that stands on the leaf side of an evaluation loop would be a piece of it.
    fn can_be_of_loop(&mut self, frame: &NativeFrame) -> bool {
        if frame.kind == NativeKind::ANONYMOUS {
            // What CPython's own compiler made of the function that the loop runs.
            return self.sampled.is_python;
        }
        let tgid = self.sampled.key.thread.tgid;
        let named = self.builder.named(tgid, frame, self.resolve);
        // The last one is that which the others were put into.
        let function = named.resolved.functions.iter().flatten().last();
        function.is_some_and(|function| function.name.starts_with(TAIL_CALL))
    }

    /// No evaluation loop follows: what could have been pieces of one are none.
    fn keep_of_loop(&mut self) {
        for frame in std::mem::take(&mut self.of_loop) {
            self.keep(&frame);
        }
    }

    fn keep(&mut self, frame: &NativeFrame) {
        let tgid = self.sampled.key.thread.tgid;
        let named = self.builder.named(tgid, frame, self.resolve);
        if let Err(reason) = named.resolved.functions {
            self.builder.losses.unnamed.add(reason, self.sampled.count);
        }
        let location = self.builder.native(tgid, frame, self.resolve);
        self.locations.push(location);
    }

    fn markers(&mut self, markers: impl IntoIterator<Item = &'static str>) {
        for marker in markers {
            self.locations.push(self.builder.marker(marker));
        }
    }
}

fn ran_no_python(end: PythonUnwindStatus) -> bool {
    matches!(
        end,
        PythonUnwindStatus::NO_THREAD_STATE
            | PythonUnwindStatus::NO_FRAME
            | PythonUnwindStatus::NO_PYTHON
    )
}

/// What stands where Python frames are missing.
fn incomplete(end: PythonUnwindStatus) -> &'static str {
    match end {
        PythonUnwindStatus::THREAD_FAULT => "[incomplete: the thread's state was not in memory]",
        PythonUnwindStatus::FRAME_FAULT => "[incomplete: a frame was not in memory]",
        PythonUnwindStatus::BAD_POINTER => "[incomplete: a pointer led nowhere]",
        PythonUnwindStatus::CYCLE => "[incomplete: the frames led back to themselves]",
        PythonUnwindStatus::TOO_DEEP => "[incomplete: more frames than agent looks at]",
        PythonUnwindStatus::TOO_MANY_THREADS => "[incomplete: more threads than agent looks at]",
        PythonUnwindStatus::TORN => "[incomplete: the stack was just being changed]",
        _ => "[incomplete]",
    }
}

/// What stands where native frames are missing, if any are.
fn unwound(end: NativeUnwindStatus) -> Option<&'static str> {
    Some(match end {
        NativeUnwindStatus::NOT_WALKED
        | NativeUnwindStatus::COMPLETE
        | NativeUnwindStatus::KERNEL_ONLY => return None,
        NativeUnwindStatus::NO_REGISTERS => "[native frames unknown: no registers to start from]",
        NativeUnwindStatus::UNMAPPED => "[native frames unknown: an address outside known code]",
        NativeUnwindStatus::NO_TABLE => {
            "[native frames unknown: the unwind table was not loaded yet]"
        }
        NativeUnwindStatus::NO_RULE => "[native frames unknown: code without a rule to unwind it]",
        NativeUnwindStatus::FAULT => "[native frames unknown: the stack was not in memory]",
        NativeUnwindStatus::CFA_NOT_ABOVE => {
            "[native frames unknown: the stack led back to itself]"
        }
        NativeUnwindStatus::TOO_DEEP => "[native frames unknown: more frames than agent keeps]",
        _ => "[native frames unknown]",
    })
}

/// Where samples whose native frames are missing are counted.
fn unwind_loss(losses: &mut UnwindLosses, end: NativeUnwindStatus) -> &mut u64 {
    match end {
        NativeUnwindStatus::NO_REGISTERS => &mut losses.no_registers,
        NativeUnwindStatus::UNMAPPED => &mut losses.unmapped,
        NativeUnwindStatus::NO_TABLE => &mut losses.no_table,
        NativeUnwindStatus::NO_RULE => &mut losses.no_rule,
        NativeUnwindStatus::FAULT => &mut losses.fault,
        NativeUnwindStatus::CFA_NOT_ABOVE => &mut losses.stuck,
        NativeUnwindStatus::TOO_DEEP => &mut losses.too_deep,
        _ => &mut losses.other,
    }
}
