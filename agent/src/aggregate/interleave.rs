//! Interleaves stacks: kernel and native frames, with the Python frames in place of the evaluation
//! loops that run them.
//!
//! ```text
//! native stack       Python stack    interleaved stack, leaf first
//! KERNEL  do_read                    do_read
//! FILE    read                       read
//! PYTHON  2          load, key       load
//!                                    key
//! FILE    list_sort                  list_sort
//! PYTHON  1          main            main
//! FILE    _start                     _start
//! ```
//!
//! Invariants: a frame that one of the walks has found is in the interleaved stack, unless the interpreter hides it, it
//! is part of an evaluation loop, or of the interrupt that took the processor of a thread which is not sampled by its
//! CPU time; missing frames have one marker, where they are missing; numbers from the BPF programs are untrusted. What
//! a thread waits for is a marker in place of the leaf, above all frames, and so are the lock and which thread it keeps
//! waiting; that it waits for work is one in place of the root.

#[cfg(test)]
mod tests;

use agent_common::decoded::{NativeStack, Stack};
use agent_common::record::{
    Frame, FrameKind, NativeFrame, NativeKind, NativeUnwindStatus, ProfileKind, PythonUnwindStatus,
    WaitReason,
};

use super::{
    builder::{NativeFrameIndex, ProfileBuilder},
    key::SampleKey,
    preemption::Preemption,
    python_frames::{PythonFrames, Step},
};
use crate::{
    profile::{
        ExecutableKind, GC_MARKER, IDLE_MARKER, LastFrame, LocationId, Memory, ProcessIndex,
        StackId, UnwindLosses, Wait, blocks_marker, lock_marker, raises_marker, releases_marker,
        stops_marker,
    },
    symbolize::SymbolizeFrames,
};

/// Prefix of the functions of CPython's tail-calling interpreter, one per bytecode instruction (3.14
/// and later).
const TAIL_CALL: &str = "_TAIL_CALL_";

/// Equal samples, with their stacks where these are known.
pub(super) struct SampledStack<'a> {
    pub(super) key: &'a SampleKey,
    pub(super) python: Option<&'a Stack>,
    pub(super) native: Option<&'a NativeStack>,
    /// Index of their process.
    pub(super) process: ProcessIndex,
    /// Whether the process runs Python.
    pub(super) is_python: bool,
    /// Whether the thread waited for work.
    pub(super) is_idle: bool,
    /// The name of the thread that it keeps waiting.
    pub(super) blocked: Option<&'a str>,
    /// The name of the lock for which it waits, or that it releases.
    pub(super) lock: Option<&'a str>,
    /// The class of the exception that it raises.
    pub(super) exception: Option<&'a str>,
    /// Number of samples.
    pub(super) count: u64,
}

impl SampledStack<'_> {
    /// The index of the interleaved stack; counts what is missing.
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
        let mut locations = interleaver.locations;
        if self.key.collects_garbage {
            locations.insert(0, builder.marker(GC_MARKER));
        }
        if let Some(memory) = Memory::from_type(self.key.memory) {
            locations.insert(0, builder.marker(memory.marker()));
        }
        if let Some(class) = self.exception {
            locations.insert(0, builder.marker(&raises_marker(class)));
        }
        if let Some(lock) = self.lock {
            let marker = if self.key.wait == WaitReason::NONE {
                releases_marker(lock)
            } else {
                lock_marker(lock)
            };
            locations.insert(0, builder.marker(&marker));
        } else if let Some(wait) = Wait::from_reason(self.key.wait) {
            locations.insert(0, builder.marker(wait.marker()));
        }
        if let Some(blocked) = self.blocked {
            let marker = if self.key.blocked.is_stopped {
                stops_marker(blocked)
            } else {
                blocks_marker(blocked)
            };
            locations.insert(0, builder.marker(&marker));
        }
        if self.is_idle {
            locations.push(builder.marker(IDLE_MARKER));
        }
        self.count_walks(builder, symbolizer);
        builder.stack(locations)
    }

    /// Counts the native stack as complete, or by its last frame.
    fn count_walks(&self, builder: &mut ProfileBuilder, symbolizer: &mut impl SymbolizeFrames) {
        match self.key.native_end {
            NativeUnwindStatus::NOT_WALKED | NativeUnwindStatus::KERNEL_ONLY => {}
            NativeUnwindStatus::COMPLETE => builder.walks.add_complete(self.process, self.count),
            _ => {
                let last_frame = self.last_frame(builder, symbolizer);
                builder
                    .walks
                    .add_incomplete(self.process, last_frame, self.count);
            }
        }
    }

    /// The last frame of an incomplete native stack.
    fn last_frame(
        &self,
        builder: &mut ProfileBuilder,
        symbolizer: &mut impl SymbolizeFrames,
    ) -> LastFrame {
        match self.native.and_then(|stack| stack.frames.last()) {
            Some(frame) if frame.kind == NativeKind::PYTHON => LastFrame::EvaluationLoop,
            Some(frame) if frame.kind != NativeKind::KERNEL => {
                let frame = builder.symbolize(self.key.thread.tgid, frame, symbolizer);
                let executable = builder.executable(frame);
                executable.map_or(LastFrame::NoFrame, LastFrame::Executable)
            }
            _ => LastFrame::NoFrame,
        }
    }
}

/// An interleaved stack being built.
struct Interleaver<'a, R> {
    sampled: &'a SampledStack<'a>,
    builder: &'a mut ProfileBuilder,
    symbolizer: &'a mut R,
    /// Python frames that are not in the stack yet.
    python: PythonFrames<'a>,
    locations: Vec<LocationId>,
    /// Native frames at the root end so far that are part of an evaluation loop if one follows.
    loop_candidates: Vec<NativeFrameIndex>,
}

impl<R: SymbolizeFrames> Interleaver<'_, R> {
    fn interleave(&mut self) {
        let SampledStack { key, count, .. } = *self.sampled;
        // Markers to add after the last Python frame.
        let mut missing = self.python_missing();
        if key.end == PythonUnwindStatus::INNER_UNKNOWN {
            self.markers(missing.drain(..));
        }
        let native = self.sampled.native;
        // What a sample of CPU time has seen there is CPU time.
        let mut preemption = (key.kind != ProfileKind::CPU).then(Preemption::default);
        for frame in native.iter().flat_map(|stack| &stack.frames) {
            preemption = preemption.filter(|_| frame.kind == NativeKind::KERNEL);
            if let Some(preemption) = &mut preemption
                && self.is_covered(preemption, frame)
            {
                continue;
            }
            if frame.kind == NativeKind::PYTHON {
                self.loop_candidates.clear();
                self.python_frames(u64::from(frame.id_or_count));
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
        if key.native_end == NativeUnwindStatus::COMPLETE
            && native.is_some()
            && self.locations.len() > matched
        {
            self.builder.losses.unmatched += count;
        }
        self.markers(missing);
        if has_no_python(key.end) && !has_native {
            self.builder.losses.not_python += count;
            self.markers(["[no Python]"]);
        }
    }

    /// Whether a kernel frame is of the interrupt that took the processor of the thread.
    fn is_covered(&mut self, preemption: &mut Preemption, frame: &NativeFrame) -> bool {
        let tgid = self.sampled.key.thread.tgid;
        let index = self.builder.symbolize(tgid, frame, self.symbolizer);
        let frame = self.builder.symbolized(index);
        let functions = frame.functions.as_deref().unwrap_or_default();
        let function = functions.last();
        function.is_some_and(|function| preemption.covers(&function.name))
    }

    /// Counts missing Python frames and returns the markers for them.
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
        if key.end != PythonUnwindStatus::COMPLETE && !has_no_python(key.end) {
            losses.incomplete += count;
            missing.push(incomplete_marker(key.end));
        }
        missing
    }

    /// Adds the next Python frames.
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
        self.builder.marker("[unknown code object]")
    }

    fn native_frame(&mut self, frame: &NativeFrame) {
        let tgid = self.sampled.key.thread.tgid;
        let index = self.builder.symbolize(tgid, frame, self.symbolizer);
        if self.is_loop_candidate(frame.kind, index) {
            self.loop_candidates.push(index);
        } else {
            self.push_loop_candidates();
            self.push_native(index);
        }
    }

    /// Whether a frame just before an evaluation loop, on its leaf side, would be part of the loop.
    fn is_loop_candidate(&self, kind: NativeKind, frame: NativeFrameIndex) -> bool {
        if kind == NativeKind::ANONYMOUS {
            // Code of CPython's own JIT compiler for the function that the loop runs.
            return self.sampled.is_python;
        }
        // The last function is the outermost; the others are inlined into it.
        let frame = self.builder.symbolized(frame);
        let functions = frame.functions.as_deref().unwrap_or_default();
        let function = functions.last();
        function.is_some_and(|function| function.name.starts_with(TAIL_CALL))
    }

    /// Adds the candidates as frames of their own: no evaluation loop follows.
    fn push_loop_candidates(&mut self) {
        for frame in std::mem::take(&mut self.loop_candidates) {
            self.push_native(frame);
        }
    }

    fn push_native(&mut self, frame: NativeFrameIndex) {
        let symbolized = self.builder.symbolized(frame);
        let is_anonymous = symbolized.executable.kind == ExecutableKind::Anonymous;
        let is_unnamed_jit = is_anonymous && symbolized.functions.is_err();
        if let Err(reason) = symbolized.functions {
            self.builder
                .losses
                .unsymbolized_native_frames
                .add(reason, self.sampled.count);
        }
        let location = self.builder.native(frame);
        // Functions of a JIT compiler that call each other are one where they have no names.
        if !is_unnamed_jit || self.locations.last() != Some(&location) {
            self.locations.push(location);
        }
    }

    fn markers(&mut self, markers: impl IntoIterator<Item = &'static str>) {
        for marker in markers {
            self.locations.push(self.builder.marker(marker));
        }
    }
}

/// Whether there are no Python frames, so that none are missing.
fn has_no_python(end: PythonUnwindStatus) -> bool {
    matches!(
        end,
        PythonUnwindStatus::NO_THREAD_STATE
            | PythonUnwindStatus::NO_FRAME
            | PythonUnwindStatus::NO_PYTHON
    )
}

/// Marker for missing Python frames.
#[must_use]
pub fn incomplete_marker(end: PythonUnwindStatus) -> &'static str {
    match end {
        PythonUnwindStatus::THREAD_FAULT => "[incomplete: the thread state was not in memory]",
        PythonUnwindStatus::FRAME_FAULT => "[incomplete: a frame was not in memory]",
        PythonUnwindStatus::BAD_POINTER => "[incomplete: invalid pointer]",
        PythonUnwindStatus::CYCLE => "[incomplete: cycle of frames]",
        PythonUnwindStatus::TOO_DEEP => "[incomplete: frame limit reached]",
        PythonUnwindStatus::TOO_MANY_THREADS => "[incomplete: thread limit reached]",
        PythonUnwindStatus::OVER_BUDGET => "[incomplete: searching the threads takes too long]",
        PythonUnwindStatus::INNER_UNKNOWN => "[incomplete: inner functions changed]",
        PythonUnwindStatus::NOT_SAMPLED => "[incomplete: the thread was not sampled]",
        PythonUnwindStatus::TORN => "[incomplete: the stack changed during the walk]",
        _ => "[incomplete]",
    }
}

/// Marker for missing native frames; [`None`] where none are missing.
#[must_use]
pub fn unwind_marker(end: NativeUnwindStatus) -> Option<&'static str> {
    Some(match end {
        NativeUnwindStatus::NOT_WALKED
        | NativeUnwindStatus::COMPLETE
        | NativeUnwindStatus::KERNEL_ONLY => return None,
        NativeUnwindStatus::NO_REGISTERS => "[native frames unknown: no registers]",
        NativeUnwindStatus::UNMAPPED => "[native frames unknown: address outside known mappings]",
        NativeUnwindStatus::NO_TABLE => {
            "[native frames unknown: the unwind table was not loaded yet]"
        }
        NativeUnwindStatus::NO_RULE => "[native frames unknown: no unwind rule for the address]",
        NativeUnwindStatus::FAULT => "[native frames unknown: the stack was not in memory]",
        NativeUnwindStatus::CFA_NOT_ABOVE => {
            "[native frames unknown: the caller's frame is not above]"
        }
        NativeUnwindStatus::TOO_DEEP => "[native frames unknown: frame limit reached]",
        _ => "[native frames unknown]",
    })
}

/// Counter of samples with an incomplete native stack.
fn unwind_loss(losses: &mut UnwindLosses, end: NativeUnwindStatus) -> &mut u64 {
    match end {
        NativeUnwindStatus::NO_REGISTERS => &mut losses.no_registers,
        NativeUnwindStatus::UNMAPPED => &mut losses.unmapped,
        NativeUnwindStatus::NO_TABLE => &mut losses.no_table,
        NativeUnwindStatus::NO_RULE => &mut losses.no_rule,
        NativeUnwindStatus::FAULT => &mut losses.fault,
        NativeUnwindStatus::CFA_NOT_ABOVE => &mut losses.cfa_not_above,
        NativeUnwindStatus::TOO_DEEP => &mut losses.too_deep,
        _ => &mut losses.other,
    }
}
