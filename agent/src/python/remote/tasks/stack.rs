//! The functions of a task: the coroutines that await one another, or the frames on the thread that runs it.
//!
//! ```text
//! task → coroutine → what it awaits → … → a future, or what else is awaited
//! ```
//!
//! A coroutine that is suspended has what it awaits on its stack; of one that runs, the frames are linked from the
//! innermost one of its thread on.
//!
//! Invariant: a stack is read twice, with the code objects in between, and is taken if both are the same.

use std::collections::HashSet;

use agent_common::{
    memory::{Fault, UserAddr, UserMemory},
    python::bytecode,
};

use super::{
    super::structure::{Structure, behind},
    objects::Objects,
    types::Kind,
};
use crate::python::{
    coroutines::CoroutineStates,
    remote::{Frame, code::CodeObjects},
};

/// Most functions of a task.
pub(super) const MAX_DEPTH: usize = 1_000;

/// Largest frame: how far from its start the top of its stack can be.
const MAX_FRAME_BYTES: u64 = 1 << 20;

/// `FRAME_OWNED_BY_GENERATOR`.
const OWNED_BY_GENERATOR: u8 = 1;

/// Owners from here on mark frames that the interpreter makes for itself.
const FIRST_INTERNAL_OWNER: u8 = 3;

/// A function of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The address of its frame.
    frame: UserAddr,
    pub(super) code: UserAddr,
    /// The address of its instruction.
    instruction: u64,
    /// Which copy of the bytecode it runs.
    copy: u32,
    /// Whether it is of a coroutine.
    pub(super) is_coroutine: bool,
}

/// The functions of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stack {
    /// The outermost first.
    pub(super) links: Vec<Link>,
    pub(super) activity: Activity,
    /// Whether inner ones were left out.
    pub(super) is_cut: bool,
}

/// What the outermost coroutine of a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    Created,
    Executing,
    Suspended,
    /// It has ended.
    Ended,
    /// It is an object of an extension, which has no frames.
    Opaque,
}

impl Link {
    /// Whether it is the same one, which may have gone on.
    pub(super) fn is_continued_by(&self, later: &Self) -> bool {
        let instruction = self.instruction;
        *self
            == Self {
                instruction,
                ..*later
            }
    }
}

impl Activity {
    fn of_state(states: &CoroutineStates, state: i8) -> Self {
        if state == states.created {
            Self::Created
        } else if state == states.executing {
            Self::Executing
        } else if state == states.suspended || states.awaiting.contains(&state) {
            Self::Suspended
        } else {
            Self::Ended
        }
    }
}

impl<M: UserMemory> Objects<'_, M> {
    /// What a coroutine does, without what it awaits; [`None`] where it cannot be read.
    pub(super) fn activity(&mut self, coroutine: UserAddr) -> Option<Activity> {
        let class = self.class_of(coroutine)?;
        if class.kind != Kind::Coroutine {
            return Some(Activity::Opaque);
        }
        let bytes = self.layout.coroutine_bytes;
        let structure = Structure::read(self.memory, coroutine, bytes).ok()?;
        let state = structure.byte(self.layout.coroutine_state).cast_signed();
        Some(Activity::of_state(&self.layout.states, state))
    }

    /// The coroutines from this one on; of one that runs itself alone.
    pub(super) fn coroutines(&mut self, outermost: UserAddr) -> Result<Stack, Fault> {
        let states = self.layout.states;
        let mut stack = Stack {
            links: Vec::new(),
            activity: Activity::Opaque,
            is_cut: false,
        };
        let mut seen = HashSet::new();
        let mut object = outermost;
        while let Some(class) = self.class_of(object) {
            if seen.len() == MAX_DEPTH {
                stack.is_cut = true;
                break;
            }
            if !seen.insert(object) {
                return Err(Fault);
            }
            match class.kind {
                Kind::Other => break,
                Kind::Wrapper => {
                    let first = u64::from(self.layout.python.object.class) + 8;
                    object = UserAddr(self.memory.word(behind(object, first))?);
                }
                Kind::Coroutine => {
                    let bytes = self.layout.coroutine_bytes;
                    let coroutine = Structure::read(self.memory, object, bytes)?;
                    let state = coroutine.byte(self.layout.coroutine_state).cast_signed();
                    let is_awaiting = states.awaiting.contains(&state);
                    if stack.links.is_empty() {
                        stack.activity = Activity::of_state(&states, state);
                    }
                    let frame = self.layout.coroutine_frame;
                    let link = self.link(behind(object, frame), &coroutine, frame);
                    stack.links.push(link);
                    if !is_awaiting {
                        break;
                    }
                    object = self.awaited(object, &coroutine)?;
                }
            }
        }
        Ok(stack)
    }

    /// The frames on a thread from the innermost one to that of this coroutine; [`None`] where it does not run there.
    pub(super) fn running(
        &self,
        state: UserAddr,
        coroutine: UserAddr,
    ) -> Result<Option<Stack>, Fault> {
        let fields = &self.layout.python.frame;
        let last = behind(coroutine, self.layout.coroutine_frame);
        let newest = state.field(self.layout.python.thread.frame);
        let mut address = UserAddr(self.memory.word(newest)?);
        let mut links = Vec::new();
        let mut visited = 0;
        while address.could_be_structure() && visited < 2 * MAX_DEPTH {
            visited += 1;
            let bytes = self.layout.coroutine_bytes - self.layout.coroutine_frame;
            let frame = Structure::read(self.memory, address, bytes)?;
            if frame.byte(fields.owner.into()) < FIRST_INTERNAL_OWNER {
                links.push(self.link(address, &frame, 0));
            }
            if address == last {
                links.reverse();
                let is_cut = links.len() > MAX_DEPTH;
                links.truncate(MAX_DEPTH);
                return Ok(Some(Stack {
                    links,
                    activity: Activity::Executing,
                    is_cut,
                }));
            }
            address = UserAddr(frame.word(fields.previous.into()));
        }
        Ok(None)
    }

    /// The frames of a stack, the innermost first. What cannot be read has no name.
    pub(super) fn frames(&mut self, code: &mut CodeObjects, stack: &Stack) -> Vec<Frame> {
        let links = stack.links.iter().rev();
        links.filter_map(|link| self.frame(code, *link)).collect()
    }

    /// [`None`] for a frame that the interpreter hides.
    fn frame(&mut self, code: &mut CodeObjects, link: Link) -> Option<Frame> {
        let layout = &self.layout.python;
        let nameless = Frame {
            function: None,
            line: None,
        };
        let scratch = &mut self.scratch;
        let Ok(symbol) = code.describe(self.memory, scratch, layout, link.code) else {
            return Some(nameless);
        };
        let Ok(offset) = self.offset(link) else {
            return Some(nameless);
        };
        let Ok(offset) = i32::try_from(offset) else {
            // It is not in the bytecode.
            let function = code.frame(symbol.hash, 0).function;
            return Some(Frame {
                function,
                ..nameless
            });
        };
        let first = symbol.first_traceable_bytes.cast_signed();
        let is_hidden = !link.is_coroutine && first != 0 && offset < first;
        (!is_hidden).then(|| code.frame(symbol.hash, offset))
    }

    /// How far the instruction of a function is from the start of its bytecode, in bytes.
    pub(super) fn offset(&self, link: Link) -> Result<i64, Fault> {
        let fields = &self.layout.python.code;
        let start = bytecode(self.memory, fields, link.code, link.copy)?;
        Ok(link.instruction.wrapping_sub(start).cast_signed())
    }

    /// What the function is whose frame is at `address`, and at `frame` in the structure.
    fn link(&self, address: UserAddr, structure: &Structure, frame: u64) -> Link {
        let fields = &self.layout.python.frame;
        let at = |offset: u16| frame + u64::from(offset);
        let copy = if fields.bytecode_copy == agent_common::layout::ABSENT {
            0
        } else {
            structure.half(at(fields.bytecode_copy))
        };
        Link {
            frame: address,
            // The low bits are a tag.
            code: UserAddr(structure.word(at(fields.code)) & !7),
            instruction: structure.word(at(fields.instruction)),
            copy,
            is_coroutine: structure.byte(at(fields.owner)) == OWNED_BY_GENERATOR,
        }
    }

    /// What a coroutine that is suspended awaits.
    fn awaited(&self, object: UserAddr, coroutine: &Structure) -> Result<UserAddr, Fault> {
        let layout = &self.layout;
        let frame = behind(object, layout.coroutine_frame);
        let top = coroutine.word(layout.coroutine_frame + layout.stack_pointer);
        let slot = UserAddr(top.wrapping_sub(layout.awaited));
        let variables = frame.field(layout.python.frame.locals);
        if slot < variables || slot.0 - variables.0 > MAX_FRAME_BYTES {
            return Err(Fault);
        }
        // The low bits are a tag.
        Ok(UserAddr(self.memory.word(slot)? & !7))
    }
}
