//! Whether asyncio was imported: where it is linked into the interpreter, the section with its offsets is always there.

use agent_common::{
    memory::{UserAddr, UserMemory},
    python::{AttributeName, Attributes},
};

use super::{super::structure::behind, objects::Objects};

/// The module with tasks.
const MODULE: AttributeName = AttributeName::new("_asyncio");

/// Most modules that are looked at.
const MAX_MODULES: u32 = 50_000;

impl<M: UserMemory> Objects<'_, M> {
    /// Whether the modules of an interpreter can be read, and asyncio is none of them.
    pub(super) fn lacks_asyncio(&mut self, interpreter: UserAddr) -> bool {
        let Self {
            memory,
            layout,
            scratch,
            ..
        } = self;
        let layout = *layout;
        let Ok(modules) = memory.word(behind(interpreter, layout.modules)) else {
            return false;
        };
        let mut entries = Attributes::new();
        let (modules, python) = (UserAddr(modules), &layout.python);
        let begun = entries.begin_dictionary(*memory, scratch, python, modules, MAX_MODULES);
        if begun.is_err() {
            return false;
        }
        for _ in 0..MAX_MODULES {
            match entries.step(*memory, scratch, python, MODULE) {
                Ok(None) => {}
                Ok(Some(_)) => return false,
                // There are no others.
                Err(_) => return true,
            }
        }
        false
    }
}
