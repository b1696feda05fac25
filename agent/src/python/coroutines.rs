//! What is known of coroutines in one series, for reading asyncio's tasks.

/// Positions in `_Py_DebugOffsets`, in bytes from its start, of the structures behind tasks, and what it does not say.
#[derive(Clone, Copy, Debug)]
pub struct CoroutineFacts {
    /// `interpreter_state.imports_modules`.
    pub modules: u16,
    /// `thread_state.native_thread_id`.
    pub native_thread_id: u16,
    /// `interpreter_frame.stackpointer`.
    pub stack_pointer: u16,
    /// `type_object.tp_flags`.
    pub type_flags: u16,
    /// `set_object.table`.
    pub set_table: u16,
    /// `set_object.mask`.
    pub set_mask: u16,
    /// `long_object.lv_tag`.
    pub number_tag: u16,
    /// `long_object.ob_digit`.
    pub number_digits: u16,
    /// `gen_object.gi_iframe`.
    pub frame: u16,
    /// `gen_object.gi_frame_state`.
    pub state: u16,
    /// `llist_node.next`.
    pub node_next: u16,
    /// `llist_node.prev`.
    pub node_previous: u16,
    /// How many words below the top of its stack a coroutine has what it awaits.
    pub awaited_slot: u16,
    /// The values of `gi_frame_state`.
    pub states: CoroutineStates,
}

/// The values of `gi_frame_state`, a signed byte.
#[derive(Clone, Copy, Debug)]
pub struct CoroutineStates {
    /// `FRAME_CREATED`: it was not started.
    pub created: i8,
    /// `FRAME_SUSPENDED`: it has handed out a value itself.
    pub suspended: i8,
    /// `FRAME_SUSPENDED_YIELD_FROM` and its variants: it awaits another object.
    pub awaiting: &'static [i8],
    /// `FRAME_EXECUTING`.
    pub executing: i8,
}
