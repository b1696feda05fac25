//! Finds exceptions inside the import system that are none of the program: those that come up again where it imports, and
//! those that the import system catches.
//!
//! ```text
//! raised in        main.py ─► _find_and_load ─► _find_and_load_unlocked
//! comes up again   main.py: import missing
//! ```
//!
//! Where a statement or `__import__` imports, the interpreter removes the frames of the import system from the traceback
//! of what that has raised (`remove_importlib_frames` in CPython's `Python/import.c`; not with `python -v`). Without a
//! traceback the exception is like a new one in the frame below, which is the place that Python itself shows.

#[cfg(test)]
mod tests;

use agent_common::{
    decoded::Stack,
    record::{Frame, FrameKind},
};

use crate::{profile::Function, symbolize::SymbolizeFrames};

/// The functions of the import system that the interpreter calls itself: what leaves others has its whole traceback.
const ENTERED: [&str; 2] = ["_find_and_load", "_handle_fromlist"];

/// The classes of which all frames of the import system are removed.
const IMPORT_ERRORS: [&str; 2] = ["ImportError", "ModuleNotFoundError"];

/// Functions of the import system, without their classes, whose callers in it catch what they raise.
const ATTEMPTS: [&str; 4] = [
    "_fill_cache",
    "_get_module_lock",
    "_path_importer_cache",
    "_path_stat",
];

/// Frames of one import that are looked at; there are about ten.
const MAX_FRAMES: usize = 64;

/// Whether an exception of this class, raised in this stack, is to be left out.
pub(super) fn is_internal(
    class: &str,
    stack: &Stack,
    symbolizer: &mut impl SymbolizeFrames,
) -> bool {
    let visible = |frame: &&Frame| frame.kind != FrameKind::HIDDEN;
    let end = stack.gap.map_or(stack.frames.len(), |gap| gap.after);
    let frames = stack.frames.iter().take(end.min(MAX_FRAMES));
    let mut is_removed = IMPORT_ERRORS.contains(&class);
    let mut is_entered = false;
    for (depth, frame) in frames.filter(visible).enumerate() {
        let function = symbolizer.python(frame).map(|resolved| resolved.function);
        let Some(function) = function.filter(Function::is_of_import_system) else {
            break;
        };
        let name = function.name.rsplit('.').next().unwrap_or_default();
        if depth == 0 && ATTEMPTS.contains(&name) {
            return true;
        }
        // From there on frames are removed whatever the class.
        is_removed |= depth == 0 && function.runs_modules();
        is_entered = ENTERED.contains(&name);
    }
    is_removed && is_entered
}
