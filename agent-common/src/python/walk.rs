//! The walk of a thread's Python frames, leaf to root.
//!
//! Invariants: one step looks at one frame and reads a bounded number of bytes; a chain that
//! leads back to itself is noticed; of a stack deeper than [`MAX_FRAMES`] the leaf-most and the
//! root-most frames are kept.

use core::mem::offset_of;

use crate::{
    hash::Hash,
    layout::{ABSENT, CodeLayout, InstructionStyle, Layout, RunStyle},
    limits::{LEAF_FRAMES, MAX_FRAMES, ROOT_FRAMES},
    memory::{Fault, UserAddr, UserMemory},
    record::{Frame, FrameKind, Header, PythonUnwindStatus, RecordKind, StackHead},
    scratch::{SLOT, Scratch},
    volatile::{Volatile, masked},
};

use super::{data_stack::DataStack, runs::PythonRuns};

/// Owners from here on mark frames that the interpreter makes for itself
/// (`FRAME_OWNED_BY_CSTACK`, `FRAME_OWNED_BY_INTERPRETER`).
const FIRST_INTERNAL_OWNER: u8 = 3;

/// `FRAME_OWNED_BY_GENERATOR`.
const OWNED_BY_GENERATOR: u8 = 1;

/// Where what is known about a process's code objects is kept.
pub trait SymbolLookup {
    /// The hash of the code object at `code`, with the bytes of its bytecode that the
    /// interpreter does not show; [`None`] when it has to be described first.
    fn symbol<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
    ) -> Option<CodeSymbol>;
}

/// What a frame needs to know of its code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSymbol {
    /// Hash of the code object.
    pub hash: u64,
    /// See [`CodeIdentity::first_traceable_bytes`](crate::maps::CodeIdentity::first_traceable_bytes).
    pub first_traceable_bytes: u32,
}

/// What one step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PythonStep {
    /// There is another frame.
    Next,
    /// The walk is over.
    End(PythonUnwindStatus),
}

/// A walk, and the frames that it has kept.
#[repr(C)]
#[derive(Debug)]
pub struct PythonWalk {
    /// The frame to look at next.
    frame: Volatile<u64>,
    /// The frame that was kept last.
    root: Volatile<u64>,
    /// A frame passed earlier, renewed at every power of two (Brent's algorithm).
    landmark: Volatile<u64>,
    /// Where frames are copied from.
    data_stack: DataStack,
    /// Frames looked at.
    visited: Volatile<u32>,
    /// Frames kept, with those that were overwritten since.
    depth: Volatile<u32>,
    /// Frames kept whose code objects have to be described.
    unresolved: Volatile<u32>,
    /// 1 when the frame looked at last was one of the interpreter's own.
    last_is_internal: Volatile<u32>,
    /// The `_PyCFrame` of the evaluation loop whose frames are looked at, where there are such.
    cframe: Volatile<u64>,
    /// Which frames run in one evaluation loop.
    pub runs: PythonRuns,
    /// The head of the record; the frames follow it directly.
    pub head: StackHead,
    /// The frames; see [`StackHead`] for their order.
    pub frames: [Frame; MAX_FRAMES],
}

const NO_FRAME: Frame = Frame {
    symbol: 0,
    instruction_offset: 0,
    kind: FrameKind(0),
};

const NO_STACK: StackHead = StackHead {
    header: Header {
        kind: RecordKind::STACK,
        reserved: 0,
        bytes: 0,
    },
    stack: 0,
    frame_count: 0,
    root_start: 0,
    left_out: 0,
};

impl PythonWalk {
    /// A walk that has not begun.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            frame: Volatile::new(0),
            root: Volatile::new(0),
            landmark: Volatile::new(0),
            data_stack: DataStack::new(),
            visited: Volatile::new(0),
            depth: Volatile::new(0),
            unresolved: Volatile::new(0),
            last_is_internal: Volatile::new(0),
            cframe: Volatile::new(0),
            runs: PythonRuns::new(),
            head: NO_STACK,
            frames: [NO_FRAME; MAX_FRAMES],
        }
    }

    /// Forgets the walk before.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.root.set(0);
        self.visited.set(0);
        self.depth.set(0);
        self.unresolved.set(0);
        self.runs.clear();
    }

    /// Begins at the newest frame of the thread state that is in the slot, and copies the
    /// newest part of its data stack. The walk before must have been forgotten, unless it came to
    /// the root of an inner state of the same thread.
    #[inline(always)]
    pub fn begin<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
    ) -> PythonStep {
        let cframe = UserAddr(scratch.word(SLOT + layout.thread.frame as usize));
        self.begin_at(memory, scratch, layout, cframe)
    }

    /// The same, at the newest frame of the evaluation loop that called the newest one, where
    /// loops have a `_PyCFrame` (3.11, 3.12).
    ///
    /// The newest loop makes its own known before it has set a frame, and until then that may be
    /// anything: a walk from there leads nowhere.
    #[inline(always)]
    pub fn begin_at_caller<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
    ) -> PythonStep {
        let newest = UserAddr(scratch.word(SLOT + layout.thread.frame as usize));
        match memory.word(newest.field(layout.thread.cframe_previous)) {
            Ok(previous) => self.begin_at(memory, scratch, layout, UserAddr(previous)),
            Err(Fault) => PythonStep::End(PythonUnwindStatus::THREAD_FAULT),
        }
    }

    #[inline(always)]
    fn begin_at<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        start: UserAddr,
    ) -> PythonStep {
        self.landmark.set(0);
        self.last_is_internal.set(0);
        self.data_stack.clear();
        let fields = &layout.thread;
        let at = |offset: u16| SLOT + offset as usize;
        let mut frame = start.0;
        if fields.cframe_current_frame != ABSENT && frame != 0 {
            self.cframe.set(start.0);
            match memory.word(start.field(fields.cframe_current_frame)) {
                Ok(current) => frame = current,
                Err(Fault) => return PythonStep::End(PythonUnwindStatus::THREAD_FAULT),
            }
        }
        self.frame.set(frame);
        if frame == 0 {
            return PythonStep::End(PythonUnwindStatus::NO_FRAME);
        }
        if fields.datastack_chunk != ABSENT {
            let chunk = scratch.word(at(fields.datastack_chunk));
            let top = scratch.word(at(fields.datastack_top));
            self.data_stack.begin(memory, scratch, chunk, top);
        }
        PythonStep::Next
    }

    /// Looks at one frame.
    #[inline(always)]
    pub fn step<M: UserMemory, C: SymbolLookup>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code_objects: &mut C,
    ) -> PythonStep {
        let fields = &layout.frame;
        let address = UserAddr(self.frame.get());
        if address.is_null() {
            let is_root =
                fields.run_style != RunStyle::ENTRY_FRAMES || self.last_is_internal.get() == 1;
            return PythonStep::End(if is_root {
                PythonUnwindStatus::COMPLETE
            } else {
                PythonUnwindStatus::TORN
            });
        }
        if !address.could_be_structure() {
            return PythonStep::End(PythonUnwindStatus::BAD_POINTER);
        }
        if address.0 == self.landmark.get() {
            return PythonStep::End(PythonUnwindStatus::CYCLE);
        }
        let visited = self.visited.get() + 1;
        self.visited.set(visited);
        if visited.is_power_of_two() {
            self.landmark.set(address.0);
        }
        let Ok(at) = self.data_stack.locate(memory, scratch, fields, address) else {
            return PythonStep::End(PythonUnwindStatus::FRAME_FAULT);
        };
        self.frame.set(scratch.word(at + fields.previous as usize));
        // The low bits are a tag from 3.14 on; code objects are aligned to eight bytes.
        let code = UserAddr(scratch.word(at + fields.code as usize) & !7);
        let owner = if fields.owner == ABSENT {
            0
        } else {
            scratch.byte(at + fields.owner as usize)
        };
        let is_internal = owner >= FIRST_INTERNAL_OWNER;
        self.last_is_internal.set(u32::from(is_internal));
        if is_internal {
            self.runs.end(address.0, self.depth.get());
        }
        if is_internal || code.is_null() {
            return PythonStep::Next;
        }
        let is_entry =
            fields.run_style == RunStyle::MARKED && scratch.byte(at + fields.entry as usize) != 0;
        let position = at + fields.instruction as usize;
        let instruction_offset = if fields.instruction_style == InstructionStyle::POINTER {
            let copy = if fields.bytecode_copy == ABSENT {
                0
            } else {
                scratch.half(at + fields.bytecode_copy as usize)
            };
            let Ok(bytecode) = bytecode(memory, &layout.code, code, copy) else {
                return PythonStep::End(PythonUnwindStatus::FRAME_FAULT);
            };
            scratch.word(position).wrapping_sub(bytecode) as u32
        } else {
            let index = scratch.half(position);
            if index == u32::MAX {
                index
            } else {
                index.wrapping_mul(u32::from(fields.instruction_unit))
            }
        };
        let frame = match code_objects.symbol(memory, scratch, layout, code) {
            Some(symbol) => Frame {
                symbol: symbol.hash,
                instruction_offset,
                kind: FrameKind::PYTHON,
            }
            .hidden_if(owner != OWNED_BY_GENERATOR, symbol),
            None => Frame {
                symbol: code.0,
                instruction_offset,
                kind: if owner == OWNED_BY_GENERATOR {
                    FrameKind::UNRESOLVED_GENERATOR
                } else {
                    FrameKind::UNRESOLVED
                },
            },
        };
        if frame.kind != FrameKind::HIDDEN {
            self.root.set(address.0);
            self.push(frame);
        }
        if is_entry {
            self.end_run(memory, layout, owner == OWNED_BY_GENERATOR);
        }
        PythonStep::Next
    }

    /// Ends a run after the frame that was looked at, which is marked as the first one of its loop.
    ///
    /// A generator that hands an exception on to the one that it waits for has a frame but no loop:
    /// its mark is of the loop that it was in before. The first one of a loop stands above the newest
    /// one of the next loop.
    #[inline(always)]
    fn end_run<M: UserMemory>(&mut self, memory: &M, layout: &Layout, is_generator: bool) {
        let fields = &layout.thread;
        let cframe = UserAddr(self.cframe.get());
        let outer = memory.word_or_zero(cframe.field(fields.cframe_previous));
        if is_generator {
            let newest = UserAddr(outer).field(fields.cframe_current_frame);
            if memory.word_or_zero(newest) != self.frame.get() {
                return;
            }
        }
        self.runs.end(cframe.0, self.depth.get());
        self.cframe.set(outer);
    }

    /// Frames kept, with those that gave way to others nearer the root.
    #[inline(always)]
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth.get()
    }

    /// Keeps a frame.
    #[inline(always)]
    fn push(&mut self, frame: Frame) {
        let depth = self.depth.get() as usize;
        self.depth.set(depth as u32 + 1);
        let index = Self::index(depth);
        self.frames[index] = frame;
        if frame.is_unresolved() {
            self.unresolved.set(self.unresolved.get() + 1);
        }
    }

    /// Address of the frame nearest the root, null when there is none.
    #[inline(always)]
    #[must_use]
    pub fn root(&self) -> UserAddr {
        UserAddr(self.root.get())
    }

    /// Symbol of the frame nearest the root; 0 when there is none.
    #[inline(always)]
    #[must_use]
    pub fn root_symbol(&self) -> u64 {
        let depth = self.depth.get() as usize;
        if depth == 0 {
            return 0;
        }
        let frame = self.frames[Self::index(depth - 1)];
        if frame.kind == FrameKind::PYTHON {
            frame.symbol
        } else {
            0
        }
    }

    /// Where the frame at `depth` is kept.
    #[inline(always)]
    fn index(depth: usize) -> usize {
        let index = if depth < LEAF_FRAMES {
            depth
        } else {
            LEAF_FRAMES + (depth & (ROOT_FRAMES - 1))
        };
        masked(index as u32, MAX_FRAMES as u32 - 1) as usize
    }

    /// Whether there are frames whose code objects have to be described.
    #[inline(always)]
    #[must_use]
    pub fn has_unresolved(&self) -> bool {
        self.unresolved.get() != 0
    }

    /// The code object of the `nth` frame that was kept, if it has to be described.
    #[inline(always)]
    #[must_use]
    pub fn unresolved(&self, nth: u32) -> Option<UserAddr> {
        let frame = self.frames[masked(nth, MAX_FRAMES as u32 - 1) as usize];
        frame.is_unresolved().then_some(UserAddr(frame.symbol))
    }

    /// The order of the frames that were kept.
    #[inline(always)]
    #[must_use]
    pub fn shape(&self) -> StackShape {
        let depth = self.depth.get() as usize;
        let truncated = depth > MAX_FRAMES;
        StackShape {
            frame_count: if truncated { MAX_FRAMES } else { depth } as u16,
            root_start: if truncated {
                depth & (ROOT_FRAMES - 1)
            } else {
                0
            } as u16,
            left_out: if truncated { depth - MAX_FRAMES } else { 0 } as u32,
        }
    }

    /// Gives frames that were waiting for their description the symbol that `find` has for the
    /// code object, and hashes the `nth` frame from the leaf.
    ///
    /// The second value is whether the frame is still without a symbol.
    #[inline(always)]
    pub fn hash_frame(
        &mut self,
        nth: usize,
        shape: StackShape,
        hash: Hash,
        find: impl FnOnce(UserAddr) -> Option<CodeSymbol>,
    ) -> (Hash, bool) {
        let depth = if nth < LEAF_FRAMES {
            nth
        } else {
            nth + shape.root_start as usize
        };
        let frame = &mut self.frames[Self::index(depth)];
        if frame.is_unresolved()
            && let Some(symbol) = find(UserAddr(frame.symbol))
        {
            let is_generator = frame.kind == FrameKind::UNRESOLVED_GENERATOR;
            *frame = Frame {
                symbol: symbol.hash,
                kind: FrameKind::PYTHON,
                ..*frame
            }
            .hidden_if(!is_generator, symbol);
        }
        if frame.kind == FrameKind::HIDDEN {
            return (hash, false);
        }
        let hash = hash
            .word(frame.symbol)
            .word((u64::from(frame.kind.0) << 32) | u64::from(frame.instruction_offset));
        (hash, frame.is_unresolved())
    }
}

impl PythonWalk {
    /// Fills in the head of the record for the stack with this `hash`; gives the bytes of the
    /// record.
    #[inline(always)]
    pub fn finish_record(&mut self, shape: StackShape, hash: u64) -> usize {
        let frames = shape.frame_count as usize & (2 * MAX_FRAMES - 1);
        let bytes = size_of::<StackHead>() + frames * size_of::<Frame>();
        self.head = StackHead {
            header: Header {
                kind: RecordKind::STACK,
                reserved: 0,
                bytes: bytes as u32,
            },
            stack: hash,
            frame_count: shape.frame_count,
            root_start: shape.root_start,
            left_out: shape.left_out,
        };
        bytes
    }

    /// The bytes of the record that was sealed last.
    #[must_use]
    pub fn record(&self) -> &[u8] {
        const START: usize = offset_of!(PythonWalk, head);
        let bytes = (size_of::<Self>() - START).min(self.head.header.bytes as usize);
        // SAFETY: from its head on a walk is made of integers without padding between them, and
        // the record is no longer than that.
        unsafe { core::slice::from_raw_parts((&raw const *self).cast::<u8>().add(START), bytes) }
    }
}

impl Default for PythonWalk {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the bytecode that a frame runs starts: the one in the code object, or one of the copies
/// that free-threaded builds make for threads (`_PyCodeArray`: their number, then pointers).
#[inline(always)]
fn bytecode<M: UserMemory>(
    memory: &M,
    layout: &CodeLayout,
    code: UserAddr,
    copy: u32,
) -> Result<u64, Fault> {
    const FIRST: u64 = 8;
    if copy == 0 {
        return Ok(code.field(layout.bytecode).0);
    }
    let copies = memory.word(code.field(layout.bytecode_copies))?;
    let entry = copies.wrapping_add(FIRST + u64::from(copy) * 8);
    memory.word(UserAddr(entry))
}

/// How the frames of a walk are arranged; see [`StackHead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackShape {
    /// Frames that were kept.
    pub frame_count: u16,
    /// Where the ring of root-most frames starts.
    pub root_start: u16,
    /// Frames that were left out.
    pub left_out: u32,
}

impl Frame {
    /// A frame of a code object that waits for its description.
    #[inline(always)]
    #[must_use]
    pub fn is_unresolved(self) -> bool {
        self.kind == FrameKind::UNRESOLVED || self.kind == FrameKind::UNRESOLVED_GENERATOR
    }

    /// Hides a frame that has not come to the first instruction of its code that the
    /// interpreter shows; with generators that rule does not hold (`may_hide`).
    #[inline(always)]
    fn hidden_if(mut self, may_hide: bool, symbol: CodeSymbol) -> Self {
        // Before the first instruction the offset is negative.
        let offset = self.instruction_offset.cast_signed();
        let first = symbol.first_traceable_bytes.cast_signed();
        if may_hide && first != 0 && offset < first {
            self.kind = FrameKind::HIDDEN;
        }
        self
    }
}
