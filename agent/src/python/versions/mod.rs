//! The versions of CPython that are supported: one file and one row each.
//!
//! Offsets were taken from the DWARF of real binaries and from compiled headers. All of them are
//! the same on x86-64 and aarch64, with glibc and with musl, and for every release of a series.
//! `tests/layouts.rs` compares them with the interpreters at hand.
//!
//! # Adding a version
//!
//! 1. One file `v3_x.rs`, a copy of the one before. `agent doctor --pid N` on the new interpreter
//!    says what it makes of it; built with debug symbols, `cargo test --test layouts` says which
//!    values differ. Where its `_Py_DebugOffsets` has what stands in
//!    `Include/internal/pycore_debug_offsets.h` of its source.
//! 2. One row in [`SUPPORTED`].
//! 3. One row in `xtask/src/interpreters/catalog.rs`, which says where the tests get it from, and
//!    one recorded image: `AGENT_BLESS=1 cargo test --test images` records it.
//!
//! What no version had before is a capability: a field of [`Layout`] that is absent in all
//! others, never a version that the kernel half compares.

mod v2_7;
mod v3_10;
mod v3_11;
mod v3_12;
mod v3_13;
mod v3_14;
mod v3_15;
mod v3_6;
mod v3_7;
mod v3_8;
mod v3_9;

use agent_common::layout::{ABSENT, CodeLayout, FrameLayout, Layout, TextLayout, ThreadLayout};

use super::{debug_offsets::Positions, version::Version};

/// What is known about a series of CPython.
#[derive(Debug)]
pub struct Series {
    /// The first number of its versions.
    pub major: u8,
    /// The second number.
    pub minor: u8,
    /// Where its fields are.
    pub layout: Layout,
    /// Where they are in builds without a global lock, where there are such.
    pub free_threaded: Option<Layout>,
    /// Sizes of `_PyRuntime` that were seen in its releases.
    pub runtime_bytes: &'static [u64],
    /// Where `_Py_DebugOffsets` has what, where there is one.
    pub debug_offsets: Option<Positions>,
}

/// The supported series, oldest first.
pub static SUPPORTED: &[Series] = &[
    v2_7::SERIES,
    v3_6::SERIES,
    v3_7::SERIES,
    v3_8::SERIES,
    v3_9::SERIES,
    v3_10::SERIES,
    v3_11::SERIES,
    v3_12::SERIES,
    v3_13::SERIES,
    v3_14::SERIES,
    v3_15::SERIES,
];

impl Series {
    /// Its version, as far as one is common to its releases.
    #[must_use]
    pub const fn version(&self) -> Version {
        Version::of_series(self.major, self.minor)
    }
}

/// The supported versions, for messages.
#[must_use]
pub fn supported_range() -> String {
    let last = SUPPORTED.last().map_or(0, |series| series.minor);
    format!("CPython 2.7 and 3.6 to 3.{last}")
}

/// The series that `version` belongs to, if it is supported.
#[must_use]
pub fn series_of(version: Version) -> Option<&'static Series> {
    SUPPORTED
        .iter()
        .find(|series| version.is_same_series(series.version()))
}

/// The series of `version`, or the newest one where `version` is newer than all: what comes next
/// is most like it.
#[must_use]
pub(super) fn nearest_series(version: Version) -> Option<&'static Series> {
    let newest = SUPPORTED.last()?;
    let is_newer = (version.major, version.minor) > (newest.major, newest.minor);
    if is_newer {
        Some(newest)
    } else {
        series_of(version)
    }
}

/// Multiple of eight bytes that holds pointers at `words` and smaller fields that end at `ends`.
/// Absent fields take nothing.
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

/// What [`ThreadLayout::bytes`] has to be.
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

/// What [`FrameLayout::bytes`] has to be.
pub(super) fn frame_bytes(frame: &FrameLayout) -> u16 {
    use agent_common::layout::InstructionStyle;

    let instruction = if frame.instruction_style == InstructionStyle::POINTER {
        8
    } else {
        4
    };
    covering(
        &[frame.previous, frame.code],
        &[
            end(frame.instruction, instruction),
            end(frame.owner, 1),
            end(frame.bytecode_copy, 4),
        ],
    )
}

/// What [`CodeLayout::bytes`] has to be.
pub(super) fn code_bytes(code: &CodeLayout) -> u16 {
    covering(
        &[code.file, code.name, code.line_table],
        &[end(code.first_line, 4), end(code.first_traceable, 4)],
    )
}

/// What [`TextLayout::bytes`] has to be.
pub(super) fn text_bytes(text: &TextLayout) -> u16 {
    covering(&[text.length], &[end(text.state, 4)])
}

#[cfg(test)]
mod tests {
    use super::{SUPPORTED, code_bytes, frame_bytes, series_of, text_bytes, thread_bytes};
    use crate::python::version::Version;
    use agent_common::limits::{CODE_BYTES, FRAME_BYTES, THREAD_BYTES};

    #[test]
    fn sizes_cover_what_is_read_and_no_more() {
        let layouts = SUPPORTED
            .iter()
            .flat_map(|series| [Some(series.layout), series.free_threaded]);
        for layout in layouts.flatten() {
            assert_eq!(layout.thread.bytes, thread_bytes(&layout.thread));
            assert_eq!(layout.frame.bytes, frame_bytes(&layout.frame));
            assert_eq!(layout.code.bytes, code_bytes(&layout.code));
            assert_eq!(layout.text.bytes, text_bytes(&layout.text));
            assert!(usize::from(layout.thread.bytes) <= THREAD_BYTES);
            assert!(usize::from(layout.frame.bytes) <= FRAME_BYTES);
            assert!(usize::from(layout.code.bytes) <= CODE_BYTES);
        }
    }

    #[test]
    fn the_rows_are_in_order_without_a_gap() {
        let (python_2, python_3) = SUPPORTED.split_at(1);
        assert_eq!((python_2[0].major, python_2[0].minor), (2, 7));
        assert!(python_3.iter().map(|series| series.minor).eq(6..=15));
        assert!(python_3.iter().all(|series| series.major == 3));
        assert!(series_of(Version::of_series(3, 5)).is_none());
        assert!(series_of(Version::of_series(3, 16)).is_none());
        assert!(series_of(Version::of_series(2, 7)).is_some());
    }
}
