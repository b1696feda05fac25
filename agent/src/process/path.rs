//! File names in paths.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

/// The last component of a path; empty where it has none.
#[must_use]
pub fn file_name(path: &Path) -> &[u8] {
    path.file_name().map_or(&[], |name| name.as_bytes())
}
