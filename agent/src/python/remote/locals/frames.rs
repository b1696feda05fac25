//! The frames of a thread.

use agent_common::{
    layout::ABSENT,
    maps::ThreadState,
    memory::{Fault, UserAddr, UserMemory},
};

use super::{
    super::{instruction::instruction_offset, structure::Structure, thread_stack::Frame},
    LocalsReader,
};

/// Most frames of a thread that are followed, also those that the interpreter makes for itself: more than are shown.
const MAX_VISITED: usize = 4_000;

/// `FRAME_OWNED_BY_GENERATOR`.
const OWNED_BY_GENERATOR: u8 = 1;

/// `FRAME_OWNED_BY_CSTACK`: frames from here on are the interpreter's own.
const FIRST_INTERNAL_OWNER: u8 = 3;

/// A frame that is shown.
pub(super) struct FoundFrame {
    pub(super) address: UserAddr,
    pub(super) code: UserAddr,
    pub(super) shown: Frame,
}

impl<M: UserMemory> LocalsReader<'_, M> {
    /// The frames of a state of the thread with this `pthread_self()`, the innermost first; outer ones are left out
    /// where there are more than any stack that is shown has.
    pub(super) fn walk(
        &mut self,
        thread_id: u64,
        state: ThreadState,
    ) -> Result<Vec<FoundFrame>, Fault> {
        let (memory, layout) = (self.values.memory, self.values.layout);
        let fields = &layout.thread;
        let word = |offset| memory.word(state.address.field(offset));
        let is_same = word(fields.thread_id)? == thread_id
            && word(fields.interpreter)? == state.interpreter.0;
        if !is_same {
            return Err(Fault);
        }
        let mut address = UserAddr(word(fields.frame)?);
        if fields.cframe_current_frame != ABSENT && !address.is_null() {
            address = UserAddr(memory.word(address.field(fields.cframe_current_frame))?);
        }
        let mut found = Vec::new();
        for _ in 0..MAX_VISITED {
            if address.is_null() {
                break;
            }
            let frame = Structure::read(memory, address, layout.frame.bytes.into())?;
            found.extend(self.frame(address, &frame)?);
            address = UserAddr(frame.word(layout.frame.previous.into()));
        }
        Ok(found)
    }

    /// [`None`] for one that the interpreter hides.
    fn frame(&mut self, address: UserAddr, frame: &Structure) -> Result<Option<FoundFrame>, Fault> {
        let (memory, layout) = (self.values.memory, self.values.layout);
        let fields = &layout.frame;
        let owner = if fields.owner == ABSENT {
            0
        } else {
            frame.byte(fields.owner.into())
        };
        // The low bits are a tag from 3.14 on.
        let code = UserAddr(frame.word(fields.code.into()) & !7);
        if owner >= FIRST_INTERNAL_OWNER || code.is_null() {
            return Ok(None);
        }
        let scratch = &mut self.values.scratch;
        let symbol = self.code.describe(memory, scratch, layout, code)?;
        let offset = instruction_offset(memory, layout, frame, code)?;
        let first = symbol.first_traceable_bytes.cast_signed();
        let is_hidden = owner != OWNED_BY_GENERATOR && first != 0 && offset < first;
        Ok((!is_hidden).then(|| FoundFrame {
            address,
            code,
            shown: self.code.frame(symbol.hash, offset),
        }))
    }
}
