//! Which file system a file is on, by its mount, without a request to the file system.
//!
//! A mount can be in no table: that of the root directory before a `chroot`, in `/proc/PID/mountinfo` of
//! the process; one that is detached; and the kernel's own one for `memfd_create`. Its file system is
//! then found by its device, which it has as long as a file of it is open.
//!
//! Invariant: the cache is bounded.

use std::{
    collections::HashMap,
    fs::File,
    io::Read as _,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::{
    fs::{self, AtFlags, FileType, MemfdFlags, Mode, OFlags, Statx, StatxFlags},
    io::Errno,
};

use super::{
    mountinfo::{Mount, parse},
    protocol::FileStatus,
};

/// Most bytes of a table of mounts that are read.
const MAX_TABLE: u64 = 16 << 20;

/// Most mounts in the cache.
const MAX_MOUNTS: usize = 4096;

/// `STATX_MNT_ID_UNIQUE`, from Linux 6.8 on.
const UNIQUE_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// How long an entry holds where the ids of mounts are reused, and of a mount that was not found.
const SHORT: Duration = Duration::from_secs(1);

/// The file system that a file is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::process) struct FileSystem {
    /// Number of its device.
    pub(super) device: u64,
    /// Whether a program serves it, or it is not known which file system it is.
    pub(in crate::process) is_fuse: bool,
    /// Where it is mounted; empty where that is not known.
    pub(super) point: PathBuf,
}

/// The status of a file as the kernel has it, without a request to its file system.
pub(in crate::process) struct Status(Statx);

impl Status {
    /// Of an open file.
    pub(in crate::process) fn of(file: &impl AsFd) -> Result<Self, Errno> {
        Self::at(file, Path::new(""))
    }

    /// Of the file at a path, the last part of which may be a link.
    pub(in crate::process) fn at(directory: &impl AsFd, path: &Path) -> Result<Self, Errno> {
        statx(
            directory,
            path,
            StatxFlags::BASIC_STATS | StatxFlags::MNT_ID | UNIQUE_ID,
        )
        .map(Self)
    }

    pub(in crate::process) fn is_regular(&self) -> bool {
        self.is(FileType::RegularFile)
    }

    pub(super) fn is_link(&self) -> bool {
        self.is(FileType::Symlink)
    }

    pub(in crate::process) fn device(&self) -> u64 {
        fs::makedev(self.0.stx_dev_major, self.0.stx_dev_minor)
    }

    fn is(&self, kind: FileType) -> bool {
        FileType::from_raw_mode(self.0.stx_mode.into()) == kind
    }

    fn has_unique_id(&self) -> bool {
        self.0.stx_mask & UNIQUE_ID.bits() != 0
    }
}

impl From<&Status> for FileStatus {
    fn from(Status(status): &Status) -> Self {
        Self {
            device: fs::makedev(status.stx_dev_major, status.stx_dev_minor),
            inode: status.stx_ino,
            bytes: status.stx_size,
            modified: [status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec.into()],
            changed: [status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec.into()],
            owner: status.stx_uid.into(),
        }
    }
}

fn statx(directory: &impl AsFd, path: &Path, mask: StatxFlags) -> Result<Statx, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    fs::statx(directory, path, flags, mask)
}

/// A mount, and the device of its file system.
type Key = (u64, u64);

struct Entry {
    file_system: Arc<FileSystem>,
    /// When it is no longer valid, if ever.
    ends: Option<Instant>,
}

/// The device of the kernel's own file system for memory.
static MEMORY: LazyLock<Option<u64>> = LazyLock::new(|| {
    let file = fs::memfd_create("", MemfdFlags::CLOEXEC).ok()?;
    Some(fs::fstat(&file).ok()?.st_dev)
});

static KNOWN: LazyLock<Mutex<HashMap<Key, Entry>>> = LazyLock::new(Mutex::default);

impl FileSystem {
    /// That of an open file with this status; `process` is the directory `/proc/PID` of a process in
    /// whose mount namespace it is.
    pub(in crate::process) fn of(
        file: &impl AsFd,
        status: &Status,
        process: Option<&OwnedFd>,
    ) -> Arc<Self> {
        Self::at(file, Path::new(""), status, process)
    }

    /// That of the file at a path in a directory.
    pub(in crate::process) fn at(
        directory: &impl AsFd,
        path: &Path,
        status: &Status,
        process: Option<&OwnedFd>,
    ) -> Arc<Self> {
        let key = (status.0.stx_mnt_id, status.device());
        let has_unique_id = status.has_unique_id();
        if let Some(entry) = known().get(&key)
            && entry.ends.is_none_or(|ends| Instant::now() < ends)
        {
            return Arc::clone(&entry.file_system);
        }
        let id = if has_unique_id {
            // The id in tables of mounts is another one.
            let status = statx(directory, path, StatxFlags::MNT_ID);
            status.map(|status| status.stx_mnt_id)
        } else {
            Ok(status.0.stx_mnt_id)
        };
        let device = status.device();
        let place = match id {
            Ok(id) => find(id, device, process),
            Err(_) => Place::Unknown,
        };
        let (is_fuse, point, is_certain) = match place {
            Place::Mount(mount) => (is_served_by_a_program(&mount), mount.point, true),
            Place::Memory => (false, PathBuf::new(), true),
            Place::Unknown => (true, PathBuf::new(), false),
        };
        let file_system = Arc::new(Self {
            device,
            is_fuse,
            point,
        });
        let entry = Entry {
            file_system: Arc::clone(&file_system),
            ends: (!has_unique_id || !is_certain).then(|| Instant::now() + SHORT),
        };
        let mut known = known();
        if known.len() >= MAX_MOUNTS {
            known.clear();
        }
        known.insert(key, entry);
        drop(known);
        file_system
    }
}

fn known() -> std::sync::MutexGuard<'static, HashMap<Key, Entry>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a file is.
enum Place {
    /// In this mount, or in another one of the same file system.
    Mount(Mount),
    /// In the kernel's own file system for memory.
    Memory,
    Unknown,
}

/// The place of a file in the mount with this id, of the file system with this device: in the mount
/// namespace of the process, else in the agent's.
fn find(id: u64, device: u64, process: Option<&OwnedFd>) -> Place {
    let of_process = process.and_then(|process| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        fs::openat(process, "mountinfo", flags, Mode::empty()).ok()
    });
    let own = || File::open("/proc/self/mountinfo").ok();
    let mut mounts: Vec<Mount> = Vec::new();
    for file in [of_process.map(File::from), own()].into_iter().flatten() {
        for mount in parse(&read(file)) {
            if mount.id == id {
                return Place::Mount(mount);
            }
            mounts.push(mount);
        }
    }
    if let Some(mount) = mounts.into_iter().find(|mount| mount.device == device) {
        return Place::Mount(mount);
    }
    match *MEMORY {
        Some(memory) if memory == device => Place::Memory,
        _ => Place::Unknown,
    }
}

fn read(file: File) -> Vec<u8> {
    let mut text = Vec::new();
    // What cannot be read is not known.
    let _ = file.take(MAX_TABLE).read_to_end(&mut text);
    text
}

/// Whether a program serves the file system, or one that it is made of.
fn is_served_by_a_program(mount: &Mount) -> bool {
    if mount.is_fuse() {
        return true;
    }
    let layers = mount.layers();
    if layers.is_empty() {
        return false;
    }
    // Runtimes of containers mount layers in the host's mount namespace.
    let host = File::open("/proc/1/mountinfo").or_else(|_| File::open("/proc/self/mountinfo"));
    let fuse: Vec<_> = host
        .map(read)
        .map(|text| parse(&text).filter(Mount::is_fuse).collect())
        .unwrap_or_default();
    let is_below = |layer: &PathBuf| fuse.iter().any(|mount| layer.starts_with(&mount.point));
    layers.iter().any(is_below)
}

#[cfg(test)]
mod tests {
    use super::{FileSystem, Place, Status, find};
    use rustix::fs::{self, MemfdFlags};
    use std::fs::File;

    #[test]
    fn a_mount_in_no_table_is_found_by_its_device() {
        let file = File::open("/proc/self/stat").unwrap();
        let device = Status::of(&file).unwrap().device();
        let place = find(u64::MAX, device, None);
        assert!(matches!(place, Place::Mount(mount) if mount.kind == b"proc"));
        let nowhere = find(u64::MAX, u64::MAX, None);
        assert!(matches!(nowhere, Place::Unknown));
    }

    #[test]
    fn memory_is_known() {
        let file = fs::memfd_create("a", MemfdFlags::CLOEXEC).unwrap();
        let found = FileSystem::of(&file, &Status::of(&file).unwrap(), None);
        assert!(!found.is_fuse);
    }

    #[test]
    fn the_mount_of_a_file_is_found_without_a_process() {
        for (path, point) in [("/proc/self/stat", "/proc"), ("/dev/null", "/dev")] {
            let file = File::open(path).unwrap();
            let status = Status::of(&file).unwrap();
            for _ in 0..2 {
                let found = FileSystem::of(&file, &status, None);
                assert!(!found.is_fuse, "{path}");
                assert_eq!(found.point.to_str(), Some(point));
            }
        }
    }
}
