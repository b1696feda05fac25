//! Opens files of a process, which may be in a container and chosen by an attacker.
//!
//! A file is opened with `O_PATH` first, which neither blocks nor touches a device, and is opened
//! for reading only when it is a regular file.

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

use super::{error::OpenError, machine::on_machine, maps::Mapping};

/// Flags that refer to a file without opening it.
const REFERENCE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Flags for regular files; the last two have an effect only if it is not one after all.
const READING: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Identity of a file and of its contents: it differs after a change of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    bytes: i64,
    /// Time of the last modification, in seconds and nanoseconds.
    modified: (i64, u64),
    /// Time of the last change of its inode, which programs cannot set.
    changed: (i64, u64),
}

impl FileIdentity {
    /// The identity of an open file.
    ///
    /// # Errors
    ///
    /// When `fstat` fails.
    pub fn of(file: &impl AsFd) -> io::Result<Self> {
        Ok(Self::from_status(&fs::fstat(file)?))
    }

    /// Whether both are the same device and inode, even if the contents have changed.
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

/// The identity of the file of `mapping`; `process` is the open directory `/proc/PID`.
pub(super) fn identify_mapped(
    process: &OwnedFd,
    mapping: &Mapping,
) -> Result<FileIdentity, OpenError> {
    // One system call instead of three.
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

/// Opens the file at `path` in the root directory of the process for reading.
pub(super) fn open_in_root(process: &OwnedFd, path: &Path) -> Result<File, OpenError> {
    let reference = refer_in_root(process, path).map_err(|errno| failed(path, errno))?;
    read_regular(&reference, path)
}

/// Opens the file at `path` in the agent's own mount namespace for reading.
///
/// # Errors
///
/// When it cannot be opened or is not a regular file.
pub fn open_on_host(path: &Path) -> Result<File, OpenError> {
    let reference = fs::open(on_machine(path), REFERENCE, Mode::empty())
        .map_err(|errno| failed(path, errno))?;
    read_regular(&reference, path)
}

/// The link to the file of a mapping, which works even when the file was removed or replaced.
/// Following it requires `CAP_CHECKPOINT_RESTORE`.
fn link_of(mapping: &Mapping) -> String {
    format!("map_files/{:x}-{:x}", mapping.start, mapping.end)
}

/// Opens the file of a mapping with `O_PATH`; also gives its path.
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

/// Opens the file at `path` in the root directory of the process with `O_PATH`.
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
    // The paths in `maps` start at the root of the mount namespace, which after a chroot is not
    // the root directory of the process.
    refer(path).or_else(|errno| {
        let chroot = fs::readlinkat(process, "root", Vec::new())?;
        let chroot = Path::new(std::ffi::OsStr::from_bytes(chroot.as_bytes()));
        match path.strip_prefix(chroot) {
            Ok(inner) if chroot != Path::new("/") => refer(inner),
            _ => Err(errno),
        }
    })
}

/// Opens the file of an `O_PATH` descriptor for reading, if it is a regular file.
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

    /// A directory like `/proc/PID` of a process with this root directory.
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

        // The same link is followed where its target exists inside the root.
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
    fn only_regular_files_are_opened() {
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
