//! Addresses and layout of an interpreter.

use agent_common::{layout::Layout, memory::UserAddr};

use crate::python::Interpreter;

/// Addresses and layout of the interpreter to read.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// See [`Interpreter::interpreters_head`].
    pub interpreters_head: UserAddr,
    /// See [`Interpreter::gil_holder`].
    pub gil_holder: Option<UserAddr>,
    /// Layout of its structures.
    pub layout: Layout,
}

impl From<&Interpreter> for Target {
    fn from(interpreter: &Interpreter) -> Self {
        Self {
            interpreters_head: UserAddr(interpreter.interpreters_head),
            gil_holder: interpreter.gil_holder.map(UserAddr),
            layout: interpreter.layout,
        }
    }
}
