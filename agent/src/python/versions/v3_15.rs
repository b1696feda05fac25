//! CPython 3.15.

use agent_common::layout::{
    ABSENT, CodeLayout, ExceptionLayout, FrameLayout, GilStyle, InstanceStyle, InstructionStyle,
    InterpreterLayout, KeysStyle, Layout, LineTableFormat, ObjectLayout, RunStyle, TextLayout,
    TextStyle, ThreadLayout,
};

use super::series::VersionSeries;
use crate::python::coroutines::{CoroutineFacts, CoroutineStates};
use crate::python::debug_offsets::{
    CodePositions, FramePositions, InterpreterPositions, Positions, RuntimePositions,
    TextPositions, ThreadPositions,
};
use crate::python::variables::VariableFacts;

/// The row of this series.
pub(super) const SERIES: VersionSeries = VersionSeries {
    major: 3,
    minor: 15,
    layout: LAYOUT,
    free_threaded: Some(FREE_THREADED),
    runtime_bytes: &[346_560, 346_568, 346_584],
    debug_offsets: Some(DEBUG_OFFSETS),
    coroutines: Some(COROUTINES),
    variables: VariableFacts::V3_14,
};

const LAYOUT: Layout = Layout {
    interpreter: InterpreterLayout {
        runtime_head: 936,
        runtime_gil_holder: ABSENT,
        next: 7264,
        threads_head: 7336,
        newest_state_id: 7328,
        gil: 16,
        gil_style: GilStyle::IN_THREAD,
        gc_collecting: 7512,
        runtime_gc_collecting: ABSENT,
    },
    thread: ThreadLayout {
        bytes: 272,
        previous: 0,
        next: 8,
        interpreter: 16,
        thread_id: 176,
        id: 248,
        frame: 72,
        cframe_current_frame: ABSENT,
        cframe_previous: ABSENT,
        datastack_chunk: 256,
        datastack_top: 264,
        attached: 48,
        attached_mask: 15,
        attached_value: 1,
    },
    frame: FrameLayout {
        bytes: 80,
        previous: 8,
        function: 16,
        code: 0,
        instruction: 56,
        owner: 74,
        locals: 80,
        bytecode_copy: ABSENT,
        entry: ABSENT,
        run_style: RunStyle::ENTRY_FRAMES,
        instruction_style: InstructionStyle::POINTER,
        instruction_unit: 1,
    },
    code: CodeLayout {
        bytes: 200,
        file: 112,
        name: 128,
        first_line: 68,
        line_table: 136,
        first_traceable: 192,
        bytecode: 208,
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
        class_cached_keys: 888,
        dict_keys: 32,
        dict_values: 40,
        values_head: 8,
        before_object: 24,
        gc_head: 16,
        instance: InstanceStyle::INLINE_VALUES,
        keys: KeysStyle::LOG2,
    },
    exception: ExceptionLayout {
        current: 136,
        traceback: 40,
        thread_class: ABSENT,
        thread_traceback: ABSENT,
        class_name: 24,
    },
};

/// Objects have a longer head, for the thread that owns them and their own lock.
const FREE_THREADED: Layout = Layout {
    frame: FrameLayout {
        bytes: 80,
        owner: 78,
        bytecode_copy: 72,
        ..LAYOUT.frame
    },
    code: CodeLayout {
        bytes: 216,
        file: 128,
        name: 144,
        first_line: 84,
        line_table: 152,
        first_traceable: 208,
        bytecode: 232,
        bytecode_copies: 224,
        ..LAYOUT.code
    },
    text: TextLayout {
        bytes: 56,
        length: 32,
        hash: 40,
        state: 48,
        state_mask: u16::MAX,
        state_bits: 0,
        kind_bit: 8,
        compact_bit: 11,
        ascii_bit: 12,
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
        class_cached_keys: 904,
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
        gil: 120,
        gc: 88,
        gc_collecting: 760,
    },
    thread: ThreadPositions {
        bytes: 176,
        previous: 184,
        next: 192,
        interpreter: 200,
        current_frame: 208,
        thread_id: 240,
        datastack_chunk: 256,
    },
    frame: FramePositions {
        bytes: 312,
        previous: 320,
        executable: 328,
        instr_ptr: 336,
        localsplus: 344,
        owner: 352,
        tlbc_index: Some(368),
    },
    code: CodePositions {
        bytes: 376,
        filename: 384,
        qualname: 400,
        linetable: 408,
        firstlineno: 416,
        co_code_adaptive: 448,
        co_tlbc: Some(456),
    },
    text: TextPositions {
        bytes_object: 688,
        bytes_size: 696,
        bytes_data: 704,
        unicode_object: 712,
        state: 720,
        length: 728,
        ascii_data: 736,
        compact_data: Some(744),
    },
};

const COROUTINES: CoroutineFacts = CoroutineFacts {
    modules: 96,
    native_thread_id: 248,
    stack_pointer: 360,
    type_flags: 504,
    set_table: 608,
    set_mask: 616,
    number_tag: 672,
    number_digits: 680,
    frame: 808,
    state: 816,
    node_next: 824,
    node_previous: 832,
    awaited_slot: 2,
    states: CoroutineStates {
        created: 0,
        suspended: 1,
        awaiting: &[2, 3],
        executing: 4,
    },
};
