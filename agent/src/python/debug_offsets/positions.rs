//! Positions of the fields of `_Py_DebugOffsets` in one series.

/// Positions of its fields, in bytes from its start.
#[derive(Clone, Copy, Debug)]
pub struct Positions {
    /// `runtime_state`.
    pub runtime: RuntimePositions,
    /// `interpreter_state`.
    pub interpreter: InterpreterPositions,
    /// `thread_state`.
    pub thread: ThreadPositions,
    /// `interpreter_frame`.
    pub frame: FramePositions,
    /// `code_object`.
    pub code: CodePositions,
    /// `bytes_object` and `unicode_object`.
    pub text: TextPositions,
}

/// Positions in `runtime_state`.
#[derive(Clone, Copy, Debug)]
pub struct RuntimePositions {
    /// `size`.
    pub bytes: u16,
    /// `interpreters_head`.
    pub interpreters_head: u16,
}

/// Positions in `interpreter_state`.
#[derive(Clone, Copy, Debug)]
pub struct InterpreterPositions {
    /// `size`.
    pub bytes: u16,
    /// `next`.
    pub next: u16,
    /// `threads_head`.
    pub threads_head: u16,
    /// `ceval_gil`.
    pub gil: u16,
    /// `gc`.
    pub gc: u16,
    /// `gc.collecting`, behind which is the offset in the structure of the collector.
    pub gc_collecting: u16,
}

/// Positions in `thread_state`.
#[derive(Clone, Copy, Debug)]
pub struct ThreadPositions {
    /// `size`.
    pub bytes: u16,
    /// `prev`.
    pub previous: u16,
    /// `next`.
    pub next: u16,
    /// `interp`.
    pub interpreter: u16,
    /// `current_frame`.
    pub current_frame: u16,
    /// `thread_id`.
    pub thread_id: u16,
    /// `datastack_chunk`.
    pub datastack_chunk: u16,
}

/// Positions in `interpreter_frame`.
#[derive(Clone, Copy, Debug)]
pub struct FramePositions {
    /// `size`.
    pub bytes: u16,
    /// `previous`.
    pub previous: u16,
    /// `executable`.
    pub executable: u16,
    /// `instr_ptr`.
    pub instr_ptr: u16,
    /// `localsplus`.
    pub localsplus: u16,
    /// `owner`.
    pub owner: u16,
    /// `tlbc_index`, from 3.14 on.
    pub tlbc_index: Option<u16>,
}

/// Positions in `code_object`.
#[derive(Clone, Copy, Debug)]
pub struct CodePositions {
    /// `size`.
    pub bytes: u16,
    /// `filename`.
    pub filename: u16,
    /// `qualname`.
    pub qualname: u16,
    /// `linetable`.
    pub linetable: u16,
    /// `firstlineno`.
    pub firstlineno: u16,
    /// `co_code_adaptive`.
    pub co_code_adaptive: u16,
    /// `co_tlbc`, from 3.14 on.
    pub co_tlbc: Option<u16>,
}

/// Positions in `bytes_object` and `unicode_object`.
#[derive(Clone, Copy, Debug)]
pub struct TextPositions {
    /// `bytes_object.size`.
    pub bytes_object: u16,
    /// `bytes_object.ob_size`.
    pub bytes_size: u16,
    /// `bytes_object.ob_sval`.
    pub bytes_data: u16,
    /// `unicode_object.size`.
    pub unicode_object: u16,
    /// `unicode_object.state`.
    pub state: u16,
    /// `unicode_object.length`.
    pub length: u16,
    /// `unicode_object.asciiobject_size`.
    pub ascii_data: u16,
    /// `unicode_object.compactunicodeobject_size`, from 3.15 on.
    pub compact_data: Option<u16>,
}
