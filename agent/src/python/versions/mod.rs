//! The supported versions of CPython: one file and one row each.
//!
//! Offsets were taken from the DWARF of binaries and from compiled headers. They are the same on
//! x86-64 and aarch64, with glibc and with musl, and for every release of a series.
//! `tests/layouts.rs` compares them with the installed interpreters.
//!
//! # Adding a version
//!
//! 1. One file `v3_x.rs`, a copy of the previous one. `agent doctor --pid N` on the new interpreter
//!    shows how it is detected; with an interpreter built with debug symbols,
//!    `cargo test --test layouts` shows the values that differ. The positions of its
//!    `_Py_DebugOffsets` are in `Include/internal/pycore_debug_offsets.h` of its source.
//! 2. One row in [`SUPPORTED`].
//! 3. One row in `xtask/src/interpreters/catalog.rs`, from which the tests install it, and one
//!    recorded image: `AGENT_BLESS=1 cargo test --test images` records it.
//!
//! A difference that no version had before is a capability: a field of
//! [`Layout`](agent_common::layout::Layout) that is absent in all others. The BPF programs never
//! compare versions.

mod series;
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

pub use series::VersionSeries;

use super::version::Version;

/// The supported series, oldest first.
pub static SUPPORTED: &[VersionSeries] = &[
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

/// The supported versions, for messages.
#[must_use]
pub fn supported_range() -> String {
    let last = SUPPORTED.last().map_or(0, |series| series.minor);
    format!("CPython 2.7 and 3.6 to 3.{last}")
}

/// The series of `version`, if it is supported.
#[must_use]
pub fn series_of(version: Version) -> Option<&'static VersionSeries> {
    SUPPORTED
        .iter()
        .find(|series| version.is_same_series(series.version()))
}

/// The series of `version`, or the newest one where `version` is newer than all supported ones.
#[must_use]
pub(super) fn nearest_series(version: Version) -> Option<&'static VersionSeries> {
    let newest = SUPPORTED.last()?;
    let is_newer = (version.major, version.minor) > (newest.major, newest.minor);
    if is_newer {
        Some(newest)
    } else {
        series_of(version)
    }
}

#[cfg(test)]
mod tests {
    use super::{SUPPORTED, series_of};
    use crate::python::{
        layout_sizes::{code_bytes, frame_bytes, text_bytes, thread_bytes},
        version::Version,
    };
    use agent_common::limits::{CODE_BYTES, FRAME_BYTES, THREAD_BYTES};

    #[test]
    fn sizes_cover_exactly_the_fields() {
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
    fn rows_are_in_order_without_gaps() {
        let (python_2, python_3) = SUPPORTED.split_at(1);
        assert_eq!((python_2[0].major, python_2[0].minor), (2, 7));
        assert!(python_3.iter().map(|series| series.minor).eq(6..=15));
        assert!(python_3.iter().all(|series| series.major == 3));
        assert!(series_of(Version::of_series(3, 5)).is_none());
        assert!(series_of(Version::of_series(3, 16)).is_none());
        assert!(series_of(Version::of_series(2, 7)).is_some());
    }
}
