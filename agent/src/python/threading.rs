//! The standard library's module `threading`.

use std::path::Path;

/// Whether the function `name` in `file` is `Thread._bootstrap`, the outermost frame of every
/// `threading.Thread`.
///
/// Its first local variable is the `Thread`.
#[must_use]
pub fn is_bootstrap(name: &str, file: &str) -> bool {
    matches!(name, "Thread._bootstrap" | "_bootstrap")
        && Path::new(file).file_name() == Some("threading.py".as_ref())
}
