//! The arguments and local variables of the functions of a thread that does not run.
//!
//! A frame keeps its variables alive, and only its own thread changes them: while that does not run, they are what they
//! are. What the values refer to may change at any time, by other threads: the items of a container are read before and
//! after they are written down, and have to be the same.
//!
//! Invariants: the process is never stopped and is untrusted; an object is shown as what it is only if its class is the
//! interpreter's own; what cannot be read is shown by its class and address; depth, items, bytes and reads are bounded.
//! That the thread does not run is for the caller to prove.

mod collections;
mod frames;
mod numbers;
mod output;
mod strings;
mod types;
mod values;
mod variables;

use std::{num::NonZeroU32, sync::Arc};

use agent_common::{
    layout::Layout,
    maps::ThreadState,
    memory::{Fault, UserMemory},
};

use self::values::Values;
use super::{code::CodeObjects, thread_stack::Function};
use crate::python::variables::VariableFacts;

/// Frames of a thread whose variables are read, from the innermost one on.
pub const MAX_FRAMES: usize = 100;

/// Most variables of a frame.
pub const MAX_VARIABLES: usize = 100;

/// Bytes of values of a thread after which variables are counted only.
const THREAD_BYTES: usize = 256 << 10;

/// A frame with its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameVariables {
    /// Its function; [`None`] when the code object could not be read.
    pub function: Option<Arc<Function>>,
    /// Its current line.
    pub line: Option<NonZeroU32>,
    /// [`None`] beyond [`MAX_FRAMES`].
    pub variables: Option<Variables>,
}

/// The variables of a frame that have a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// Arguments, in their order.
    pub arguments: Vec<Variable>,
    /// Other variables, also those of enclosing functions.
    pub locals: Vec<Variable>,
    /// How many there are beyond [`MAX_VARIABLES`], or those of a thread that has too long values.
    pub more: usize,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value as Python's `repr` has it, or class and address.
    pub value: String,
}

/// Reads the variables of threads.
pub struct LocalsReader<'a, M> {
    values: Values<'a, M>,
    code: CodeObjects,
    /// Most characters of a value.
    value_characters: usize,
    /// Bytes of values that may still be read of this thread.
    bytes_left: usize,
}

impl<'a, M: UserMemory> LocalsReader<'a, M> {
    /// Reads `memory`, of an interpreter with this layout.
    pub fn new(
        memory: &'a M,
        layout: &'a Layout,
        facts: &'a VariableFacts,
        value_characters: usize,
    ) -> Self {
        Self {
            values: Values::new(memory, layout, facts),
            code: CodeObjects::default(),
            value_characters,
            bytes_left: 0,
        }
    }

    /// The frames of a thread with this `pthread_self()` and these states, the innermost first.
    ///
    /// # Errors
    ///
    /// [`Fault`] when a frame or its variables cannot be read, or change.
    pub fn frames(
        &mut self,
        thread_id: u64,
        states: &[ThreadState],
    ) -> Result<Vec<FrameVariables>, Fault> {
        self.bytes_left = THREAD_BYTES;
        let mut frames = Vec::new();
        for state in states {
            for found in self.walk(thread_id, *state)? {
                let variables = if frames.len() < MAX_FRAMES {
                    Some(self.variables(&found)?)
                } else {
                    None
                };
                frames.push(FrameVariables {
                    function: found.shown.function,
                    line: found.shown.line,
                    variables,
                });
            }
        }
        Ok(frames)
    }
}

#[cfg(test)]
mod tests;
