//! The row of a series of CPython.

use agent_common::layout::Layout;

use crate::python::{debug_offsets::Positions, version::Version};

/// What is known about a series of CPython.
#[derive(Debug)]
pub struct VersionSeries {
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

impl VersionSeries {
    /// Its version, as far as one is common to its releases.
    #[must_use]
    pub const fn version(&self) -> Version {
        Version::of_series(self.major, self.minor)
    }
}
