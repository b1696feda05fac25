//! Names of files.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

/// The last part of a path, for messages and for names that say what a file is.
#[must_use]
pub fn file_name(path: &Path) -> &[u8] {
    path.file_name().map_or(&[], |name| name.as_bytes())
}
