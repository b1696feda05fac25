//! CPython 3.8.

use agent_common::layout::{
    ABSENT, CodeLayout, FrameLayout, InstanceStyle, InstructionStyle, InterpreterLayout, KeysStyle,
    Layout, LineTableFormat, ObjectLayout, TextLayout, ThreadLayout,
};

use super::Series;

/// The row of this series.
pub(super) const SERIES: Series = Series {
    minor: 8,
    layout: LAYOUT,
    runtime_bytes: &[1464, 1480],
    debug_offsets: None,
};

const LAYOUT: Layout = Layout {
    interpreter: InterpreterLayout {
        runtime_head: 32,
        next: 0,
        threads_head: 8,
    },
    thread: ThreadLayout {
        bytes: 184,
        previous: 0,
        next: 8,
        interpreter: 16,
        thread_id: 176,
        frame: 24,
        cframe_current_frame: ABSENT,
        cframe_previous: ABSENT,
        datastack_chunk: ABSENT,
        datastack_top: ABSENT,
    },
    frame: FrameLayout {
        bytes: 112,
        previous: 24,
        code: 32,
        instruction: 104,
        owner: ABSENT,
        locals: 360,
        has_entry_frames: 0,
        instruction_style: InstructionStyle::INDEX,
        instruction_unit: 1,
    },
    code: CodeLayout {
        bytes: 128,
        file: 104,
        name: 112,
        first_line: 40,
        line_table: 120,
        first_traceable: ABSENT,
        bytecode: ABSENT,
        line_table_format: LineTableFormat::LNOTAB,
    },
    text: TextLayout {
        bytes: 40,
        length: 16,
        hash: 24,
        state: 32,
        kind_bit: 2,
        compact_bit: 5,
        ascii_bit: 6,
        ascii_data: 48,
        compact_data: 72,
        bytes_size: 16,
        bytes_data: 32,
    },
    object: ObjectLayout {
        class: 8,
        class_basic_size: 32,
        class_dict_offset: 288,
        class_cached_keys: 872,
        dict_keys: 32,
        dict_values: 40,
        values_head: 0,
        instance: InstanceStyle::DICT_OFFSET,
        keys: KeysStyle::SIZE,
    },
};
