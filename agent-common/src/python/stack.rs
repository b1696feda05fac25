//! The Python stack of a sample, and its record.
//!
//! Invariant: of a stack deeper than [`MAX_FRAMES`] the leaf-most and the root-most frames are
//! kept.

use core::mem::offset_of;

use crate::{
    hash::Hash,
    limits::{LEAF_FRAMES, MAX_FRAMES, ROOT_FRAMES},
    memory::UserAddr,
    record::{Frame, FrameKind, Header, RecordKind, StackHead},
    volatile::{Volatile, masked},
};

use super::symbol::CodeSymbol;

/// The frames of a stack.
#[repr(C)]
#[derive(Debug)]
pub struct PythonStack {
    /// Frames that were pushed, with those that were overwritten since.
    depth: Volatile<u32>,
    /// Frames whose code objects have not been read.
    unresolved: Volatile<u32>,
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

impl PythonStack {
    /// No frames.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            depth: Volatile::new(0),
            unresolved: Volatile::new(0),
            head: NO_STACK,
            frames: [NO_FRAME; MAX_FRAMES],
        }
    }

    /// Removes all frames.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.depth.set(0);
        self.unresolved.set(0);
    }

    /// Frames that were pushed, with those that were replaced by others nearer the root.
    #[inline(always)]
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth.get()
    }

    /// Adds a frame.
    #[inline(always)]
    pub fn push_frame(&mut self, frame: Frame) {
        let depth = self.depth.get() as usize;
        self.depth.set(depth as u32 + 1);
        let index = Self::index(depth);
        self.frames[index] = frame;
        if frame.is_unresolved() {
            self.unresolved.set(self.unresolved.get() + 1);
        }
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

    /// The index of the frame at `depth`.
    #[inline(always)]
    fn index(depth: usize) -> usize {
        let index = if depth < LEAF_FRAMES {
            depth
        } else {
            LEAF_FRAMES + (depth & (ROOT_FRAMES - 1))
        };
        masked(index as u32, MAX_FRAMES as u32 - 1) as usize
    }

    /// Whether there are frames whose code objects have to be read.
    #[inline(always)]
    #[must_use]
    pub fn has_unresolved(&self) -> bool {
        self.unresolved.get() != 0
    }

    /// The code object of the `nth` frame in the stack, if it has to be read.
    #[inline(always)]
    #[must_use]
    pub fn unresolved(&self, nth: u32) -> Option<UserAddr> {
        let frame = self.frames[masked(nth, MAX_FRAMES as u32 - 1) as usize];
        frame.is_unresolved().then_some(UserAddr(frame.symbol))
    }

    /// The order of the frames.
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

    /// The code object of the `nth` frame from the leaf, if it has to be read.
    #[inline(always)]
    #[must_use]
    pub fn unresolved_from_leaf(&self, nth: usize, shape: StackShape) -> Option<UserAddr> {
        self.unresolved(Self::index(shape.depth(nth)) as u32)
    }

    /// Hashes the `nth` frame from the leaf, after setting its symbol, if it is unresolved, to the
    /// one that `find` returns for its code object.
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
        let frame = &mut self.frames[Self::index(shape.depth(nth))];
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
        let hash = hash
            .word(frame.symbol)
            .word((u64::from(frame.kind.0) << 32) | u64::from(frame.instruction_offset));
        (hash, frame.is_unresolved())
    }
}

impl PythonStack {
    /// Fills in the head of the record for the stack with this `hash`; returns the bytes of the
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

    /// The bytes of the record that was finished last.
    #[must_use]
    pub fn record(&self) -> &[u8] {
        const START: usize = offset_of!(PythonStack, head);
        let bytes = (size_of::<Self>() - START).min(self.head.header.bytes as usize);
        // SAFETY: from its head on a walk is made of integers without padding between them, and
        // the record is no longer than that.
        unsafe { core::slice::from_raw_parts((&raw const *self).cast::<u8>().add(START), bytes) }
    }
}

impl Default for PythonStack {
    fn default() -> Self {
        Self::new()
    }
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

impl StackShape {
    /// How many frames are nearer the leaf than the `nth` one that was kept, modulo those that were
    /// left out.
    #[inline(always)]
    fn depth(self, nth: usize) -> usize {
        if nth < LEAF_FRAMES {
            nth
        } else {
            nth + self.root_start as usize
        }
    }
}

impl Frame {
    /// That of a function by its code object, and its symbol if that is known; `is_generator` says that the frame is in a
    /// generator or a coroutine.
    #[inline(always)]
    #[must_use]
    pub fn of_code(
        code: UserAddr,
        symbol: Option<CodeSymbol>,
        instruction_offset: u32,
        is_generator: bool,
    ) -> Self {
        match symbol {
            Some(symbol) => Self {
                symbol: symbol.hash,
                instruction_offset,
                kind: FrameKind::PYTHON,
            }
            .hidden_if(!is_generator, symbol),
            None => Self {
                symbol: code.0,
                instruction_offset,
                kind: if is_generator {
                    FrameKind::UNRESOLVED_GENERATOR
                } else {
                    FrameKind::UNRESOLVED
                },
            },
        }
    }

    /// Whether its code object has not been read.
    #[inline(always)]
    #[must_use]
    pub fn is_unresolved(self) -> bool {
        self.kind == FrameKind::UNRESOLVED || self.kind == FrameKind::UNRESOLVED_GENERATOR
    }

    /// Hides a frame that has not reached the first instruction of its code that the
    /// interpreter shows; with generators that rule does not hold (`may_hide`).
    #[inline(always)]
    pub(super) fn hidden_if(mut self, may_hide: bool, symbol: CodeSymbol) -> Self {
        // Before the first instruction the offset is negative.
        let offset = self.instruction_offset.cast_signed();
        let first = symbol.first_traceable_bytes.cast_signed();
        if may_hide && first != 0 && offset < first {
            self.kind = FrameKind::HIDDEN;
        }
        self
    }
}
