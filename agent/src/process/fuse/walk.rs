//! Looks paths up without a request to a FUSE file system.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Component, Path},
    sync::Arc,
};

use rustix::{
    fs::{self, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use super::{
    client,
    mounts::{FileSystem, Status},
};
use crate::process::reference::REFERENCE;

/// Most symbolic links that are followed, as in the kernel.
const MAX_LINKS: usize = 40;

/// Most directories on a path.
const MAX_DEPTH: usize = 256;

/// Refers to the file at `path` in the root directory `root`; `process` is the directory `/proc/PID`
/// of a process in whose mount namespace it is.
pub(in crate::process) fn find(
    root: &OwnedFd,
    path: &Path,
    process: Option<&OwnedFd>,
) -> io::Result<OwnedFd> {
    let status = Status::of(root)?;
    let file_system = FileSystem::of(root, &status, process);
    if file_system.is_fuse {
        return client::find(root, path, &file_system);
    }
    // One system call where the file is on the file system of the root directory.
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    match fs::openat2(root, path, REFERENCE, Mode::empty(), resolve) {
        Err(Errno::XDEV) => {}
        found => return Ok(found?),
    }
    match step_by_step(root, path, process)? {
        Found::Reference(reference) => Ok(reference),
        Found::Fuse(file_system) => client::find(root, path, &file_system),
    }
}

enum Found {
    Reference(OwnedFd),
    /// The path leads on inside of this file system.
    Fuse(Arc<FileSystem>),
}

/// Looks up one name after the other, each in a directory that is not on FUSE.
fn step_by_step(root: &OwnedFd, path: &Path, process: Option<&OwnedFd>) -> Result<Found, Errno> {
    // The directories that lead to the present one, from below the root directory on.
    let mut directories: Vec<OwnedFd> = Vec::new();
    let mut left = names(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            directories.pop();
            continue;
        }
        let flags = REFERENCE | OFlags::NOFOLLOW;
        let present = directories.last().unwrap_or(root);
        let mut next = fs::openat(present, &*name, flags, Mode::empty())?;
        let mut status = Status::of(&next)?;
        if process.is_none() && status.is_link() && is_procfs(&next) {
            // The root directory of another process: no path leads there. In containers, where nobody
            // has to be trusted, such links are not followed.
            next = fs::openat(present, &*name, REFERENCE, Mode::empty())?;
            status = Status::of(&next)?;
            directories.clear();
        }
        let file_system = FileSystem::of(&next, &status, process);
        if file_system.is_fuse && !(left.is_empty() && status.is_regular()) {
            return Ok(Found::Fuse(file_system));
        }
        if status.is_link() {
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            let target = fs::readlinkat(&next, "", Vec::new())?;
            let target = Path::new(OsStr::from_bytes(target.as_bytes()));
            if target.is_absolute() {
                directories.clear();
            }
            left.extend(names(target));
            continue;
        }
        if directories.len() >= MAX_DEPTH {
            return Err(Errno::NAMETOOLONG);
        }
        directories.push(next);
    }
    match directories.pop() {
        Some(last) => Ok(Found::Reference(last)),
        None => Err(Errno::ISDIR),
    }
}

fn is_procfs(file: &OwnedFd) -> bool {
    fs::fstatfs(file).is_ok_and(|status| status.f_type == fs::PROC_SUPER_MAGIC)
}

/// The names on a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    });
    names.map(OsStr::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{Found, find, step_by_step};
    use crate::process::reference::{REFERENCE, find_in_root};
    use rustix::{
        fs::{self, Mode, OFlags},
        io::Errno,
    };
    use std::{fs::create_dir_all, os::fd::OwnedFd, os::unix::fs::symlink, path::Path};

    fn inode(file: &OwnedFd) -> u64 {
        fs::fstat(file).unwrap().st_ino
    }

    #[test]
    fn roots_of_processes_are_followed_on_the_host() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let root = fs::open("/", REFERENCE | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let path = Path::new("/proc/self/root").join(file.path().strip_prefix("/").unwrap());
        let found = find(&root, &path, None).unwrap();
        assert_eq!(inode(&found), fs::fstat(&file).unwrap().st_ino);
    }

    #[test]
    fn paths_lead_where_the_kernel_says() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        create_dir_all(at("a/b")).unwrap();
        for file in ["file", "a/file", "a/b/file"] {
            std::fs::write(at(file), "").unwrap();
        }
        symlink("b", at("a/relative")).unwrap();
        symlink("/a/b/file", at("a/absolute")).unwrap();
        symlink("../../../../a/relative/../file", at("a/out")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(folder.path(), flags, Mode::empty()).unwrap();
        for path in [
            "/file",
            "a/b/../b/./file",
            "/a/relative/file",
            "/a/absolute",
            "/a/out",
            "/../../file",
            "/loop",
            "/none",
            "/file/none",
            "/a/none/file",
        ] {
            let found = match step_by_step(&root, Path::new(path), None) {
                Ok(Found::Reference(file)) => Ok(inode(&file)),
                Ok(Found::Fuse(_)) => panic!("{path}"),
                Err(errno) => Err(errno),
            };
            let expected = find_in_root(&root, Path::new(path)).map(|file| inode(&file));
            assert_eq!(found, expected, "{path}");
        }
        let again = step_by_step(&root, Path::new("/loop"), None);
        assert!(matches!(again, Err(Errno::LOOP)));
    }
}
