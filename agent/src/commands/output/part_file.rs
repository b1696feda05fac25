//! Files that get their names when they are complete.
//!
//! Invariant: they belong to the user that the output is for, and others cannot read them.

use std::{
    env,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
};

use rustix::{
    fs::OFlags,
    process::{getegid, geteuid},
};
use tempfile::NamedTempFile;

use super::{
    error::OutputError,
    folder::{folder_error, or_current},
};

/// Numbers tried for a file with a default name.
const MAX_UNNAMED: u32 = 9_999;

/// The user and the group that files are for.
pub(super) fn owner() -> (u32, u32) {
    let id = |name| env::var(name).ok()?.parse::<u32>().ok();
    let caller = id("SUDO_UID").zip(id("SUDO_GID"));
    let own = (geteuid().as_raw(), getegid().as_raw());
    caller.filter(|_| geteuid().is_root()).unwrap_or(own)
}

/// A file that is gone when the agent ends before it is complete.
///
/// It is created in `folder`; `name` is that folder for people.
pub(super) fn temporary(folder: &Path, name: &Path) -> Result<NamedTempFile, OutputError> {
    let created = tempfile::Builder::new()
        .prefix(".agent-")
        .suffix(".part")
        .tempfile_in(or_current(folder))
        .map_err(|error| folder_error(name, &error))?;
    give(created.as_file(), owner());
    Ok(created)
}

/// Gives a file to this user and group if it is not theirs: a service may not even ask for it.
fn give(file: &File, owner: (u32, u32)) {
    let present = file.metadata().map(|file| (file.uid(), file.gid()));
    if present.is_ok_and(|present| present != owner) {
        // Not possible on every file system; then it stays the agent's own.
        let _ = fchown(file, Some(owner.0), Some(owner.1));
    }
}

pub(super) fn replace(mut temporary: NamedTempFile, path: &Path, bytes: &[u8]) -> io::Result<()> {
    temporary.write_all(bytes)?;
    // The mode that its owner has chosen; not that of a file which somebody else has put there.
    if let Ok(old) = fs::symlink_metadata(path)
        && old.is_file()
        && [owner().0, geteuid().as_raw()].contains(&old.uid())
    {
        give(temporary.as_file(), (old.uid(), old.gid()));
        let mode = Permissions::from_mode(old.permissions().mode() & 0o777);
        temporary.as_file().set_permissions(mode)?;
    }
    match temporary.persist(path) {
        Ok(_) => Ok(()),
        // A single file that is mounted into a container can be written, not replaced.
        Err(error) if error.error.kind() == io::ErrorKind::ResourceBusy => {
            let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
            let mut options = OpenOptions::new();
            let options = options.write(true).truncate(true).custom_flags(flags);
            options.open(path)?.write_all(bytes)
        }
        Err(error) => Err(error.error),
    }
}

pub(super) fn number(
    mut temporary: NamedTempFile,
    name: &NumberedName,
    bytes: &[u8],
) -> Result<PathBuf, OutputError> {
    let failed = |path: PathBuf, source| OutputError::Write { path, source };
    if let Err(source) = temporary.write_all(bytes) {
        return Err(failed(name.path(1), source));
    }
    for number in 1..=MAX_UNNAMED {
        let path = name.path(number);
        temporary = match temporary.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => error.file,
            Err(error) => return Err(failed(path, error.error)),
        };
    }
    Err(OutputError::NoFreeName { path: name.path(1) })
}

/// `agent-42.pb.gz`, `agent-42-2.pb.gz`, `agent-42-3.pb.gz` …
#[derive(Debug)]
pub(super) struct NumberedName {
    pub(super) stem: PathBuf,
    pub(super) ending: &'static str,
}

impl NumberedName {
    pub(super) fn path(&self, number: u32) -> PathBuf {
        let mut path = self.stem.clone().into_os_string();
        if number > 1 {
            path.push(format!("-{number}"));
        }
        path.push(".");
        path.push(self.ending);
        path.into()
    }
}
