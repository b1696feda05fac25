//! Folders and files that stay the same whatever becomes of their names.

use std::{
    fs::File,
    io,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};

use super::error::OutputError;

/// A folder that stays the same whatever becomes of its name.
#[derive(Debug)]
pub(super) struct OpenFolder(pub(super) File);

impl OpenFolder {
    pub(super) fn open(path: &Path) -> Result<Self, OutputError> {
        let opened = open_path(or_current(path), OFlags::DIRECTORY);
        opened.map(Self).map_err(|error| folder_error(path, &error))
    }

    /// A path of the entry with the file name of `path`.
    pub(super) fn entry(&self, path: &Path) -> PathBuf {
        descriptor(&self.0).join(path.file_name().unwrap_or_default())
    }
}

/// Opens a path without the right to read or write.
pub(super) fn open_path(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// The folder of a path that has none.
pub(super) fn or_current(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    }
}

/// The path of an open file whatever becomes of its name.
pub(super) fn descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

pub(super) fn folder_error(folder: &Path, error: &io::Error) -> OutputError {
    let folder = or_current(folder);
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => OutputError::NoFolder {
            folder: folder.into(),
        },
        // The error itself repeats the name of the file.
        kind => OutputError::Create {
            folder: folder.into(),
            source: kind.into(),
        },
    }
}
