//! The frames of a thread that waits.

use agent_common::{
    layout::{ABSENT, InstanceStyle, RunStyle},
    memory::{Fault, UserAddr, UserMemory},
};

use super::{
    super::structure::{Structure, read_bytes},
    LockReader,
    modules::{self, Awaited},
};

/// Most variables of a frame that are looked at.
const MAX_VARIABLES: u64 = 16;

/// `FRAME_OWNED_BY_CSTACK`: frames from here on are the interpreter's own.
const FIRST_INTERNAL_OWNER: u64 = 3;

/// A frame.
pub(super) struct Frame {
    pub(super) address: UserAddr,
    pub(super) code: UserAddr,
    previous: UserAddr,
    is_internal: bool,
}

/// The frames of a thread that are still to be read.
pub(super) struct Frames {
    next: UserAddr,
    /// How many more are looked at, with those of the interpreter's own.
    left: usize,
}

impl<M: UserMemory> LockReader<'_, M> {
    /// At most so many frames of a thread, by its newest state.
    pub(super) fn frames(&self, state: UserAddr, most: usize) -> Result<Frames, Fault> {
        Ok(Frames {
            next: self.newest_frame(state)?,
            left: most,
        })
    }

    /// The next frame, from the leaf on, that is none of the interpreter's own; [`None`] at the end, or where one cannot
    /// be read.
    pub(super) fn next_frame(&self, frames: &mut Frames) -> Option<Frame> {
        while frames.left > 0 && frames.next.could_be_structure() {
            frames.left -= 1;
            let frame = self.frame(frames.next).ok()?;
            frames.next = frame.previous;
            if !frame.is_internal && !frame.code.is_null() {
                return Some(frame);
            }
        }
        None
    }

    fn newest_frame(&self, state: UserAddr) -> Result<UserAddr, Fault> {
        let fields = &self.layout.thread;
        let start = UserAddr(self.memory.word(state.field(fields.frame))?);
        if fields.cframe_current_frame == ABSENT || start.is_null() {
            return Ok(start);
        }
        let frame = self.memory.word(start.field(fields.cframe_current_frame))?;
        Ok(UserAddr(frame))
    }

    fn frame(&self, address: UserAddr) -> Result<Frame, Fault> {
        let fields = &self.layout.frame;
        let owner = if fields.owner == ABSENT {
            0
        } else {
            self.memory.word(address.field(fields.owner))? & 0xff
        };
        Ok(Frame {
            address,
            // The low bits are a tag from 3.14 on.
            code: UserAddr(self.memory.word(address.field(fields.code))? & !7),
            previous: UserAddr(self.memory.word(address.field(fields.previous))?),
            is_internal: owner >= FIRST_INTERNAL_OWNER,
        })
    }

    /// What the function of a frame waits for, if it is one of Python's own that wait for their first variable.
    pub(super) fn awaited(&mut self, frame: &Frame) -> Option<Awaited> {
        let fields = &self.layout.code;
        let mut text = |offset| {
            let text = UserAddr(self.memory.word(frame.code.field(offset)).ok()?);
            self.text(text)
        };
        let function = text(fields.name).unwrap_or_default();
        let function = function.rsplit('.').next().unwrap_or_default();
        modules::awaited(function, &text(fields.file)?)
    }

    /// The first variable of a frame, if it has a value; which it may not be in a function without any.
    pub(super) fn first_variable(&self, frame: &Frame) -> Option<UserAddr> {
        let locals = frame.address.field(self.layout.frame.locals);
        // The low bits are a tag from 3.14 on.
        let first = UserAddr(self.memory.word(locals).ok()? & !7);
        first.could_be_structure().then_some(first)
    }

    /// The variables of a frame behind the first one that have values.
    pub(super) fn other_variables(&self, frame: &Frame) -> Result<Vec<UserAddr>, Fault> {
        /// Bytes from `co_nlocals` to `co_firstlineno`, with `co_stacksize` and `co_flags` between, from 3.6 to 3.10.
        const BEFORE_FIRST_LINE: u16 = 12;

        let (layout, fields) = (self.layout, &self.layout.code);
        let count = if fields.bytecode != ABSENT {
            self.variable_count(frame)?
        } else if layout.object.instance == InstanceStyle::OPAQUE {
            // Attributes are not looked into.
            0
        } else {
            let count = fields.first_line.saturating_sub(BEFORE_FIRST_LINE);
            self.int(frame.code.field(count))?
        };
        let locals = frame.address.field(layout.frame.locals);
        let count = u64::from(count).min(MAX_VARIABLES);
        if count == 0 {
            return Ok(Vec::new());
        }
        let values = Structure::read(self.memory, locals, 8 * count)?;
        // The low bits are a tag from 3.14 on.
        let others = (1..count).map(|nth| UserAddr(values.word(8 * nth) & !7));
        Ok(others.filter(|it| it.could_be_structure()).collect())
    }

    /// From 3.11 on, how many variables a frame has (`co_nlocalsplus`, behind `co_firstlineno`).
    pub(super) fn variable_count(&self, frame: &Frame) -> Result<u32, Fault> {
        self.int(frame.code.field(self.layout.code.first_line + 4))
    }

    /// An `int` of the process.
    pub(super) fn int(&self, address: UserAddr) -> Result<u32, Fault> {
        let bytes = read_bytes(self.memory, address, size_of::<u32>())?;
        let bytes = bytes.first_chunk().ok_or(Fault)?;
        Ok(u32::from_le_bytes(*bytes))
    }

    /// `f_globals`.
    pub(super) fn globals(&self, frame: &Frame) -> Option<UserAddr> {
        let fields = &self.layout.frame;
        let offset = match fields.run_style {
            // `f_back`, `f_code`, `f_builtins`, `f_globals`
            RunStyle::EACH => fields.previous + 24,
            // `f_func`, `f_globals`, `f_builtins`, `f_locals`, `f_code`
            RunStyle::MARKED => fields.code.checked_sub(24)?,
            // `previous`, `f_funcobj`, `f_globals`
            _ => fields.previous + 16,
        };
        Some(UserAddr(
            self.memory.word(frame.address.field(offset)).ok()?,
        ))
    }
}
