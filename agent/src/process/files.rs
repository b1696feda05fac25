//! Opening the files of a process, which may lie in a container and be chosen by an enemy.
//!
//! A file is first only referred to (`O_PATH`), which neither blocks nor touches a device; it is
//! opened for reading when it has turned out to be a regular file.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};

use super::{OpenError, machine::on_machine, maps::Mapping};

/// Refers to a file without opening it.
const REFERENCE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens a regular file; the flags besides the first are belts and braces.
const READING: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// What tells a file from all others, and from itself when it has been changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    bytes: i64,
    /// Seconds and nanoseconds of its last change.
    modified: (i64, u64),
    /// The same of any change to it, which programs cannot set back.
    changed: (i64, u64),
}

impl FileIdentity {
    /// That of an open file.
    ///
    /// # Errors
    ///
    /// When the system does not say.
    pub fn of(file: &impl AsFd) -> io::Result<Self> {
        Ok(Self::from_status(&fs::fstat(file)?))
    }

    /// Whether it is of the same file, whatever has been done to that.
    #[must_use]
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    fn from_status(status: &Stat) -> Self {
        Self {
            device: status.st_dev,
            inode: status.st_ino,
            bytes: status.st_size,
            modified: (status.st_mtime, status.st_mtime_nsec),
            changed: (status.st_ctime, status.st_ctime_nsec),
        }
    }
}

/// What tells the file of `mapping` from all others; `process` is the open directory
/// `/proc/PID`.
pub(super) fn identify_mapped(
    process: &OwnedFd,
    mapping: &Mapping,
) -> Result<FileIdentity, OpenError> {
    // One call instead of the three below.
    if let Ok(status) = fs::statat(process, link_of(mapping), AtFlags::empty()) {
        return Ok(FileIdentity::from_status(&status));
    }
    let (reference, path) = refer_to_mapped(process, mapping)?;
    FileIdentity::of(&reference).map_err(|source| OpenError::Open {
        path: path.to_owned(),
        source,
    })
}

/// Opens the file of `mapping` for reading; `process` is the open directory `/proc/PID`.
pub(super) fn open_mapped(process: &OwnedFd, mapping: &Mapping) -> Result<File, OpenError> {
    let (reference, path) = refer_to_mapped(process, mapping)?;
    read_regular(&reference, path)
}

/// Opens the file that the process finds at `path` for reading.
pub(super) fn open_in_root(process: &OwnedFd, path: &Path) -> Result<File, OpenError> {
    let reference = refer_in_root(process, path).map_err(|errno| failed(path, errno))?;
    read_regular(&reference, path)
}

/// Opens the file that the agent itself finds at `path` for reading.
///
/// # Errors
///
/// When it cannot be opened or is not a regular file.
pub fn open_on_host(path: &Path) -> Result<File, OpenError> {
    let reference = fs::open(on_machine(path), REFERENCE, Mode::empty())
        .map_err(|errno| failed(path, errno))?;
    read_regular(&reference, path)
}

/// The very file of a mapping, even when it was removed or another one has its name now; takes
/// rights that reading the process does not (`CAP_CHECKPOINT_RESTORE`).
fn link_of(mapping: &Mapping) -> String {
    format!("map_files/{:x}-{:x}", mapping.start, mapping.end)
}

/// Refers to the file of a mapping, and gives its path.
fn refer_to_mapped<'a>(
    process: &OwnedFd,
    mapping: &'a Mapping,
) -> Result<(OwnedFd, &'a Path), OpenError> {
    let file = mapping.file.as_ref().ok_or(OpenError::Anonymous)?;
    let reference = match fs::openat(process, link_of(mapping), REFERENCE, Mode::empty()) {
        Ok(reference) => reference,
        Err(_) if file.is_deleted => {
            return Err(OpenError::Deleted {
                path: file.path.clone(),
            });
        }
        Err(_) => refer_in_root(process, &file.path).map_err(|errno| failed(&file.path, errno))?,
    };
    Ok((reference, &file.path))
}

fn failed(path: &Path, errno: Errno) -> OpenError {
    OpenError::Open {
        path: path.to_owned(),
        source: errno.into(),
    }
}

/// Refers to the file that the process finds at `path`.
fn refer_in_root(process: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let root = fs::openat(
        process,
        "root",
        REFERENCE | OFlags::DIRECTORY,
        Mode::empty(),
    )?;
    let refer = |path: &Path| {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        fs::openat2(&root, path, REFERENCE, Mode::empty(), resolve)
    };
    // The paths in `maps` start at the root of a mount namespace, which is not the process's
    // own root after a mere chroot.
    refer(path).or_else(|errno| {
        let chroot = fs::readlinkat(process, "root", Vec::new())?;
        let chroot = Path::new(std::ffi::OsStr::from_bytes(chroot.as_bytes()));
        match path.strip_prefix(chroot) {
            Ok(inner) if chroot != Path::new("/") => refer(inner),
            _ => Err(errno),
        }
    })
}

/// Opens what `reference` refers to for reading, if it is a regular file.
fn read_regular(reference: &OwnedFd, path: &Path) -> Result<File, OpenError> {
    let failed = |errno| failed(path, errno);
    let status = fs::fstat(reference).map_err(failed)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(OpenError::NotRegular {
            path: path.to_owned(),
        });
    }
    let own = PathBuf::from(format!("/proc/self/fd/{}", reference.as_raw_fd()));
    fs::open(own, READING, Mode::empty())
        .map(File::from)
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::{read_regular, refer_in_root};
    use crate::process::OpenError;
    use rustix::{
        fs::{self, Mode, OFlags},
        io::Errno,
    };
    use std::{
        io::Read as _,
        os::{fd::OwnedFd, unix::fs::symlink},
        path::Path,
    };

    /// A directory that looks like `/proc/PID` of a process with this root.
    fn process_with_root(root: &Path) -> (tempfile::TempDir, OwnedFd) {
        let directory = tempfile::tempdir().unwrap();
        symlink(root, directory.path().join("root")).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let process = fs::open(directory.path(), flags, Mode::empty()).unwrap();
        (directory, process)
    }

    #[test]
    fn a_link_does_not_lead_out_of_the_root() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "outside").unwrap();
        let root = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        symlink(&secret, root.path().join("absolute")).unwrap();
        symlink("../../../../etc/passwd", root.path().join("relative")).unwrap();
        symlink("/proc/self/fd/0", root.path().join("magic")).unwrap();
        let (_directory, process) = process_with_root(root.path());
        for name in ["/absolute", "/relative", "/magic", "/../../etc/passwd"] {
            let result = refer_in_root(&process, Path::new(name));
            assert_eq!(result.unwrap_err(), Errno::NOENT, "{name}");
        }

        // The same link is fine where its target exists inside.
        std::fs::create_dir_all(root.path().join("etc")).unwrap();
        std::fs::write(root.path().join("etc/passwd"), "inside").unwrap();
        let path = Path::new("/relative");
        let reference = refer_in_root(&process, path).unwrap();
        let mut text = String::new();
        read_regular(&reference, path)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "inside");
    }

    #[test]
    fn a_path_from_before_a_chroot_is_found() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("file"), "").unwrap();
        let (_directory, process) = process_with_root(root.path());
        refer_in_root(&process, &root.path().join("file")).unwrap();
    }

    #[test]
    fn a_pipe_or_a_device_is_refused_at_once() {
        let root = tempfile::tempdir().unwrap();
        let pipe = root.path().join("pipe");
        fs::mknodat(fs::CWD, &pipe, fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/null"), root.path()] {
            let reference = fs::open(path, super::REFERENCE, Mode::empty()).unwrap();
            let result = read_regular(&reference, path);
            assert!(matches!(result, Err(OpenError::NotRegular { .. })));
        }
    }
}
