//! CPython 3.12.

use agent_common::layout::{
    CodeLayout, FrameLayout, InstanceStyle, InstructionStyle, InterpreterLayout, KeysStyle, Layout,
    LineTableFormat, ObjectLayout, TextLayout, ThreadLayout,
};

use super::Series;

/// The row of this series.
pub(super) const SERIES: Series = Series {
    minor: 12,
    layout: LAYOUT,
    runtime_bytes: &[459_944, 459_960],
    debug_offsets: None,
};

const LAYOUT: Layout = Layout {
    interpreter: InterpreterLayout {
        runtime_head: 40,
        next: 0,
        threads_head: 72,
    },
    thread: ThreadLayout {
        bytes: 248,
        previous: 0,
        next: 8,
        interpreter: 16,
        thread_id: 136,
        frame: 56,
        cframe_current_frame: 0,
        cframe_previous: 8,
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
        bytes: 184,
        file: 112,
        name: 128,
        first_line: 68,
        line_table: 136,
        first_traceable: 176,
        bytecode: 192,
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
        values_head: 0,
        instance: InstanceStyle::VALUES_OR_DICT,
        keys: KeysStyle::LOG2,
    },
};
