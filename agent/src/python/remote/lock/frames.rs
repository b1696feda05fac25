//! The frames of a thread that waits.

use agent_common::{
    layout::{ABSENT, RunStyle},
    memory::{Fault, UserAddr, UserMemory},
};

use super::{
    LockReader,
    modules::{self, Awaited},
};

/// `FRAME_OWNED_BY_CSTACK`: frames from here on are the interpreter's own.
const FIRST_INTERNAL_OWNER: u64 = 3;

/// A frame.
pub(super) struct Frame {
    pub(super) address: UserAddr,
    pub(super) code: UserAddr,
    pub(super) previous: UserAddr,
    pub(super) is_internal: bool,
}

impl<M: UserMemory> LockReader<'_, M> {
    pub(super) fn newest_frame(&self, state: UserAddr) -> Result<UserAddr, Fault> {
        let fields = &self.layout.thread;
        let start = UserAddr(self.memory.word(state.field(fields.frame))?);
        if fields.cframe_current_frame == ABSENT || start.is_null() {
            return Ok(start);
        }
        let frame = self.memory.word(start.field(fields.cframe_current_frame))?;
        Ok(UserAddr(frame))
    }

    pub(super) fn frame(&self, address: UserAddr) -> Result<Frame, Fault> {
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
