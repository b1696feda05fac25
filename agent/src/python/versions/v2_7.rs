//! CPython 2.7.

use agent_common::layout::{
    ABSENT, CodeLayout, ExceptionLayout, FrameLayout, GilStyle, InstanceStyle, InstructionStyle,
    InterpreterLayout, KeysStyle, Layout, LineTableFormat, ObjectLayout, RunStyle, TextLayout,
    TextStyle, ThreadLayout,
};

use super::series::VersionSeries;
use crate::python::variables::VariableFacts;

/// The row of this series.
pub(super) const SERIES: VersionSeries = VersionSeries {
    major: 2,
    minor: 7,
    layout: LAYOUT,
    free_threaded: None,
    runtime_bytes: &[],
    debug_offsets: None,
    coroutines: None,
    variables: VariableFacts::V2_7,
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
        gc_collecting: ABSENT,
        runtime_gc_collecting: ABSENT,
    },
    thread: ThreadLayout {
        bytes: 152,
        previous: ABSENT,
        next: 0,
        interpreter: 8,
        thread_id: 144,
        id: ABSENT,
        frame: 16,
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
        function: ABSENT,
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
        bytes: 112,
        file: 80,
        name: 88,
        first_line: 96,
        line_table: 104,
        first_traceable: ABSENT,
        bytecode: ABSENT,
        bytecode_copies: ABSENT,
        line_table_format: LineTableFormat::UNSIGNED_LNOTAB,
    },
    text: TextLayout {
        bytes: 24,
        length: 16,
        hash: 24,
        state: 16,
        state_mask: 0,
        // One byte a character, compact.
        state_bits: 0b01_0001,
        kind_bit: 0,
        compact_bit: 4,
        ascii_bit: 5,
        ascii_data: 36,
        compact_data: 36,
        bytes_size: 16,
        bytes_data: 36,
        style: TextStyle::BYTES,
    },
    object: ObjectLayout {
        class: 8,
        class_basic_size: 32,
        class_dict_offset: 288,
        class_cached_keys: 872,
        dict_keys: 32,
        dict_values: 40,
        values_head: 0,
        before_object: 0,
        gc_head: 32,
        instance: InstanceStyle::OPAQUE,
        keys: KeysStyle::SIZE,
    },
    exception: ExceptionLayout {
        current: ABSENT,
        traceback: ABSENT,
        thread_class: 72,
        thread_traceback: 88,
        class_name: 24,
    },
};
