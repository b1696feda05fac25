//! The frames of a thread that waits.

use agent_common::{
    layout::{ABSENT, RunStyle},
    memory::{Fault, UserAddr, UserMemory},
};

use super::{
    super::structure::{Structure, behind, read_bytes},
    LockReader,
    frame::Frame,
    modules::{self, Awaited},
};

/// Most variables of a frame that are looked at, most names that its code mentions, and most values of its stack.
const MAX_VARIABLES: usize = 64;
const MAX_MENTIONED: usize = 256;
const MAX_OPERANDS: u64 = 32;

/// Bytes from the end of the head of a frame to `f_valuestack`, up to 3.10: after `ob_size`, `f_back`, `f_code`,
/// `f_builtins`, `f_globals` and `f_locals`.
const VALUES: u16 = 48;

/// Bytes from the end of the head of a code object to `co_localsplusnames`, from 3.11 on.
const VARIABLE_NAMES: u16 = 80;

/// `FRAME_OWNED_BY_CSTACK`: frames from here on are the interpreter's own.
const FIRST_INTERNAL_OWNER: u64 = 3;

/// A variable of a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variable {
    /// Its name.
    pub(super) name: UserAddr,
    pub(super) value: UserAddr,
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

    /// The next frame, from the leaf on, that is none of the interpreter's own; [`None`] at the end, or where one
    /// cannot be read.
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
        let function = self.text_of_code(frame, fields.name).unwrap_or_default();
        let function = function.rsplit('.').next().unwrap_or_default();
        modules::awaited(function, &self.text_of_code(frame, fields.file)?)
    }

    /// Whether a frame is one of a method `wait` of Python's module `threading`.
    pub(super) fn is_wait(&mut self, frame: &Frame) -> bool {
        let fields = &self.layout.code;
        let function = self.text_of_code(frame, fields.name);
        // With its class in some versions.
        function.is_some_and(|it| it.rsplit('.').next() == Some("wait"))
            && self
                .text_of_code(frame, fields.file)
                .is_some_and(|file| modules::is_threading(&file))
    }

    /// Whether a frame is one of Python's own that have no names for locks.
    pub(super) fn is_internal(&mut self, frame: &Frame) -> bool {
        let file = self.text_of_code(frame, self.layout.code.file);
        file.is_some_and(|file| modules::is_internal(&file))
    }

    fn text_of_code(&mut self, frame: &Frame, offset: u16) -> Option<String> {
        let text = UserAddr(self.memory.word(frame.code.field(offset)).ok()?);
        self.text(text)
    }

    /// The first variable of a frame, if it has a value; which it may not be in a function without any.
    pub(super) fn first_variable(&self, frame: &Frame) -> Option<UserAddr> {
        let locals = frame.address.field(self.layout.frame.locals);
        // The low bits are a tag from 3.14 on.
        let first = UserAddr(self.memory.word(locals).ok()? & !7);
        first.could_be_structure().then_some(first)
    }

    /// The variables of a frame that have values; of those of enclosing functions, and those that inner functions have
    /// too, what their cells have.
    pub(super) fn variables(&mut self, frame: &Frame) -> Vec<Variable> {
        let names = self.variable_names(frame);
        let locals = frame.address.field(self.layout.frame.locals);
        let count = names.len() as u64;
        let Ok(values) = Structure::read(self.memory, locals, 8 * count) else {
            return Vec::new();
        };
        let mut variables = Vec::new();
        for (nth, name) in (0_u64..).zip(names) {
            // The low bits are a tag from 3.14 on.
            let value = UserAddr(values.word(8 * nth) & !7);
            if value.could_be_structure() {
                let value = self.content_of_cell(value).unwrap_or(value);
                variables.push(Variable { name, value });
            }
        }
        variables
    }

    /// The names of the variables of a frame, in the order of their values.
    fn variable_names(&self, frame: &Frame) -> Vec<UserAddr> {
        // From 3.11 on `co_localsplusnames`; before `co_varnames`, `co_cellvars` and `co_freevars`, which follow
        // `co_names`.
        let offsets: &[u16] = if self.layout.code.bytecode == ABSENT {
            let names = self.names_offset();
            &[names + 8, names + 24, names + 16]
        } else {
            &[self.layout.object.class + 8 + VARIABLE_NAMES]
        };
        let mut names = Vec::new();
        for offset in offsets {
            let tuple = self.memory.word(frame.code.field(*offset)).unwrap_or(0);
            names.extend(self.tuple_items(UserAddr(tuple), MAX_VARIABLES));
        }
        names.truncate(MAX_VARIABLES);
        names
    }

    /// The names that the code of a frame mentions, of attributes and variables of its module. They are interned, as
    /// those are.
    pub(super) fn mentioned(&self, frame: &Frame) -> Vec<UserAddr> {
        let tuple = frame.code.field(self.names_offset());
        let tuple = self.memory.word(tuple).unwrap_or(0);
        self.tuple_items(UserAddr(tuple), MAX_MENTIONED)
    }

    /// Where a code object has `co_names`.
    fn names_offset(&self) -> u16 {
        let (object, code) = (&self.layout.object, &self.layout.code);
        if code.bytecode != ABSENT {
            // After `ob_size` and `co_consts`.
            object.class + 8 + 16
        } else if self.is_2_7() {
            // After `co_argcount`, `co_nlocals`, `co_stacksize`, `co_flags`, `co_code` and `co_consts`.
            object.class + 8 + 32
        } else {
            // After `co_firstlineno`, `co_code` and `co_consts`.
            (code.first_line + 4).next_multiple_of(8) + 16
        }
    }

    /// What is on the value stack of a frame, and what was: nothing says how high it is.
    pub(super) fn operands(&self, frame: &Frame) -> Result<Vec<UserAddr>, Fault> {
        let (layout, code) = (self.layout, &self.layout.code);
        let size = if code.bytecode != ABSENT {
            code.first_line.saturating_sub(4)
        } else if self.is_2_7() {
            layout.object.class + 8 + 8
        } else {
            code.first_line.saturating_sub(8)
        };
        let size = self.int(frame.code.field(size))?;
        let start = self.value_stack(frame)?;
        let size = u64::from(size).min(MAX_OPERANDS);
        let values = Structure::read(self.memory, start, 8 * size)?;
        // The low bits are a tag from 3.14 on.
        let values = (0..size).map(|nth| UserAddr(values.word(8 * nth) & !7));
        Ok(values.filter(|it| it.could_be_structure()).collect())
    }

    /// Where the value stack of a frame begins.
    pub(super) fn value_stack(&self, frame: &Frame) -> Result<UserAddr, Fault> {
        let layout = self.layout;
        if layout.code.bytecode == ABSENT {
            let values = frame.address.field(layout.object.class + 8 + VALUES);
            return Ok(UserAddr(self.memory.word(values)?));
        }
        let locals = frame.address.field(layout.frame.locals);
        let variables = self.variable_count(frame)?;
        Ok(behind(locals, 8 * u64::from(variables)))
    }

    /// From 3.11 on, how many variables a frame has (`co_nlocalsplus`, behind `co_firstlineno`).
    fn variable_count(&self, frame: &Frame) -> Result<u32, Fault> {
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
