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

use agent_common::record::{Frame, FrameKind, NativeEnd, NativeFrame, NativeKind, WalkEnd};

use super::{
    builder::ProfileBuilder,
    key::SampleKey,
    python_frames::{PythonFrames, Step},
};
use crate::{
    bpf::record::{NativeStack, Stack},
    profile::{LastFrame, LocationId, ProcessIndex, StackId, UnwindLosses},
    symbolize::SymbolizeFrames,
};

/// Functions that CPython's tail-calling interpreter runs single instructions in (3.14 and later).
const TAIL_CALL: &str = "_TAIL_CALL_";

/// Samples that have all in common, and their stacks as far as these are there.
pub(super) struct SampledStack<'a> {
    pub(super) key: &'a SampleKey,
    pub(super) python: Option<&'a Stack>,
    pub(super) native: Option<&'a NativeStack>,
    /// Their process.
    pub(super) process: ProcessIndex,
    /// Whether it runs Python.
    pub(super) is_python: bool,
    /// How many.
    pub(super) count: u64,
}

impl SampledStack<'_> {
    /// The index of their whole stack; says what is missing of it.
    pub(super) fn stack(
        &self,
        builder: &mut ProfileBuilder,
        symbolizer: &mut impl SymbolizeFrames,
    ) -> StackId {
        let mut interleaver = Interleaver {
            sampled: self,
            builder,
            symbolizer,
            python: PythonFrames::new(self.python),
            locations: Vec::new(),
            loop_candidates: Vec::new(),
        };
        interleaver.interleave();
        let locations = interleaver.locations;
        self.count_walks(builder, symbolizer);
        builder.stack(locations)
    }

    /// Counts how far the native walks came.
    fn count_walks(&self, builder: &mut ProfileBuilder, symbolizer: &mut impl SymbolizeFrames) {
        match self.key.native_end {
            NativeEnd::NOT_WALKED | NativeEnd::KERNEL_ALONE => {}
            NativeEnd::ENTRY => builder.walks.add_complete(self.process, self.count),
            _ => {
                let last_frame = self.last_frame(builder, symbolizer);
                builder
                    .walks
                    .add_incomplete(self.process, last_frame, self.count);
            }
        }
    }

    /// How far a native walk came that did not reach the entry.
    fn last_frame(
        &self,
        builder: &mut ProfileBuilder,
        symbolizer: &mut impl SymbolizeFrames,
    ) -> LastFrame {
        match self.native.and_then(|stack| stack.frames.last()) {
            Some(frame) if frame.kind == NativeKind::PYTHON => LastFrame::EvaluationLoop,
            Some(frame) if frame.kind != NativeKind::KERNEL => builder
                .executable(self.key.thread.tgid, frame, symbolizer)
                .map_or(LastFrame::NoFrame, LastFrame::Executable),
            _ => LastFrame::NoFrame,
        }
    }
}

/// A whole stack in the making.
struct Interleaver<'a, R> {
    sampled: &'a SampledStack<'a>,
    builder: &'a mut ProfileBuilder,
    symbolizer: &'a mut R,
    /// Python frames that have no place yet.
    python: PythonFrames<'a>,
    locations: Vec<LocationId>,
    /// Native frames at the root end so far that are a piece of an evaluation loop if one follows.
    loop_candidates: Vec<NativeFrame>,
}

impl<R: SymbolizeFrames> Interleaver<'_, R> {
    fn interleave(&mut self) {
        let SampledStack { key, count, .. } = *self.sampled;
        // Where the Python frames end, this is missing.
        let mut missing = self.python_missing();
        let native = self.sampled.native;
        for frame in native.iter().flat_map(|stack| &stack.frames) {
            if frame.kind == NativeKind::PYTHON {
                self.loop_candidates.clear();
                self.python_frames(u64::from(frame.of));
                if self.python.is_empty() {
                    self.markers(missing.drain(..));
                }
            } else {
                self.native_frame(frame);
            }
        }
        self.push_loop_candidates();
        let has_native = !self.locations.is_empty();
        if native.is_none() && key.native_stack != 0 {
            self.builder.losses.lost_native_stacks += count;
            self.markers(["[native stack lost]"]);
        } else if let Some(marker) = unwind_marker(key.native_end) {
            *unwind_loss(&mut self.builder.losses.unwind, key.native_end) += count;
            self.markers([marker]);
        }
        let matched = self.locations.len();
        self.python_frames(u64::MAX);
        if key.native_end == NativeEnd::ENTRY && native.is_some() && self.locations.len() > matched
        {
            self.builder.losses.unmatched += count;
        }
        self.markers(missing);
        if is_without_python(key.end) && !has_native {
            self.builder.losses.not_python += count;
            self.markers(["[no Python]"]);
        }
    }

    /// Counts what is missing of the Python frames; the markers for it.
    fn python_missing(&mut self) -> Vec<&'static str> {
        let SampledStack { key, count, .. } = *self.sampled;
        let losses = &mut self.builder.losses;
        let mut missing = Vec::new();
        if self.sampled.python.is_some_and(|stack| stack.gap.is_some()) {
            losses.truncated += count;
        }
        if self.sampled.python.is_none() && key.stack != 0 {
            losses.incomplete += count;
            missing.push("[stack lost]");
        }
        if key.end != WalkEnd::ROOT && !is_without_python(key.end) {
            losses.incomplete += count;
            missing.push(incomplete_marker(key.end));
        }
        missing
    }

    /// Gives the next Python frames their place.
    fn python_frames(&mut self, frames: u64) {
        for step in self.python.take(frames) {
            let location = match step {
                Step::Gap => self.builder.marker("[frames left out]"),
                Step::Frame(frame) if frame.kind == FrameKind::HIDDEN => continue,
                Step::Frame(frame) => self.python_frame(frame),
            };
            self.locations.push(location);
        }
    }

    fn python_frame(&mut self, frame: &Frame) -> LocationId {
        if let Some(location) = self.builder.python(frame, self.symbolizer) {
            return location;
        }
        self.builder.losses.unsymbolized_python_frames += self.sampled.count;
        self.builder.marker("[function could not be read]")
    }

    fn native_frame(&mut self, frame: &NativeFrame) {
        if self.is_loop_candidate(frame) {
            self.loop_candidates.push(*frame);
        } else {
            self.push_loop_candidates();
            self.push_native(frame);
        }
    }

    /// Whether a frame that stands on the leaf side of an evaluation loop would be a piece of it.
    fn is_loop_candidate(&mut self, frame: &NativeFrame) -> bool {
        if frame.kind == NativeKind::ANONYMOUS {
            // What CPython's own compiler made of the function that the loop runs.
            return self.sampled.is_python;
        }
        let tgid = self.sampled.key.thread.tgid;
        let entry = self.builder.symbolized(tgid, frame, self.symbolizer);
        // The last one is that which the others were put into.
        let function = entry.frame.functions.iter().flatten().last();
        function.is_some_and(|function| function.name.starts_with(TAIL_CALL))
    }

    /// No evaluation loop follows: what could have been pieces of one are none.
    fn push_loop_candidates(&mut self) {
        for frame in std::mem::take(&mut self.loop_candidates) {
            self.push_native(&frame);
        }
    }

    fn push_native(&mut self, frame: &NativeFrame) {
        let tgid = self.sampled.key.thread.tgid;
        let entry = self.builder.symbolized(tgid, frame, self.symbolizer);
        if let Err(reason) = entry.frame.functions {
            self.builder
                .losses
                .unsymbolized_native_frames
                .add(reason, self.sampled.count);
        }
        let location = self.builder.native(tgid, frame, self.symbolizer);
        self.locations.push(location);
    }

    fn markers(&mut self, markers: impl IntoIterator<Item = &'static str>) {
        for marker in markers {
            self.locations.push(self.builder.marker(marker));
        }
    }
}

fn is_without_python(end: WalkEnd) -> bool {
    matches!(
        end,
        WalkEnd::NO_THREAD_STATE | WalkEnd::NO_FRAME | WalkEnd::NO_PYTHON
    )
}

/// What stands where Python frames are missing.
fn incomplete_marker(end: WalkEnd) -> &'static str {
    match end {
        WalkEnd::THREAD_FAULT => "[incomplete: the thread's state was not in memory]",
        WalkEnd::FRAME_FAULT => "[incomplete: a frame was not in memory]",
        WalkEnd::BAD_POINTER => "[incomplete: a pointer led nowhere]",
        WalkEnd::CYCLE => "[incomplete: the frames led back to themselves]",
        WalkEnd::TOO_DEEP => "[incomplete: more frames than agent looks at]",
        WalkEnd::TOO_MANY_THREADS => "[incomplete: more threads than agent looks at]",
        WalkEnd::TORN => "[incomplete: the stack was just being changed]",
        _ => "[incomplete]",
    }
}

/// What stands where native frames are missing, if any are.
fn unwind_marker(end: NativeEnd) -> Option<&'static str> {
    Some(match end {
        NativeEnd::NOT_WALKED | NativeEnd::ENTRY | NativeEnd::KERNEL_ALONE => return None,
        NativeEnd::NO_REGISTERS => "[native frames unknown: no registers to start from]",
        NativeEnd::UNMAPPED => "[native frames unknown: an address outside known code]",
        NativeEnd::NO_TABLE => "[native frames unknown: the unwind table was not loaded yet]",
        NativeEnd::NO_RULE => "[native frames unknown: code without a rule to unwind it]",
        NativeEnd::FAULT => "[native frames unknown: the stack was not in memory]",
        NativeEnd::STUCK => "[native frames unknown: the stack led back to itself]",
        NativeEnd::TOO_DEEP => "[native frames unknown: more frames than agent keeps]",
        _ => "[native frames unknown]",
    })
}

/// Where samples whose native frames are missing are counted.
fn unwind_loss(losses: &mut UnwindLosses, end: NativeEnd) -> &mut u64 {
    match end {
        NativeEnd::NO_REGISTERS => &mut losses.no_registers,
        NativeEnd::UNMAPPED => &mut losses.unmapped,
        NativeEnd::NO_TABLE => &mut losses.no_table,
        NativeEnd::NO_RULE => &mut losses.no_rule,
        NativeEnd::FAULT => &mut losses.fault,
        NativeEnd::STUCK => &mut losses.cfa_not_above,
        NativeEnd::TOO_DEEP => &mut losses.too_deep,
        _ => &mut losses.other,
    }
}
