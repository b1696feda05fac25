//! CPython 3.6.

use agent_common::layout::{
    ABSENT, CodeLayout, FrameLayout, GilStyle, InstanceStyle, InstructionStyle, InterpreterLayout,
    KeysStyle, Layout, LineTableFormat, ObjectLayout, RunStyle, TextLayout, TextStyle,
    ThreadLayout,
};

use super::series::VersionSeries;

/// The row of this series.
pub(super) const SERIES: VersionSeries = VersionSeries {
    major: 3,
    minor: 6,
    layout: LAYOUT,
    free_threaded: None,
    runtime_bytes: &[],
    debug_offsets: None,
};

const LAYOUT: Layout = Layout {
    interpreter: InterpreterLayout {
        runtime_head: ABSENT,
        runtime_gil_holder: ABSENT,
        next: 0,
        threads_head: 8,
        newest_state_id: ABSENT,
        gil: ABSENT,
        gil_style: GilStyle::HOLDER,
    },
    thread: ThreadLayout {
        bytes: 160,
        previous: 0,
        next: 8,
        interpreter: 16,
        thread_id: 152,
        id: ABSENT,
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
        bytes: 128,
        previous: 24,
        code: 32,
        instruction: 120,
        owner: ABSENT,
        locals: 376,
        bytecode_copy: ABSENT,
        entry: ABSENT,
        run_style: RunStyle::EACH,
        instruction_style: InstructionStyle::INDEX,
        instruction_unit: 1,
    },
    code: CodeLayout {
        bytes: 120,
        file: 96,
        name: 104,
        first_line: 36,
        line_table: 112,
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
        class_cached_keys: 856,
        dict_keys: 32,
        dict_values: 40,
        values_head: 0,
        before_object: 0,
        instance: InstanceStyle::DICT_OFFSET,
        keys: KeysStyle::SIZE,
    },
};
