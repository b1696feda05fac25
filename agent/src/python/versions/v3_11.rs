//! CPython 3.11.

use agent_common::layout::{
    ABSENT, CodeLayout, FrameLayout, GilStyle, InstanceStyle, InstructionStyle, InterpreterLayout,
    KeysStyle, Layout, LineTableFormat, ObjectLayout, RunStyle, TextLayout, TextStyle,
    ThreadLayout,
};

use super::series::VersionSeries;

/// The row of this series.
pub(super) const SERIES: VersionSeries = VersionSeries {
    major: 3,
    minor: 11,
    layout: LAYOUT,
    free_threaded: None,
    runtime_bytes: &[166_680, 166_688, 166_704],
    debug_offsets: None,
};

const LAYOUT: Layout = Layout {
    interpreter: InterpreterLayout {
        runtime_head: 40,
        runtime_gil_holder: 368,
        next: 0,
        threads_head: 16,
        newest_state_id: 8,
        gil: ABSENT,
        gil_style: GilStyle::LAST_HOLDER,
    },
    thread: ThreadLayout {
        bytes: 312,
        previous: 0,
        next: 8,
        interpreter: 16,
        thread_id: 152,
        id: 240,
        frame: 56,
        cframe_current_frame: 8,
        cframe_previous: 16,
        datastack_chunk: 296,
        datastack_top: 304,
        attached: ABSENT,
        attached_mask: 0,
        attached_value: 0,
    },
    frame: FrameLayout {
        bytes: 72,
        previous: 48,
        code: 32,
        instruction: 56,
        owner: 69,
        locals: 72,
        bytecode_copy: ABSENT,
        entry: 68,
        run_style: RunStyle::MARKED,
        instruction_style: InstructionStyle::POINTER,
        instruction_unit: 1,
    },
    code: CodeLayout {
        bytes: 176,
        file: 112,
        name: 128,
        first_line: 72,
        line_table: 136,
        first_traceable: 168,
        bytecode: 184,
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
        ascii_data: 48,
        compact_data: 72,
        bytes_size: 16,
        bytes_data: 32,
        style: TextStyle::UNICODE,
    },
    object: ObjectLayout {
        class: 8,
        class_basic_size: 32,
        class_dict_offset: 288,
        class_cached_keys: 872,
        dict_keys: 32,
        dict_values: 40,
        values_head: 0,
        before_object: 24,
        instance: InstanceStyle::VALUES_AND_DICT,
        keys: KeysStyle::LOG2,
    },
};
