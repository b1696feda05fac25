//! Features that only some interpreters have.
//!
//! Invariant: no other file here compares versions.

use xtask::interpreters::Interpreter;

/// Generators that delegate, and coroutines.
pub(crate) fn has_coroutines(interpreter: &Interpreter) -> bool {
    version(interpreter) >= (3, 0)
}

/// Thread names that are readable from another process, not only the kernel's.
pub(crate) fn has_thread_names(interpreter: &Interpreter) -> bool {
    version(interpreter) >= (3, 0)
}

/// A global lock that is handed over in turn. Without this, threads constantly wake each other up
/// in vain.
pub(crate) fn has_fair_lock(interpreter: &Interpreter) -> bool {
    version(interpreter) >= (3, 2)
}

/// A word that says whether it collects garbage and that can be found.
pub(crate) fn tells_of_collections(interpreter: &Interpreter) -> bool {
    version(interpreter) >= (3, 7)
}

/// A global lock, which builds without one have only when it is switched on.
pub(crate) fn has_gil(interpreter: &Interpreter) -> bool {
    !interpreter.free_threaded
}

/// A global lock that is handed over in turn.
pub(crate) fn has_fair_gil(interpreter: &Interpreter) -> bool {
    has_gil(interpreter) && has_fair_lock(interpreter)
}

/// A module that creates subinterpreters and runs code in them.
pub(crate) fn has_inner_interpreters(interpreter: &Interpreter) -> bool {
    version(interpreter) >= (3, 8)
}

/// Code objects that have a qualified name.
pub(crate) fn has_qualified_names(interpreter: &Interpreter) -> bool {
    version(interpreter) >= (3, 11)
}

/// Code objects that can be copied with another name.
pub(crate) fn has_renamed_code(interpreter: &Interpreter) -> bool {
    version(interpreter) >= (3, 8)
}

/// Whether a comprehension has no frame of its own; generator expressions have one everywhere.
pub(crate) fn inlines(interpreter: &Interpreter, comprehension: &str) -> bool {
    let is_list = comprehension.ends_with("<listcomp>");
    version(interpreter) >= (3, 12) || version(interpreter) < (3, 0) && is_list
}

fn version(interpreter: &Interpreter) -> (u32, u32) {
    (interpreter.major, interpreter.minor)
}

/// Whether large objects that grow are moved by the kernel. The allocator of free-threaded builds copies them, and keeps
/// the memory where they were.
pub(crate) fn moves_what_grows(interpreter: &Interpreter) -> bool {
    !interpreter.free_threaded
}

/// Tasks of asyncio that can be found from outside.
pub(crate) fn has_tasks(interpreter: &Interpreter) -> bool {
    version(interpreter) >= (3, 14)
}
