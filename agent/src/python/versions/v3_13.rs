//! CPython 3.13.

use agent_common::layout::{
    ABSENT, CodeLayout, ExceptionLayout, FrameLayout, GilStyle, InstanceStyle, InstructionStyle,
    InterpreterLayout, KeysStyle, Layout, LineTableFormat, ObjectLayout, RunStyle, TextLayout,
    TextStyle, ThreadLayout,
};

use super::series::VersionSeries;
use crate::python::debug_offsets::{
    CodePositions, FramePositions, InterpreterPositions, Positions, RuntimePositions,
    TextPositions, ThreadPositions,
};
use crate::python::variables::VariableFacts;

/// The row of this series.
pub(super) const SERIES: VersionSeries = VersionSeries {
    major: 3,
    minor: 13,
    layout: LAYOUT,
    free_threaded: Some(FREE_THREADED),
    runtime_bytes: &[283_320, 283_336, 283_376, 283_392, 283_408, 283_424],
    debug_offsets: Some(DEBUG_OFFSETS),
    coroutines: None,
    variables: VariableFacts::V3_12,
};

const LAYOUT: Layout = Layout {
    interpreter: InterpreterLayout {
        runtime_head: 632,
        runtime_gil_holder: ABSENT,
        next: 7264,
        threads_head: 7344,
        newest_state_id: 7336,
        gil: 16,
        gil_style: GilStyle::IN_THREAD,
        gc_collecting: 7600,
        runtime_gc_collecting: ABSENT,
    },
    thread: ThreadLayout {
        bytes: 248,
        previous: 0,
        next: 8,
        interpreter: 16,
        thread_id: 152,
        id: 224,
        frame: 72,
        cframe_current_frame: ABSENT,
        cframe_previous: ABSENT,
        datastack_chunk: 232,
        datastack_top: 240,
        attached: 40,
        attached_mask: 15,
        attached_value: 1,
    },
    frame: FrameLayout {
        bytes: 72,
        previous: 8,
        function: 16,
        code: 0,
        instruction: 56,
        owner: 70,
        locals: 72,
        bytecode_copy: ABSENT,
        entry: ABSENT,
        run_style: RunStyle::ENTRY_FRAMES,
        instruction_style: InstructionStyle::POINTER,
        instruction_unit: 1,
    },
    code: CodeLayout {
        bytes: 192,
        file: 112,
        name: 128,
        first_line: 68,
        line_table: 136,
        first_traceable: 184,
        bytecode: 200,
        bytecode_copies: ABSENT,
        line_table_format: LineTableFormat::LOCATIONS,
    },
    text: TextLayout {
        bytes: 40,
        length: 16,
        hash: 24,
        state: 32,
        state_mask: u16::MAX,
        state_bits: 0,
        kind_bit: 2,
        compact_bit: 5,
        ascii_bit: 6,
        ascii_data: 40,
        compact_data: 56,
        bytes_size: 16,
        bytes_data: 32,
        style: TextStyle::UNICODE,
    },
    object: ObjectLayout {
        class: 8,
        class_basic_size: 32,
        class_dict_offset: 288,
        class_cached_keys: 880,
        dict_keys: 32,
        dict_values: 40,
        values_head: 8,
        before_object: 24,
        gc_head: 16,
        instance: InstanceStyle::INLINE_VALUES,
        keys: KeysStyle::LOG2,
    },
    exception: ExceptionLayout {
        current: 112,
        traceback: 40,
        thread_class: ABSENT,
        thread_traceback: ABSENT,
        class_name: 24,
    },
};

/// Objects have a longer head, for the thread that owns them and their own lock.
const FREE_THREADED: Layout = Layout {
    code: CodeLayout {
        bytes: 208,
        file: 128,
        name: 144,
        first_line: 84,
        line_table: 152,
        first_traceable: 200,
        bytecode: 216,
        bytecode_copies: ABSENT,
        ..LAYOUT.code
    },
    text: TextLayout {
        bytes: 56,
        length: 32,
        hash: 40,
        state: 48,
        state_mask: u16::MAX,
        state_bits: 0,
        kind_bit: 2,
        compact_bit: 5,
        ascii_bit: 6,
        ascii_data: 56,
        compact_data: 72,
        bytes_size: 32,
        bytes_data: 48,
        style: TextStyle::UNICODE,
    },
    object: ObjectLayout {
        class: 24,
        class_basic_size: 48,
        class_dict_offset: 304,
        class_cached_keys: 896,
        dict_keys: 48,
        dict_values: 56,
        before_object: 8,
        gc_head: 0,
        ..LAYOUT.object
    },
    exception: ExceptionLayout {
        traceback: 56,
        class_name: 40,
        ..LAYOUT.exception
    },
    ..LAYOUT
};

const DEBUG_OFFSETS: Positions = Positions {
    runtime: RuntimePositions {
        bytes: 24,
        interpreters_head: 40,
    },
    interpreter: InterpreterPositions {
        bytes: 48,
        next: 64,
        threads_head: 72,
        gil: 112,
        gc: 80,
        gc_collecting: 576,
    },
    thread: ThreadPositions {
        bytes: 152,
        previous: 160,
        next: 168,
        interpreter: 176,
        current_frame: 184,
        thread_id: 192,
        datastack_chunk: 208,
    },
    frame: FramePositions {
        bytes: 224,
        previous: 232,
        executable: 240,
        instr_ptr: 248,
        localsplus: 256,
        owner: 264,
        tlbc_index: None,
    },
    code: CodePositions {
        bytes: 272,
        filename: 280,
        qualname: 296,
        linetable: 304,
        firstlineno: 312,
        co_code_adaptive: 344,
        co_tlbc: None,
    },
    text: TextPositions {
        bytes_object: 512,
        bytes_size: 520,
        bytes_data: 528,
        unicode_object: 536,
        state: 544,
        length: 552,
        ascii_data: 560,
        compact_data: None,
    },
};
