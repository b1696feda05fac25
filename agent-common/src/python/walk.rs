//! The walk of a thread's Python frames, leaf to root.
//!
//! Invariants: one step visits one frame and reads a bounded number of bytes; a cycle is detected.

use crate::{
    layout::{ABSENT, CodeLayout, InstructionStyle, Layout, RunStyle},
    memory::{Fault, UserAddr, UserMemory},
    record::{Frame, FrameKind, PythonUnwindStatus},
    scratch::{SLOT, Scratch},
    volatile::Volatile,
};

use super::{data_stack::DataStack, runs::PythonRuns, stack::PythonStack, symbol::SymbolLookup};

/// Owners from here on mark frames that the interpreter makes for itself
/// (`FRAME_OWNED_BY_CSTACK`, `FRAME_OWNED_BY_INTERPRETER`).
const FIRST_INTERNAL_OWNER: u8 = 3;

/// `FRAME_OWNED_BY_THREAD`.
const OWNED_BY_THREAD: u8 = 0;

/// `FRAME_OWNED_BY_GENERATOR`.
const OWNED_BY_GENERATOR: u8 = 1;

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PythonStep {
    /// There is another frame.
    Next,
    /// The walk is over.
    End(PythonUnwindStatus),
}

/// A walk, and its frames.
#[repr(C)]
#[derive(Debug)]
pub struct PythonWalk {
    /// The next frame.
    frame: Volatile<u64>,
    /// The last frame in the stack.
    root: Volatile<u64>,
    /// A frame passed earlier, renewed at every power of two (Brent's algorithm).
    landmark: Volatile<u64>,
    /// Where frames are copied from.
    data_stack: DataStack,
    /// Frames visited.
    visited: Volatile<u32>,
    /// 1 when the last frame visited may be the root: it is one of the interpreter's own, or one that no evaluation loop
    /// runs.
    may_be_root: Volatile<u32>,
    /// The `_PyCFrame` of the current evaluation loop, in versions that have it.
    cframe: Volatile<u64>,
    /// Which frames run in one evaluation loop.
    pub runs: PythonRuns,
    /// The frames that were kept.
    pub stack: PythonStack,
}

impl PythonWalk {
    /// A walk that has not started.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            frame: Volatile::new(0),
            root: Volatile::new(0),
            landmark: Volatile::new(0),
            data_stack: DataStack::new(),
            visited: Volatile::new(0),
            may_be_root: Volatile::new(0),
            cframe: Volatile::new(0),
            runs: PythonRuns::new(),
            stack: PythonStack::new(),
        }
    }

    /// Removes the frames of the last walk.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.root.set(0);
        self.visited.set(0);
        self.stack.clear();
        self.runs.clear();
        self.data_stack.begin_sample();
    }

    /// Begins at the newest frame of the thread state that is in the slot, and copies the
    /// newest part of its data stack. The last walk must have been cleared, unless it reached the
    /// root of an inner state of the same thread.
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
    /// The newest loop publishes its `_PyCFrame` before it has set a frame in it, which until then
    /// may be anything.
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
        self.may_be_root.set(0);
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

    /// Visits one frame.
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
            let is_root = fields.run_style != RunStyle::ENTRY_FRAMES || self.may_be_root.get() == 1;
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
        let mut may_be_root = is_internal;
        if fields.function != ABSENT && owner != OWNED_BY_THREAD && !code.is_null() {
            // Code that was compiled ahead of time, as by Nuitka, has frames of its own, without a function.
            may_be_root |= scratch.word(at + fields.function as usize) & !7 == 0;
        }
        self.may_be_root.set(u32::from(may_be_root));
        if is_internal {
            self.runs.end(address.0, self.stack.depth());
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
        let symbol = code_objects.symbol(memory, scratch, layout, code);
        let is_generator = owner == OWNED_BY_GENERATOR;
        let frame = Frame::of_code(code, symbol, instruction_offset, is_generator);
        if frame.kind != FrameKind::HIDDEN {
            self.root.set(address.0);
            self.stack.push_frame(frame);
        }
        if is_entry {
            self.end_run(memory, layout, owner == OWNED_BY_GENERATOR);
        }
        PythonStep::Next
    }

    /// Ends a run after the current frame, which is marked as the first one of its loop.
    ///
    /// A generator that hands an exception on to the one that it waits for has a frame but no loop:
    /// its mark is of the loop that it was in before. The first one of a loop stands above the
    /// newest one of the next loop.
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
        self.runs.end(cframe.0, self.stack.depth());
        self.cframe.set(outer);
    }

    /// Address of the frame nearest the root, null when there is none.
    #[inline(always)]
    #[must_use]
    pub fn root(&self) -> UserAddr {
        UserAddr(self.root.get())
    }
}

impl Default for PythonWalk {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the bytecode that a frame runs starts: the one in the code object, or one of the copies
/// that free-threaded builds make for threads (`_PyCodeArray`: their number, then pointers).
///
/// # Errors
///
/// [`Fault`] when the pointer to a copy cannot be read.
#[inline(always)]
pub fn bytecode<M: UserMemory>(
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
