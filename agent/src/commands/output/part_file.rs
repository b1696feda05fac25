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
    fs::{AtFlags, CWD, Mode, OFlags, linkat},
    process::{getegid, geteuid},
};
use tempfile::{Builder, NamedTempFile, TempPath};

use super::{
    error::OutputError,
    folder::{descriptor, folder_error, or_current},
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

/// A file that is being made in a folder. Nothing of it is left there if the agent ends before it is complete, however
/// it ends.
#[derive(Debug)]
pub(super) struct PartFile {
    pub(super) folder: PathBuf,
    /// What it is written to; [`None`] where the file system has no files without a name.
    pub(super) unnamed: Option<File>,
}

impl PartFile {
    /// Proves that `folder` takes a file; `name` is that folder for people.
    pub(super) fn create(folder: &Path, name: &Path) -> Result<Self, OutputError> {
        let folder = or_current(folder);
        let unnamed = unnamed(folder).ok();
        if unnamed.is_none() {
            // It goes at once: a name would stay if the agent was killed while it samples.
            temporary(folder).map_err(|error| folder_error(name, &error))?;
        }
        Ok(Self {
            folder: folder.into(),
            unnamed,
        })
    }

    /// Writes all of it, and gives it a temporary name, from which it gets its own.
    fn complete(self, bytes: &[u8]) -> io::Result<NamedTempFile> {
        if let Some(mut file) = self.unnamed {
            give(&file, owner());
            file.write_all(bytes)?;
            // Not everywhere may a file be linked, such as under a filter of system calls.
            if let Ok(name) = linked(&file, &self.folder) {
                return Ok(NamedTempFile::from_parts(file, name));
            }
        }
        // The error has a name that nobody knows.
        let named = temporary(&self.folder).map_err(|error| io::Error::from(error.kind()))?;
        give(named.as_file(), owner());
        named.as_file().write_all(bytes)?;
        Ok(named)
    }
}

/// A file without a name, which only its owner reads.
fn unnamed(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Gives a file without a name a temporary one.
fn linked(file: &File, folder: &Path) -> io::Result<TempPath> {
    let link = |name: &Path| -> io::Result<()> {
        let file = descriptor(file);
        Ok(linkat(CWD, file, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    };
    Ok(names().make_in(folder, link)?.into_temp_path())
}

/// A file with a temporary name, which is gone when it is dropped.
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    names().tempfile_in(folder)
}

/// Temporary names.
fn names() -> Builder<'static, 'static> {
    let mut names = Builder::new();
    names.prefix(".agent-").suffix(".part");
    names
}

/// Gives a file to this user and group if it is not theirs: a service may not even ask for it.
fn give(file: &File, owner: (u32, u32)) {
    let present = file.metadata().map(|file| (file.uid(), file.gid()));
    if present.is_ok_and(|present| present != owner) {
        // Not possible on every file system; then it stays the agent's own.
        let _ = fchown(file, Some(owner.0), Some(owner.1));
    }
}

pub(super) fn replace(part: PartFile, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = part.complete(bytes)?;
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
    part: PartFile,
    name: &NumberedName,
    bytes: &[u8],
) -> Result<PathBuf, OutputError> {
    let failed = |path: PathBuf, source| OutputError::Write { path, source };
    let mut temporary = part
        .complete(bytes)
        .map_err(|source| failed(name.path(1), source))?;
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
