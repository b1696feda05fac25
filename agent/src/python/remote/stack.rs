//! The frames of one thread: the steps of the BPF programs, in their order and within their limits.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc};

use agent_common::{
    code::{Description, Head, read_head},
    hash::Hash,
    layout::{ABSENT, GilStyle, Layout, LineTableFormat},
    limits::{LINE_TABLE_PIECES, MAX_VISITED},
    memory::{Fault, UserAddr, UserMemory},
    record::{self, FrameKind, WalkEnd},
    scratch::Scratch,
    thread::{ThreadState, gil_holder, is_attached, prove},
    walk::{CodeObjects, Symbol, Walk, WalkStep},
};

use super::{Frame, Function, Run, Target, ThreadStack, name};
use crate::{
    bpf::{
        decode::decode,
        record::{CodeRecord, Gap, Record, Stack},
    },
    python::{line_table::LineTable, text, threading},
};

/// Hashes identify code objects within one reading only.
const SEED: u64 = 0;

/// Reads the stacks of threads, one after another.
pub(super) struct Reader<'a, M> {
    memory: &'a M,
    target: &'a Target,
    scratch: Box<Scratch>,
    walk: Box<Walk>,
    description: Box<Description>,
    known: KnownCode,
    described: HashMap<u64, Described>,
}

/// A code object that was read.
struct Described {
    function: Arc<Function>,
    format: LineTableFormat,
    first_line: i32,
    line_table: Vec<u8>,
    lines: Option<LineTable>,
}

impl<'a, M: UserMemory> Reader<'a, M> {
    pub(super) fn new(memory: &'a M, target: &'a Target) -> Self {
        Self {
            memory,
            target,
            scratch: Box::default(),
            walk: Box::default(),
            description: Box::default(),
            known: KnownCode::default(),
            described: HashMap::new(),
        }
    }

    /// Reads the stack of a thread with these thread states.
    pub(super) fn read(&mut self, thread_id: u64, states: Vec<ThreadState>) -> ThreadStack {
        self.walk.clear();
        let mut end = WalkEnd::NO_FRAME;
        let mut is_attached = None;
        let mut visited = 0;
        for state in &states {
            let holds_gil;
            (holds_gil, end) = self.walk(*state, thread_id, end, &mut visited);
            is_attached = is_attached.max(holds_gil);
            if !matches!(end, WalkEnd::ROOT | WalkEnd::NO_FRAME) {
                break;
            }
        }
        self.describe();
        let Resolved { frames, runs, gap } = self.resolve();
        let name = (end == WalkEnd::ROOT).then(|| self.name(&frames)).flatten();
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

    /// Walks the frames of one thread state. `inner` is the status of the walk of the inner states,
    /// `visited` the number of frames so far. Returns whether the thread holds the GIL in this
    /// state, and the status of the walk.
    fn walk(
        &mut self,
        state: ThreadState,
        thread_id: u64,
        inner: WalkEnd,
        visited: &mut u32,
    ) -> (Option<bool>, WalkEnd) {
        let layout = &self.target.layout;
        let is_first = *visited == 0;
        if !prove(self.memory, &mut self.scratch, layout, state, thread_id) {
            return (None, WalkEnd::THREAD_FAULT);
        }
        let holds_gil = if layout.interpreter.gil_style == GilStyle::IN_THREAD {
            Some(is_attached(&self.scratch, layout))
        } else {
            let holder = self.target.gil_holder;
            holder.map(|holder| gil_holder(self.memory, layout, holder) == state.address)
        };
        let step = self.walk.begin(self.memory, &mut self.scratch, layout);
        let mut end = self.follow(step, visited);
        let leads_nowhere = matches!(
            end,
            WalkEnd::FRAME_FAULT | WalkEnd::BAD_POINTER | WalkEnd::NO_FRAME
        );
        if leads_nowhere
            && is_first
            && layout.thread.cframe_previous != ABSENT
            && prove(self.memory, &mut self.scratch, layout, state, thread_id)
        {
            self.walk.clear();
            let step = self
                .walk
                .begin_below(self.memory, &mut self.scratch, layout);
            end = self.follow(step, visited);
        }
        (
            holds_gil,
            if end == WalkEnd::NO_FRAME { inner } else { end },
        )
    }

    /// Continues a walk from `step`, and returns its status.
    fn follow(&mut self, mut step: WalkStep, visited: &mut u32) -> WalkEnd {
        loop {
            match step {
                WalkStep::End(end) => return end,
                WalkStep::Next if *visited == MAX_VISITED => return WalkEnd::TOO_DEEP,
                WalkStep::Next => {}
            }
            *visited += 1;
            step = self.walk.step(
                self.memory,
                &mut self.scratch,
                &self.target.layout,
                &mut self.known,
            );
        }
    }

    /// Reads the code objects that are not cached. One that cannot be read stays without a name.
    fn describe(&mut self) {
        if !self.walk.has_unresolved() {
            return;
        }
        for nth in 0..u32::from(self.walk.shape().frame_count) {
            if let Some(code) = self.walk.unresolved(nth) {
                let _ = self.describe_one(code);
            }
        }
    }

    fn describe_one(&mut self, code: UserAddr) -> Result<(), Fault> {
        let Self {
            memory,
            scratch,
            description,
            ..
        } = self;
        let layout = &self.target.layout;
        let head = read_head(*memory, scratch, layout, code)?;
        if self.known.0.get(&code).is_some_and(|(of, _)| *of == head) {
            return Ok(());
        }
        description.read(*memory, scratch, layout, &head)?;
        let symbol = description.seal(SEED);
        if !self.described.contains_key(&symbol)
            && let Ok(Record::CodeObject(record)) = decode(description.record())
        {
            let mut described = Described::new(&record);
            let table = UserAddr(head.line_table).field(layout.text.bytes_data);
            for _ in 0..LINE_TABLE_PIECES {
                let start = u32::try_from(described.line_table.len()).map_err(|_| Fault)?;
                let from = UserAddr(table.0.wrapping_add(start.into()));
                if description.read_piece(*memory, from, start)? == 0 {
                    break;
                }
                if let Ok(Record::LineTablePiece(record)) = decode(description.record()) {
                    described.line_table.extend_from_slice(record.line_table);
                }
            }
            self.described.insert(symbol, described);
        }
        let symbol = Symbol {
            hash: symbol,
            first_traceable_bytes: head.first_traceable_bytes,
        };
        self.known.0.insert(code, (head, symbol));
        Ok(())
    }

    /// Symbolizes the frames of the walk.
    fn resolve(&mut self) -> Resolved {
        let shape = self.walk.shape();
        let mut hash = Hash::new(SEED);
        for nth in 0..usize::from(shape.frame_count) {
            let known = &self.known.0;
            let find = |code| known.get(&code).map(|(_, symbol)| *symbol);
            (hash, _) = self.walk.settle(nth, shape, hash, find);
        }
        self.walk.seal(shape, hash.finish());
        let Ok(Record::Stack(Stack { frames, gap, .. })) = decode(self.walk.record()) else {
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

    /// The runs of frames; frames that the interpreter hides do not count.
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
        let described = (!frame.is_unresolved())
            .then(|| self.described.get_mut(&frame.symbol))
            .flatten();
        match described {
            Some(described) => Frame {
                function: Some(Arc::clone(&described.function)),
                line: described.line(frame.instruction_offset.cast_signed()),
            },
            None => Frame {
                function: None,
                line: None,
            },
        }
    }
}

/// The symbolized frames of a thread.
#[derive(Default)]
struct Resolved {
    frames: Vec<Frame>,
    runs: Vec<Run>,
    /// Number of frames before the gap, where frames were left out.
    gap: Option<usize>,
}

impl Described {
    fn new(record: &CodeRecord<'_>) -> Self {
        let first_line = record.head.first_line;
        let function = Function {
            name: text::decode(record.head.name, record.name),
            file: text::decode(record.head.file, record.file),
            first_line: u32::try_from(first_line).ok().and_then(NonZeroU32::new),
        };
        Self {
            function: Arc::new(function),
            format: record.head.line_table_format,
            first_line,
            line_table: record.line_table.to_vec(),
            lines: None,
        }
    }

    /// The line of the instruction `offset` bytes into the bytecode.
    fn line(&mut self, offset: i32) -> Option<NonZeroU32> {
        self.lines
            .get_or_insert_with(|| LineTable::new(self.format, self.first_line, &self.line_table))
            .line(offset)
    }
}

/// Cache of the code objects that were read, with their heads, keyed by address.
#[derive(Default)]
struct KnownCode(HashMap<UserAddr, (Head, Symbol)>);

impl CodeObjects for KnownCode {
    fn symbol<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
    ) -> Option<Symbol> {
        let (known, symbol) = self.0.get(&code)?;
        // The process is running: the address may have been reused.
        let head = read_head(memory, scratch, layout, code).ok()?;
        (head == *known).then_some(*symbol)
    }
}
