//! The walk of a thread's native frames, leaf to root.
//!
//! The unwind table of the file has a rule for each address: how the caller's stack pointer (the
//! CFA) is computed, and where the return address and the registers that later rules need are
//! saved. Code without a rule is unwound by its frame pointer. The frames of an interpreter's
//! evaluation loops are replaced by the *runs* of Python frames that they evaluate.
//!
//! Invariants: one step visits one frame and reads a bounded number of bytes; a frame that does not
//! lie above the one before ends the walk, unless its rule marks a switch to another stack, of
//! which there may be as many as frames are visited; of a deeper stack than the limit the leaf-most
//! frames are kept.

use crate::{
    layout::RunStyle,
    memory::{UserAddr, UserMemory},
    python::PythonRuns,
    record::{NativeKind, NativeUnwindStatus},
    scratch::Scratch,
    unwind::{CfaRule, Rule, RuleFlags},
    volatile::Volatile,
};

use super::{
    frame::{ARCH, NativeFrameState, NativeStep},
    location::CodeLookup,
    stack::NativeStack,
};

/// Runs that are compared with one frame.
const RUNS_PER_FRAME: u32 = 4;

/// The Python frames of the thread.
#[derive(Clone, Copy, Debug)]
pub struct PythonFrames<'a> {
    /// Which of them run in one evaluation loop.
    pub runs: &'a PythonRuns,
    /// How many there are.
    pub depth: u32,
    /// How runs are distinguished.
    pub style: RunStyle,
}

/// How far a walk is.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativePosition {
    frame: NativeFrameState,
    /// The next run.
    run: Volatile<u32>,
    /// Python frames that are part of the stack already.
    claimed: Volatile<u32>,
}

/// A walk, and its frames.
#[repr(C)]
#[derive(Debug)]
pub struct NativeWalk {
    /// The next frame, or the one at which the walk has ended.
    pub position: NativePosition,
    /// The frames that were kept.
    pub stack: NativeStack,
}

impl NativeWalk {
    /// A walk that has not started.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            position: NativePosition {
                frame: NativeFrameState::new(),
                run: Volatile::new(0),
                claimed: Volatile::new(0),
            },
            stack: NativeStack::new(),
        }
    }

    /// Removes the frames of the last walk; hashes start from `seed`.
    #[inline(always)]
    pub fn clear(&mut self, seed: u64) {
        self.stack.clear(seed);
        self.position.frame.clear();
        self.position.run.set(0);
        self.position.claimed.set(0);
    }

    /// Starts at `pc`; [`set_register`](Self::set_register) sets the registers.
    #[inline(always)]
    pub fn begin(&mut self, pc: u64) {
        self.position.frame.pc.set(pc);
    }

    /// Sets where the stack is expected to begin, 0 where that is not known: less of it is read at
    /// once than could be.
    #[inline(always)]
    pub fn expect_stack_start(&mut self, address: u64) {
        self.position.frame.expect_stack_start(address);
    }

    /// Continues at a position that another walk has left, which has `kept` so many native frames, and with none of its
    /// own; the stack is read again.
    #[cfg(feature = "user")]
    pub fn resume(&mut self, position: &NativePosition, kept: u32) {
        self.stack.clear(0);
        self.stack.continue_from(kept);
        self.position.frame.resume(&position.frame);
        self.position.run.set(position.run.get());
        self.position.claimed.set(position.claimed.get());
    }

    /// The stack pointer of the last frame: at the end of a whole walk, where the stack begins.
    #[inline(always)]
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        self.position.frame.register(ARCH.stack_pointer)
    }

    /// Sets a register, by DWARF's number.
    #[inline(always)]
    pub fn set_register(&mut self, number: u8, value: u64) {
        self.position.frame.set_register(number, value);
    }

    /// Visits up to `count` frames.
    #[inline(always)]
    pub fn walk_frames<M: UserMemory, C: CodeLookup>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        python: PythonFrames<'_>,
        code: &mut C,
        count: u32,
    ) -> NativeStep {
        let mut nth = 0;
        while nth < count {
            let step = self.step(memory, scratch, python, code);
            if step != NativeStep::Next {
                return step;
            }
            nth += 1;
        }
        NativeStep::Next
    }

    /// Visits one frame.
    #[inline(always)]
    pub fn step<M: UserMemory, C: CodeLookup>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        python: PythonFrames<'_>,
        code: &mut C,
    ) -> NativeStep {
        let is_interrupted = self.position.frame.is_interrupted.get() != 0;
        let pc = self.position.frame.pc.get();
        let address = if is_interrupted {
            pc
        } else {
            pc.wrapping_sub(1)
        };
        let Some(place) = code.find(address, self.position.frame.register(ARCH.stack_pointer))
        else {
            return NativeStep::End(NativeUnwindStatus::UNMAPPED);
        };
        if place.kind != NativeKind::FILE && place.kind != NativeKind::ANONYMOUS {
            return NativeStep::End(NativeUnwindStatus::UNMAPPED);
        }
        let mut rule = place.rule;
        let is_unknown = rule.cfa == CfaRule::UNKNOWN;
        if is_unknown && !is_interrupted && memory.word_or_zero(UserAddr(pc)) == ARCH.signal_return
        {
            rule.cfa = CfaRule::SIGNAL;
        }
        if rule.cfa == CfaRule::SIGNAL {
            if !self.stack.push_frame(place) {
                return NativeStep::End(NativeUnwindStatus::TOO_DEEP);
            }
            return self.position.frame.unwind_signal_frame(memory, scratch);
        }
        let stack_pointer = self.position.frame.register(ARCH.stack_pointer);
        let (cfa, end) = self
            .position
            .frame
            .find_cfa(memory, place, &mut rule, is_interrupted);
        let top = rule.flags.on_same_stack(cfa);
        if end == NativeUnwindStatus::NOT_WALKED
            && self.runs_python(python, rule, stack_pointer, top)
        {
            // The run of Python frames stands for it.
        } else if !self.stack.push_frame(place) {
            return NativeStep::End(NativeUnwindStatus::TOO_DEEP);
        }
        if end != NativeUnwindStatus::NOT_WALKED {
            return NativeStep::End(end);
        }
        self.position.frame.unwind_frame(memory, scratch, rule, cfa)
    }

    /// Whether the frame between these addresses is that of an evaluation loop; the Python frames
    /// that it runs are then part of the stack, and those of loops that were not recognised.
    #[inline(always)]
    fn runs_python(
        &mut self,
        python: PythonFrames<'_>,
        rule: Rule,
        stack_pointer: u64,
        cfa: u64,
    ) -> bool {
        let claimed = self.position.claimed.get();
        if python.style == RunStyle::EACH {
            if !rule.flags.has(RuleFlags::EVALUATES) || claimed >= python.depth {
                return false;
            }
            self.position.claimed.set(claimed + 1);
            self.stack.add_pending(1);
            return true;
        }
        let first = self.position.run.get();
        let mut nth = 0;
        while nth < RUNS_PER_FRAME {
            let index = first.wrapping_add(nth);
            if index >= python.runs.count() {
                return false;
            }
            let run = python.runs.get(index);
            if run.address >= stack_pointer && run.address < cfa {
                self.position.run.set(index + 1);
                self.position.claimed.set(run.depth);
                let fresh = run.depth.wrapping_sub(claimed);
                self.stack.add_pending(fresh);
                return true;
            }
            nth += 1;
        }
        false
    }
}

impl Default for NativeWalk {
    fn default() -> Self {
        Self::new()
    }
}
