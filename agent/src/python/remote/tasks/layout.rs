//! The offsets of the structures behind tasks in one process.
//!
//! Invariant: every value is checked, so that no structure is larger than a few hundred bytes.

use agent_common::memory::UserAddr;
use agent_common::{
    layout::{ABSENT, Layout},
    memory::UserMemory,
};

use crate::python::{
    asyncio::AsyncioOffsets,
    coroutines::{CoroutineFacts, CoroutineStates},
    debug_offsets::{self, DebugOffsets},
    remote::{Target, structure::Structure},
};

/// Largest plausible offset in an object.
const MAX_OFFSET: u64 = 1024;

/// Largest plausible offset in the state of a thread.
const MAX_STATE_OFFSET: u64 = 1 << 20;

/// Offsets, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskLayout {
    /// Of the interpreter.
    pub(super) python: Layout,
    /// Of asyncio.
    pub(super) asyncio: AsyncioOffsets,
    /// `sys.modules`, in the state of an interpreter.
    pub(super) modules: u64,
    /// The thread's id for the kernel, in its state.
    pub(super) native_thread_id: u64,
    /// The flags of a class.
    pub(super) type_flags: u64,
    pub(super) set_table: u64,
    pub(super) set_mask: u64,
    pub(super) number_tag: u64,
    pub(super) number_digits: u64,
    /// The frame in a coroutine, which reaches to its end.
    pub(super) coroutine_frame: u64,
    pub(super) coroutine_state: u64,
    /// A coroutine without its variables.
    pub(super) coroutine_bytes: u64,
    /// The pointer to the top of its stack, in a frame.
    pub(super) stack_pointer: u64,
    /// How far below the top of its stack a coroutine has what it awaits.
    pub(super) awaited: u64,
    pub(super) states: CoroutineStates,
    pub(super) node_next: u64,
    pub(super) node_previous: u64,
}

impl TaskLayout {
    /// Reads the debug offsets of an interpreter; [`None`] where they are implausible.
    pub(super) fn read<M: UserMemory>(
        memory: &M,
        target: &Target,
        asyncio: AsyncioOffsets,
        facts: &CoroutineFacts,
    ) -> Option<Self> {
        let python = target.layout;
        let head = python.interpreter.runtime_head;
        if head == ABSENT {
            return None;
        }
        let runtime = UserAddr(target.interpreters_head.0.wrapping_sub(head.into()));
        let bytes = debug_offsets::MAX_BYTES as u64;
        let offsets = Structure::read(memory, runtime, bytes).ok()?;
        DebugOffsets::new(offsets.bytes())?;
        let value = |position: u16, most: u64| {
            let value = offsets.word(position.into());
            (value < most).then_some(value)
        };
        let coroutine_frame = value(facts.frame, MAX_OFFSET)?;
        let stack_pointer = value(facts.stack_pointer, MAX_OFFSET)?;
        let frame_bytes = u64::from(python.frame.bytes).max(stack_pointer + 8);
        let are_plausible = coroutine_frame.is_multiple_of(8) && stack_pointer.is_multiple_of(8);
        are_plausible.then_some(Self {
            python,
            asyncio,
            modules: value(facts.modules, MAX_STATE_OFFSET)?,
            native_thread_id: value(facts.native_thread_id, MAX_STATE_OFFSET)?,
            type_flags: value(facts.type_flags, MAX_OFFSET)?,
            set_table: value(facts.set_table, MAX_OFFSET)?,
            set_mask: value(facts.set_mask, MAX_OFFSET)?,
            number_tag: value(facts.number_tag, MAX_OFFSET)?,
            number_digits: value(facts.number_digits, MAX_OFFSET)?,
            coroutine_frame,
            coroutine_state: value(facts.state, MAX_OFFSET)?,
            coroutine_bytes: coroutine_frame + frame_bytes,
            stack_pointer,
            awaited: u64::from(facts.awaited_slot) * 8,
            states: facts.states,
            node_next: value(facts.node_next, 9)?,
            node_previous: value(facts.node_previous, 9)?,
        })
    }
}
