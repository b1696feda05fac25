//! CPython 3.9.

use agent_common::layout::{
    ABSENT, CodeLayout, FrameLayout, GilStyle, InstanceStyle, InstructionStyle, InterpreterLayout,
    KeysStyle, Layout, LineTableFormat, ObjectLayout, RunStyle, TextLayout, TextStyle,
    ThreadLayout,
};

use super::series::VersionSeries;

/// The row of this series.
pub(super) const SERIES: VersionSeries = VersionSeries {
    major: 3,
    minor: 9,
    layout: LAYOUT,
    free_threaded: None,
    runtime_bytes: &[656, 672],
    debug_offsets: None,
};

const LAYOUT: Layout = Layout {
    interpreter: InterpreterLayout {
        runtime_head: 32,
        runtime_gil_holder: 360,
        next: 0,
        threads_head: 8,
        newest_state_id: ABSENT,
        gil: ABSENT,
        gil_style: GilStyle::LAST_HOLDER,
    },
    thread: ThreadLayout {
        bytes: 184,
        previous: 0,
        next: 8,
        interpreter: 16,
        thread_id: 176,
        id: 256,
        frame: 24,
        cframe_current_frame: ABSENT,
        cframe_previous: ABSENT,
        datastack_chunk: ABSENT,
        datastack_top: ABSENT,
        attached: ABSENT,
        attached_mask: 0,
        attached_value: 0,
    },
    frame: FrameLayout {
        bytes: 112,
        previous: 24,
        code: 32,
        instruction: 104,
        owner: ABSENT,
        locals: 360,
        bytecode_copy: ABSENT,
        entry: ABSENT,
        run_style: RunStyle::EACH,
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
        bytecode_copies: ABSENT,
        line_table_format: LineTableFormat::LNOTAB,
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
        class_cached_keys: 864,
        dict_keys: 32,
        dict_values: 40,
        values_head: 0,
        before_object: 0,
        instance: InstanceStyle::DICT_OFFSET,
        keys: KeysStyle::SIZE,
    },
};
