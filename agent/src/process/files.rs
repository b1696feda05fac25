//! Opens files of a process, which may be in a container and chosen by an attacker.
//!
//! A file is referred to with `O_PATH` first, which neither blocks nor touches a device, and is opened
//! for reading only when it is a regular file; one on a FUSE file system is left to the
//! [file helper](super::fuse).

use std::{
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{
            ffi::OsStrExt as _,
            fs::{FileExt as _, MetadataExt as _},
        },
    },
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{self, Mode, OFlags},
    io::Errno,
};

use super::{
    error::OpenError,
    fuse::{self, FileStatus, FileSystem, FuseFile, Status},
    machine::on_machine,
    maps::Mapping,
    reference::{READING, REFERENCE},
};

/// Identity of a file and of its contents: it differs after a change of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: [i64; 2],
    changed: [i64; 2],
}

impl FileIdentity {
    /// Whether both are the same device and inode, even if the contents have changed.
    #[must_use]
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether the contents have changed since a time, to a second.
    #[must_use]
    pub fn is_modified_since(&self, time: SystemTime) -> bool {
        let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(self.modified[0]).is_ok_and(|modified| modified + 1 >= time.as_secs())
    }

    /// Whether the contents have changed after those of another file.
    #[must_use]
    pub fn is_modified_after(&self, other: &Self) -> bool {
        self.modified > other.modified
    }

    /// Whether the contents or what the file system keeps of the file have changed after a time: also when it has
    /// replaced another one, whatever its time of modification was set to.
    #[must_use]
    pub fn is_changed_after(&self, time: SystemTime) -> bool {
        let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let [seconds, nanoseconds] = self.changed.map(|part| u64::try_from(part).unwrap_or(0));
        (seconds, nanoseconds) > (time.as_secs(), time.subsec_nanos().into())
    }
}

impl From<&FileStatus> for FileIdentity {
    fn from(status: &FileStatus) -> Self {
        Self {
            device: status.device,
            inode: status.inode,
            bytes: status.bytes,
            modified: status.modified,
            changed: status.changed,
        }
    }
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct RegularFile(Access);

#[derive(Debug)]
enum Access {
    /// By the agent.
    Own(File),
    /// By the file helper.
    Fuse(FuseFile),
}

impl RegularFile {
    /// Its size.
    ///
    /// # Errors
    ///
    /// When its status cannot be read.
    pub fn bytes(&self) -> io::Result<u64> {
        match &self.0 {
            Access::Own(file) => file.metadata().map(|metadata| metadata.len()),
            Access::Fuse(file) => file.bytes(),
        }
    }

    /// Whether its permissions let this user read it: its owner, or everybody. Not known, and so [`false`], of a file that
    /// the file helper has opened.
    #[must_use]
    pub fn is_readable_by(&self, user: u32) -> bool {
        const OWNER: u32 = 0o400;
        const OTHERS: u32 = 0o004;

        let Access::Own(file) = &self.0 else {
            return user == 0;
        };
        file.metadata().is_ok_and(|metadata| {
            let is_owner = metadata.uid() == user && metadata.mode() & OWNER != 0;
            user == 0 || is_owner || metadata.mode() & OTHERS != 0
        })
    }

    /// Its identity.
    ///
    /// # Errors
    ///
    /// When its status cannot be read.
    pub fn identity(&self) -> io::Result<FileIdentity> {
        Ok((&self.status()?).into())
    }

    /// The user that owns it.
    ///
    /// # Errors
    ///
    /// When its status cannot be read.
    pub fn owner(&self) -> io::Result<u64> {
        Ok(self.status()?.owner)
    }

    /// Reads some bytes at `offset`; none at its end.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.0 {
            Access::Own(file) => file.read_at(into, offset),
            Access::Fuse(file) => file.read_at(into, offset),
        }
    }

    /// Fills `into` with the bytes at `offset`.
    ///
    /// # Errors
    ///
    /// When there are fewer, or they cannot be read.
    pub fn read_exact_at(&self, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !into.is_empty() {
            match self.read_at(into, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    into = into.get_mut(bytes..).unwrap_or_default();
                    offset += bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Its contents, up to `limit` bytes.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn contents(&self, limit: u64) -> io::Result<Vec<u8>> {
        let mut contents = Vec::new();
        self.reader(0).take(limit).read_to_end(&mut contents)?;
        Ok(contents)
    }

    /// Reads it from `offset` on.
    #[must_use]
    pub fn reader(&self, offset: u64) -> impl Read {
        Reader { file: self, offset }
    }

    /// A path by which the kernel finds it as long as it is open; [`None`] of a FUSE file.
    #[must_use]
    pub fn kernel_path(&self) -> Option<PathBuf> {
        match &self.0 {
            Access::Own(file) => Some(format!("/proc/self/fd/{}", file.as_raw_fd()).into()),
            Access::Fuse(_) => None,
        }
    }

    fn status(&self) -> io::Result<FileStatus> {
        match &self.0 {
            Access::Own(file) => Ok((&fs::fstat(file)?).into()),
            Access::Fuse(file) => file.status(),
        }
    }
}

impl From<File> for RegularFile {
    fn from(file: File) -> Self {
        Self(Access::Own(file))
    }
}

/// Reads a file from an offset on.
struct Reader<'a> {
    file: &'a RegularFile,
    offset: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read_at(into, self.offset)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}

/// The identity of the file of `mapping`; `process` is the open directory `/proc/PID`.
pub(super) fn identify_mapped(
    process: &OwnedFd,
    mapping: &Mapping,
) -> Result<FileIdentity, OpenError> {
    // One system call instead of three.
    if let Ok(status) = Status::at(process, Path::new(&link_of(mapping))) {
        return Ok((&FileStatus::from(&status)).into());
    }
    let (reference, path) = refer_to_mapped(process, mapping)?;
    let status = Status::of(&reference).map_err(|errno| failed(path, errno))?;
    Ok((&FileStatus::from(&status)).into())
}

/// Opens the file of `mapping` for reading; `process` is the open directory `/proc/PID`.
pub(super) fn open_mapped(process: &OwnedFd, mapping: &Mapping) -> Result<RegularFile, OpenError> {
    let (reference, path) = refer_to_mapped(process, mapping)?;
    read_regular(reference, path, Some(process))
}

/// Opens the file at `path` in the root directory of the process for reading.
pub(super) fn open_in_root(process: &OwnedFd, path: &Path) -> Result<RegularFile, OpenError> {
    let reference = refer_in_root(process, path).map_err(|error| failed(path, error))?;
    read_regular(reference, path, Some(process))
}

/// Opens the file at `path` in the agent's own mount namespace for reading.
///
/// # Errors
///
/// When it cannot be opened or is not a regular file.
pub fn open_on_host(path: &Path) -> Result<RegularFile, OpenError> {
    static ROOT: OnceLock<Option<OwnedFd>> = OnceLock::new();

    let open = || fs::open("/", REFERENCE | OFlags::DIRECTORY, Mode::empty()).ok();
    let root = ROOT.get_or_init(open).as_ref();
    let root = root.ok_or_else(|| failed(path, Errno::BADF))?;
    let found = fuse::find(root, &on_machine(path), None);
    let reference = found.map_err(|error| failed(path, error))?;
    read_regular(reference, path, None)
}

/// A directory with the files of a process that is not there, in which paths are as in the process's own root directory:
/// no symbolic link leads out of it.
#[derive(Debug)]
pub struct RootDirectory(OwnedFd);

impl RootDirectory {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let opened = fs::open(path, REFERENCE | OFlags::DIRECTORY, Mode::empty());
        opened.map(Self).map_err(|errno| failed(path, errno))
    }

    /// Opens the file at an absolute path in it for reading.
    ///
    /// # Errors
    ///
    /// When it cannot be opened or is not a regular file.
    pub fn open_file(&self, path: &Path) -> Result<RegularFile, OpenError> {
        let found = fuse::find(&self.0, path, None);
        read_regular(found.map_err(|error| failed(path, error))?, path, None)
    }
}

/// The link to the file of a mapping, which works even when the file was removed or replaced.
/// Following it requires `CAP_CHECKPOINT_RESTORE`.
pub(super) fn link_of(mapping: &Mapping) -> String {
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
        Err(_) => refer_in_root(process, &file.path).map_err(|error| failed(&file.path, error))?,
    };
    Ok((reference, &file.path))
}

fn failed(path: &Path, source: impl Into<io::Error>) -> OpenError {
    OpenError::Open {
        path: path.to_owned(),
        source: source.into(),
    }
}

/// Opens the file at `path` in the root directory of the process with `O_PATH`.
fn refer_in_root(process: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let root = fs::openat(
        process,
        "root",
        REFERENCE | OFlags::DIRECTORY,
        Mode::empty(),
    )?;
    let refer = |path: &Path| fuse::find(&root, path, Some(process));
    // The paths in `maps` start at the root of the mount namespace, which after a chroot is not
    // the root directory of the process.
    refer(path).or_else(|error| {
        let chroot = fs::readlinkat(process, "root", Vec::new())?;
        let chroot = Path::new(std::ffi::OsStr::from_bytes(chroot.as_bytes()));
        match path.strip_prefix(chroot) {
            Ok(inner) if chroot != Path::new("/") => refer(inner),
            _ => Err(error),
        }
    })
}

/// Opens the file of an `O_PATH` descriptor for reading, if it is a regular file; `process` is the
/// directory `/proc/PID` of a process in whose mount namespace it is.
fn read_regular(
    reference: OwnedFd,
    path: &Path,
    process: Option<&OwnedFd>,
) -> Result<RegularFile, OpenError> {
    let failed = |error: io::Error| failed(path, error);
    let status = Status::of(&reference).map_err(|errno| failed(errno.into()))?;
    if !status.is_regular() {
        return Err(OpenError::NotRegular {
            path: path.to_owned(),
        });
    }
    let file_system = FileSystem::of(&reference, &status, process);
    let access = if file_system.is_fuse {
        Access::Fuse(FuseFile::open(reference, file_system).map_err(failed)?)
    } else {
        let own = PathBuf::from(format!("/proc/self/fd/{}", reference.as_raw_fd()));
        let file = fs::open(own, READING, Mode::empty());
        Access::Own(file.map_err(|errno| failed(errno.into()))?.into())
    };
    Ok(RegularFile(access))
}

#[cfg(test)]
mod tests {
    use super::{open_on_host, read_regular, refer_in_root};
    use crate::process::OpenError;
    use rustix::{
        fs::{self, Mode, OFlags},
        io::Errno,
    };
    use std::{
        fs::Permissions,
        os::{
            fd::OwnedFd,
            unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
        },
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
    fn permissions_are_those_of_the_owner_and_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.py");
        std::fs::write(&path, "x = 1").unwrap();
        let owner = std::fs::metadata(&path).unwrap().uid();
        let somebody = owner + 1000;
        for (mode, by_owner, by_others) in [
            (0o600, true, false),
            (0o640, true, false),
            (0o604, true, true),
            (0o200, owner == 0, false),
        ] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let file = open_on_host(&path).unwrap();
            let readable = [owner, somebody].map(|user| file.is_readable_by(user));
            assert_eq!(readable, [by_owner, by_others], "{mode:o}");
            assert!(file.is_readable_by(0));
        }
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
            let errno = Errno::from_io_error(&result.unwrap_err());
            assert_eq!(errno, Some(Errno::NOENT), "{name}");
        }

        // The same link is followed where its target exists inside the root.
        std::fs::create_dir_all(root.path().join("etc")).unwrap();
        std::fs::write(root.path().join("etc/passwd"), "inside").unwrap();
        let path = Path::new("/relative");
        let reference = refer_in_root(&process, path).unwrap();
        let mut text = [0; 6];
        let file = read_regular(reference, path, Some(&process)).unwrap();
        file.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"inside");
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
            let result = read_regular(reference, path, None);
            assert!(matches!(result, Err(OpenError::NotRegular { .. })));
        }
    }
}
