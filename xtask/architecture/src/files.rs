//! The files below a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file at a path, or all files below it, that have one of these extensions.
///
/// # Errors
///
/// When a folder cannot be read.
pub fn files(path: &Path, extensions: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            found.append(&mut files(&entry?.path(), extensions)?);
        }
    } else if let Some(extension) = path.extension().and_then(|it| it.to_str())
        && extensions.contains(&extension)
    {
        found.push(path.to_owned());
    }
    Ok(found)
}
