//! The frames of one thread: the steps of the BPF programs, in their order and within their limits.

use agent_common::{
    decode::decode,
    decoded::{Gap, Record, Stack},
    hash::Hash,
    layout::GilStyle,
    maps::ThreadState,
    memory::{UserAddr, UserMemory},
    python::{PythonOutcome, PythonWalk, ThreadWalk, UnwindPython, WalkPosition, gil_holder},
    record::{self, FrameKind, PythonUnwindStatus},
    scratch::Scratch,
};

use super::{
    Frame, Run, Target, ThreadStack,
    code::{CodeObjects, KnownCode, SEED},
    name,
};
use crate::python::threading;

/// Reads the stacks of threads, one after another.
pub(super) struct Reader<'a, M> {
    memory: &'a M,
    target: &'a Target,
    scratch: Box<Scratch>,
    walk: Box<PythonWalk>,
    code: CodeObjects,
}

impl<'a, M: UserMemory> Reader<'a, M> {
    pub(super) fn new(memory: &'a M, target: &'a Target) -> Self {
        Self {
            memory,
            target,
            scratch: Box::default(),
            walk: Box::default(),
            code: CodeObjects::default(),
        }
    }

    /// Reads the stack of a thread with these thread states.
    pub(super) fn read(&mut self, thread_id: u64, states: Vec<ThreadState>) -> ThreadStack {
        self.walk.clear();
        let mut position = WalkPosition::new();
        let mut steps = Steps {
            walk: ThreadWalk {
                memory: self.memory,
                scratch: &mut self.scratch,
                layout: &self.target.layout,
                walk: &mut self.walk,
                position: &mut position,
                thread_id,
            },
            states: &states,
            symbols: &mut self.code.known,
            gil_holder: self.target.gil_holder,
            is_attached: None,
        };
        let end = steps.unwind();
        let mut is_attached = steps.is_attached;
        if position.holds_gil() {
            is_attached = Some(true);
        }
        self.describe();
        let Resolved { frames, runs, gap } = self.resolve();
        let is_complete = end == PythonUnwindStatus::COMPLETE;
        let name = is_complete.then(|| self.name(&frames)).flatten();
        ThreadStack {
            thread_id,
            name,
            states,
            is_attached,
            frames,
            runs,
            gap,
            end,
        }
    }

    /// Describes the code objects that are new. One that cannot be read stays without a name.
    fn describe(&mut self) {
        if !self.walk.stack.has_unresolved() {
            return;
        }
        for nth in 0..u32::from(self.walk.stack.shape().frame_count) {
            if let Some(code) = self.walk.stack.unresolved(nth) {
                let layout = &self.target.layout;
                let _ = self
                    .code
                    .describe(self.memory, &mut self.scratch, layout, code);
            }
        }
    }

    /// Symbolizes the frames of the walk.
    fn resolve(&mut self) -> Resolved {
        let shape = self.walk.stack.shape();
        let mut hash = Hash::new(SEED);
        for nth in 0..usize::from(shape.frame_count) {
            let known = &self.code.known;
            let find = |code| known.get(code);
            (hash, _) = self.walk.stack.hash_frame(nth, shape, hash, find);
        }
        self.walk.stack.finish_record(shape, hash.finish());
        let Ok(Record::Stack(Stack { frames, gap, .. })) = decode(self.walk.stack.record()) else {
            return Resolved::default();
        };
        let runs = self.runs(&frames, gap);
        let is_visible = |frame: &&record::Frame| frame.kind != FrameKind::HIDDEN;
        let shown = |frames: &[record::Frame]| frames.iter().filter(is_visible).count();
        let gap = gap.map(|gap| shown(&frames[..gap.after.min(frames.len())]));
        let frames = frames.iter().filter(is_visible);
        let frames = frames.map(|frame| self.resolve_one(frame)).collect();
        Resolved { frames, runs, gap }
    }

    /// The runs of frames, of which those that the interpreter hides do not count.
    fn runs(&self, frames: &[record::Frame], gap: Option<Gap>) -> Vec<Run> {
        let depth_of = |nth: usize| {
            let left_out = gap.filter(|gap| nth >= gap.after);
            nth + left_out.map_or(0, |gap| gap.frames as usize)
        };
        let hidden: Vec<_> = (0..frames.len())
            .filter(|nth| frames[*nth].kind == FrameKind::HIDDEN)
            .map(depth_of)
            .collect();
        let runs = &self.walk.runs;
        (0..runs.count())
            .map(|nth| {
                let run = runs.get(nth);
                let depth = run.depth as usize;
                Run {
                    address: UserAddr(run.address),
                    depth: depth - hidden.partition_point(|hidden| *hidden < depth),
                }
            })
            .collect()
    }

    /// The name of the thread that runs these frames.
    fn name(&mut self, frames: &[Frame]) -> Option<String> {
        let root = frames.last()?.function.as_ref()?;
        if !threading::is_bootstrap(&root.name, &root.file) {
            return None;
        }
        let (scratch, layout) = (&mut self.scratch, &self.target.layout);
        name::read(self.memory, scratch, layout, self.walk.root())
            .ok()
            .flatten()
    }

    fn resolve_one(&mut self, frame: &record::Frame) -> Frame {
        if frame.is_unresolved() {
            return Frame {
                function: None,
                line: None,
            };
        }
        self.code
            .frame(frame.symbol, frame.instruction_offset.cast_signed())
    }
}

/// The steps of the walk of one thread.
struct Steps<'a, M> {
    walk: ThreadWalk<'a, M>,
    states: &'a [ThreadState],
    symbols: &'a mut KnownCode,
    gil_holder: Option<UserAddr>,
    /// See [`ThreadStack::is_attached`].
    is_attached: Option<bool>,
}

impl<M: UserMemory> UnwindPython for Steps<'_, M> {
    const FRAMES_PER_STEP: u32 = 1;

    fn load_state(&mut self) -> PythonOutcome {
        let outcome = self.walk.load_first_state(self.states);
        if outcome == PythonOutcome::DONE {
            let layout = self.walk.layout;
            self.is_attached = if layout.interpreter.gil_style == GilStyle::IN_THREAD {
                Some(self.walk.position.holds_gil())
            } else {
                self.gil_holder.map(|pointer| {
                    let holder = gil_holder(self.walk.memory, layout, pointer);
                    self.states.iter().any(|state| state.address == holder)
                })
            };
        }
        outcome
    }

    fn begin_walk(&mut self) -> PythonOutcome {
        self.walk.begin()
    }

    fn walk_frames(&mut self) -> PythonOutcome {
        let outcome = self.walk.walk_frames(self.symbols, Self::FRAMES_PER_STEP);
        if outcome == PythonOutcome::NEXT {
            return outcome;
        }
        self.continue_walk(outcome.status())
    }

    fn continue_walk(&mut self, status: PythonUnwindStatus) -> PythonOutcome {
        self.walk.continue_walk(self.states, status)
    }
}

/// The symbolized frames of a thread.
#[derive(Default)]
struct Resolved {
    frames: Vec<Frame>,
    runs: Vec<Run>,
    /// After how many of them others were left out.
    gap: Option<usize>,
}
