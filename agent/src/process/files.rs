//! Opening the files of a process, which may lie in a container and be chosen by an enemy.
//!
//! A file is first only referred to (`O_PATH`), which neither blocks nor touches a device; it is
//! opened for reading when it has turned out to be a regular file.

use std::{
    fs::File,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use super::{OpenError, maps::Mapping};

/// Refers to a file without opening it.
const REFERENCE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens a regular file; the flags besides the first are belts and braces.
const READING: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens the file of `mapping` for reading; `process` is the open directory `/proc/PID`.
pub(super) fn open_mapped(process: &OwnedFd, mapping: &Mapping) -> Result<File, OpenError> {
    let file = mapping.file.as_ref().ok_or(OpenError::Anonymous)?;
    // The very file, even when it was removed or another one has its name now; takes rights
    // that reading the process does not (`CAP_CHECKPOINT_RESTORE`).
    let link = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
    let reference = match fs::openat(process, link, REFERENCE, Mode::empty()) {
        Ok(reference) => reference,
        Err(_) if file.is_deleted => {
            return Err(OpenError::Deleted {
                path: file.path.clone(),
            });
        }
        Err(_) => refer_in_root(process, &file.path).map_err(|errno| OpenError::Open {
            path: file.path.clone(),
            source: errno.into(),
        })?,
    };
    read_regular(&reference, &file.path)
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
    let failed = |errno: Errno| OpenError::Open {
        path: path.to_owned(),
        source: errno.into(),
    };
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
