//! References to files by `O_PATH`, and the flags with which a referenced file is opened.

use std::{os::fd::OwnedFd, path::Path};

use rustix::{
    fs::{self, Mode, OFlags, ResolveFlags},
    io::Errno,
};

/// Flags that refer to a file without opening it.
pub(super) const REFERENCE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Flags for regular files; the last two have an effect only if it is not one after all.
pub(super) const READING: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens the file at `path` in the root directory `root` with `O_PATH`.
pub(super) fn find_in_root(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    fs::openat2(root, path, REFERENCE, Mode::empty(), resolve)
}
