//! Finds threads that wait for work: event loops and workers of pools that have nothing to do. Such a
//! wait is no contention, and hides the others by its length.
//!
//! Rules, as data, say what such a thread waits for and which functions its stack has at the leaf: those
//! of [Python code](python), or without Python frames those of [native pools](native).
//!
//! Invariants: a thread that runs, could run or is stopped is not idle; neither is one whose leaf is not known;
//! the work for a stack is bounded, and done once per profile. Names of functions and files are those
//! of other programs: a wrong one moves time below `[idle]`, and nothing else.

mod native;
mod python;

use agent_common::{
    decoded::{NativeStack, Stack},
    record::{FrameKind, NativeKind, PythonUnwindStatus, WaitReason},
};
use foldhash::HashMap;

use self::{
    native::NativeFunctions,
    python::{MAX_FUNCTIONS, PythonFunction},
};
use super::{builder::ProfileBuilder, key::SampleKey};
use crate::symbolize::SymbolizeFrames;

/// Which stacks are those of idle threads, each found out once.
#[derive(Default)]
pub(super) struct IdleThreads {
    known: HashMap<WaitingStack, bool>,
}

/// Hashes of the Python and the native stack, what the thread waits for, and whether its name is
/// [known](native::has_known_name).
type WaitingStack = (u64, u64, WaitReason, bool);

impl IdleThreads {
    /// Whether the thread of samples, which has this name, waits for work.
    pub(super) fn has(
        &mut self,
        key: &SampleKey,
        thread: &str,
        python: Option<&Stack>,
        native: Option<&NativeStack>,
        builder: &mut ProfileBuilder,
        symbolizer: &mut impl SymbolizeFrames,
    ) -> bool {
        if matches!(
            key.wait,
            WaitReason::NONE
                | WaitReason::RUNNABLE
                | WaitReason::GIL
                | WaitReason::STOP_THE_WORLD
                | WaitReason::STOPPED
                | WaitReason::EVENT_LOOP
        ) || key.end == PythonUnwindStatus::INNER_UNKNOWN
        {
            return false;
        }
        let has_known_name = native::has_known_name(thread);
        let stack = (key.stack, key.native_stack, key.wait, has_known_name);
        if let Some(known) = self.known.get(&stack) {
            return *known;
        }
        let is_idle = if key.stack == 0 {
            let functions = NativeFunctions::new(key.wait, has_known_name);
            native.is_some_and(|stack| is_native_idle(functions, key, stack, builder, symbolizer))
        } else {
            python.is_some_and(|stack| is_python_idle(key.wait, stack, symbolizer))
        };
        self.known.insert(stack, is_idle);
        is_idle
    }
}

/// Whether the Python functions at the leaf are those of a thread that waits for work.
fn is_python_idle(wait: WaitReason, stack: &Stack, symbolizer: &mut impl SymbolizeFrames) -> bool {
    let visible = |frame: &&agent_common::record::Frame| frame.kind != FrameKind::HIDDEN;
    let end = stack.gap.map_or(stack.frames.len(), |gap| gap.after);
    let frames = stack.frames.iter().take(end).filter(visible);
    let functions = frames
        .take(MAX_FUNCTIONS)
        .map_while(|frame| symbolizer.python(frame));
    let functions: Vec<_> = functions.map(|resolved| resolved.function).collect();
    let functions = functions.iter();
    let functions = functions.map(|it| PythonFunction::new(&it.name, &it.file));
    python::is_idle(wait, &functions.collect::<Vec<_>>())
}

/// Whether a native stack is that of a thread of a pool that waits for work.
fn is_native_idle(
    mut functions: NativeFunctions,
    key: &SampleKey,
    stack: &NativeStack,
    builder: &mut ProfileBuilder,
    symbolizer: &mut impl SymbolizeFrames,
) -> bool {
    for frame in &stack.frames {
        match frame.kind {
            NativeKind::PYTHON => return false,
            NativeKind::KERNEL => continue,
            _ => {}
        }
        let index = builder.symbolize(key.thread.tgid, frame, symbolizer);
        let native_frame = builder.symbolized(index);
        let names = native_frame.functions.iter().flat_map(|names| names.iter());
        let names = names.map(|function| &*function.name);
        if let Some(is_idle) = functions.next_frame(&native_frame.executable.name(), names) {
            return is_idle;
        }
    }
    false
}

#[cfg(test)]
mod tests;
