//! A row of the table of supported versions.

use agent_common::layout::Layout;

use crate::python::{
    coroutines::CoroutineFacts, debug_offsets::Positions, variables::VariableFacts,
    version::Version,
};

/// A minor version of CPython.
#[derive(Debug)]
pub struct VersionSeries {
    /// Major version number.
    pub major: u8,
    /// Minor version number.
    pub minor: u8,
    /// Layout of its structures.
    pub layout: Layout,
    /// Layout in free-threaded builds, where there are any.
    pub free_threaded: Option<Layout>,
    /// Sizes of `_PyRuntime` in its releases, in bytes.
    pub runtime_bytes: &'static [u64],
    /// Positions of the fields of its `_Py_DebugOffsets`, where it has one.
    pub debug_offsets: Option<Positions>,
    /// Of its coroutines, where tasks can be read: from 3.14 on.
    pub coroutines: Option<CoroutineFacts>,
    /// Of the variables of its functions.
    pub variables: VariableFacts,
}

impl VersionSeries {
    /// Its version without a micro number.
    #[must_use]
    pub const fn version(&self) -> Version {
        Version::of_series(self.major, self.minor)
    }
}
