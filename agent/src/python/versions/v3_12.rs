//! CPython 3.12.

use agent_common::layout::{
    ABSENT, CodeLayout, FrameLayout, GilStyle, InstanceStyle, InstructionStyle, InterpreterLayout,
    KeysStyle, Layout, LineTableFormat, ObjectLayout, RunStyle, TextLayout, TextStyle,
    ThreadLayout,
};

use super::series::VersionSeries;

/// The row of this series.
pub(super) const SERIES: VersionSeries = VersionSeries {
    major: 3,
    minor: 12,
    layout: LAYOUT,
    free_threaded: None,
    runtime_bytes: &[459_944, 459_960],
    debug_offsets: None,
};

const LAYOUT: Layout = Layout {
    interpreter: InterpreterLayout {
        runtime_head: 40,
        runtime_gil_holder: ABSENT,
        next: 0,
        threads_head: 72,
        newest_state_id: 64,
        gil: 384,
        gil_style: GilStyle::IN_THREAD,
    },
    thread: ThreadLayout {
        bytes: 248,
        previous: 0,
        next: 8,
        interpreter: 16,
        thread_id: 136,
        id: 224,
        frame: 56,
        cframe_current_frame: 0,
        cframe_previous: 8,
        datastack_chunk: 232,
        datastack_top: 240,
        attached: 24,
        attached_mask: 16,
        attached_value: 16,
    },
    frame: FrameLayout {
        bytes: 72,
        previous: 8,
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
        bytes: 184,
        file: 112,
        name: 128,
        first_line: 68,
        line_table: 136,
        first_traceable: 176,
        bytecode: 192,
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
        values_head: 0,
        before_object: 24,
        instance: InstanceStyle::VALUES_OR_DICT,
        keys: KeysStyle::LOG2,
    },
};
