//! CPython 3.13.

use agent_common::layout::{
    ABSENT, CodeLayout, FrameLayout, InstanceStyle, InstructionStyle, InterpreterLayout, KeysStyle,
    Layout, LineTableFormat, ObjectLayout, TextLayout, ThreadLayout,
};

use super::Series;
use crate::python::debug_offsets::{
    CodePositions, FramePositions, InterpreterPositions, Positions, RuntimePositions,
    TextPositions, ThreadPositions,
};

/// The row of this series.
pub(super) const SERIES: Series = Series {
    minor: 13,
    layout: LAYOUT,
    runtime_bytes: &[283_320, 283_336, 283_376, 283_392, 283_408, 283_424],
    debug_offsets: Some(DEBUG_OFFSETS),
};

const LAYOUT: Layout = Layout {
    interpreter: InterpreterLayout {
        runtime_head: 632,
        next: 7264,
        threads_head: 7344,
    },
    thread: ThreadLayout {
        bytes: 248,
        previous: 0,
        next: 8,
        interpreter: 16,
        thread_id: 152,
        frame: 72,
        cframe_current_frame: ABSENT,
        cframe_previous: ABSENT,
        datastack_chunk: 232,
        datastack_top: 240,
    },
    frame: FrameLayout {
        bytes: 72,
        previous: 8,
        code: 0,
        instruction: 56,
        owner: 70,
        locals: 72,
        has_entry_frames: 1,
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
        line_table_format: LineTableFormat::LOCATIONS,
    },
    text: TextLayout {
        bytes: 40,
        length: 16,
        hash: 24,
        state: 32,
        kind_bit: 2,
        compact_bit: 5,
        ascii_bit: 6,
        ascii_data: 40,
        compact_data: 56,
        bytes_size: 16,
        bytes_data: 32,
    },
    object: ObjectLayout {
        class: 8,
        class_basic_size: 32,
        class_dict_offset: 288,
        class_cached_keys: 880,
        dict_keys: 32,
        dict_values: 40,
        values_head: 8,
        instance: InstanceStyle::INLINE_VALUES,
        keys: KeysStyle::LOG2,
    },
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
    },
    code: CodePositions {
        bytes: 272,
        filename: 280,
        qualname: 296,
        linetable: 304,
        firstlineno: 312,
        co_code_adaptive: 344,
    },
    text: TextPositions {
        bytes_object: 512,
        bytes_size: 520,
        bytes_data: 528,
        unicode_object: 536,
        state: 544,
        length: 552,
        ascii_data: 560,
    },
};
