//! Bytes that the walk reads of each structure, which follow from the offsets of its fields.

use agent_common::layout::{
    ABSENT, CodeLayout, FrameLayout, InstructionStyle, TextLayout, ThreadLayout,
};

/// Smallest multiple of eight that covers pointers at `words` and smaller fields that end at
/// `ends`. Absent fields do not count.
fn covering(words: &[u16], ends: &[u16]) -> u16 {
    let words = words
        .iter()
        .filter(|&&offset| offset != ABSENT)
        .map(|offset| offset.saturating_add(8));
    let last = words.chain(ends.iter().copied()).max().unwrap_or(0);
    last.saturating_add(7) & !7
}

/// The end of a field of `bytes` bytes; 0 when it is absent.
fn end(offset: u16, bytes: u16) -> u16 {
    if offset == ABSENT {
        0
    } else {
        offset.saturating_add(bytes)
    }
}

/// The value of [`ThreadLayout::bytes`].
pub(super) fn thread_bytes(thread: &ThreadLayout) -> u16 {
    let words = [
        thread.previous,
        thread.next,
        thread.interpreter,
        thread.thread_id,
        thread.frame,
        thread.datastack_chunk,
        thread.datastack_top,
    ];
    covering(&words, &[end(thread.attached, 4)])
}

/// The value of [`FrameLayout::bytes`].
pub(super) fn frame_bytes(frame: &FrameLayout) -> u16 {
    let instruction = if frame.instruction_style == InstructionStyle::POINTER {
        8
    } else {
        4
    };
    covering(
        &[frame.previous, frame.function, frame.code],
        &[
            end(frame.instruction, instruction),
            end(frame.owner, 1),
            end(frame.bytecode_copy, 4),
        ],
    )
}

/// The value of [`CodeLayout::bytes`].
pub(super) fn code_bytes(code: &CodeLayout) -> u16 {
    covering(
        &[code.file, code.name, code.line_table],
        &[end(code.first_line, 4), end(code.first_traceable, 4)],
    )
}

/// The value of [`TextLayout::bytes`].
pub(super) fn text_bytes(text: &TextLayout) -> u16 {
    covering(&[text.length], &[end(text.state, 4)])
}
