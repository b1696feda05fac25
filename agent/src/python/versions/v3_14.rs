//! CPython 3.14.

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
    minor: 14,
    layout: LAYOUT,
    free_threaded: Some(FREE_THREADED),
    runtime_bytes: &[316_536, 316_616, 316_632],
    debug_offsets: Some(DEBUG_OFFSETS),
    coroutines: Some(COROUTINES),
    variables: VariableFacts::V3_14,
};

const LAYOUT: Layout = Layout {
    interpreter: InterpreterLayout {
        runtime_head: 808,
        runtime_gil_holder: ABSENT,
        next: 7272,
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
        attached: 44,
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
        gil: 120,
        gc: 88,
        gc_collecting: 656,
    },
    thread: ThreadPositions {
        bytes: 176,
        previous: 184,
        next: 192,
        interpreter: 200,
        current_frame: 208,
        thread_id: 216,
        datastack_chunk: 232,
    },
    frame: FramePositions {
        bytes: 248,
        previous: 256,
        executable: 264,
        instr_ptr: 272,
        localsplus: 280,
        owner: 288,
        tlbc_index: Some(304),
    },
    code: CodePositions {
        bytes: 312,
        filename: 320,
        qualname: 336,
        linetable: 344,
        firstlineno: 352,
        co_code_adaptive: 384,
        co_tlbc: Some(392),
    },
    text: TextPositions {
        bytes_object: 592,
        bytes_size: 600,
        bytes_data: 608,
        unicode_object: 616,
        state: 624,
        length: 632,
        ascii_data: 640,
        compact_data: None,
    },
};

const COROUTINES: CoroutineFacts = CoroutineFacts {
    modules: 96,
    native_thread_id: 224,
    stack_pointer: 296,
    type_flags: 440,
    set_table: 512,
    set_mask: 520,
    number_tag: 576,
    number_digits: 584,
    frame: 680,
    state: 688,
    node_next: 696,
    node_previous: 704,
    awaited_slot: 1,
    states: CoroutineStates {
        created: -3,
        suspended: -2,
        awaiting: &[-1],
        executing: 0,
    },
};
