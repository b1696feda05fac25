//! Destination folder: one file for each batch, such as `20261121T152019.123Z_web.pb.gz`.
//!
//! Invariants: a file gets its name when it is complete; all profiles together never take more than
//! `max_bytes`, unless other programs write into the folder; profiles older than `max_age` are
//! removed when a newer one is written; files with other names are left alone, and no symbolic link
//! is followed.
//!
//! The age is the difference between the times in the names.

use std::{
    fs, io, iter,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::spawn_blocking;

use super::{
    batch::{Payload, ProfileBatch, Unencodable},
    destination::{Destination, Receipt},
    failure::DeliveryError,
    spool::PayloadFormat,
};
use crate::formats::FunctionNames;
use crate::store::{
    folder::{Folder, FolderEntry, bytes_on_disk, is_full, is_transient},
    name::{self, SUFFIX},
    rotation::Rotation,
};

/// Most profiles of one service in one millisecond.
const MAX_EQUAL: u32 = 9_999;

/// Configuration of a destination folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileConfig {
    /// The folder; created if missing.
    pub folder: PathBuf,
    /// Most disk space of all profiles, in bytes.
    pub max_bytes: u64,
    /// Greatest age of a profile.
    pub max_age: Duration,
    /// How Python functions are named.
    pub function_names: FunctionNames,
}

pub(super) struct FileDestination {
    config: FileConfig,
    rotation: Arc<Mutex<Rotation>>,
    /// Profiles that were removed because the disk was full, and not taken yet.
    removed: Arc<AtomicU64>,
}

impl FileDestination {
    /// Creates the folder. A disk that is full is no error: there may be room later.
    pub(super) fn new(config: FileConfig) -> io::Result<Self> {
        match Folder::open(&config.folder) {
            Err(error) if !is_full(&error) && !is_transient(&error) => return Err(error),
            _ => {}
        }
        Ok(Self {
            config,
            rotation: Arc::default(),
            removed: Arc::default(),
        })
    }
}

impl FileConfig {
    /// Whether the folder is there or could be made, whoever may do that: it is not made.
    pub(super) fn check(&self) -> io::Result<()> {
        let mut folder: &Path = &self.folder;
        loop {
            match fs::metadata(folder) {
                Ok(metadata) if metadata.is_dir() => return Ok(()),
                Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(_) => {}
            }
            folder = match folder.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
        }
    }
}

impl Destination for FileDestination {
    const FORMAT: PayloadFormat = *b"file";

    fn pack(&self, batch: &ProfileBatch) -> Result<Payload, Unencodable> {
        Ok(Payload {
            name: batch.name(),
            body: bytes::Bytes::from_owner(batch.pprof(self.config.function_names)?),
        })
    }

    async fn send(&self, payload: &Payload) -> Result<Receipt, DeliveryError> {
        let (config, payload) = (self.config.clone(), payload.clone());
        let rotation = Arc::clone(&self.rotation);
        let removed = Arc::clone(&self.removed);
        let written = spawn_blocking(move || {
            // After a panic the state may be wrong until the folder is listed again.
            let mut rotation = rotation.lock().unwrap_or_else(PoisonError::into_inner);
            let mut count = 0;
            let written = write(&config, &mut rotation, &payload, &mut count);
            removed.fetch_add(count, Ordering::Relaxed);
            written
        });
        match written.await {
            Ok(written) => written.map(|()| Receipt::Complete),
            Err(source) => Err(DeliveryError::Disk {
                name: self.config.folder.display().to_string(),
                source: io::Error::other(source),
            }),
        }
    }

    fn take_removed(&self) -> u64 {
        self.removed.swap(0, Ordering::Relaxed)
    }
}

/// Writes a profile; `removed` counts those that were removed because the disk was full.
fn write(
    config: &FileConfig,
    rotation: &mut Rotation,
    payload: &Payload,
    removed: &mut u64,
) -> Result<(), DeliveryError> {
    let stem = &*payload.name;
    let earliest = name::moment(stem).and_then(|moment| moment.checked_sub(config.max_age));
    let earliest = &*earliest.map_or_else(String::new, name::time);
    let size_bytes = bytes_on_disk(payload.body.len() as u64);
    if size_bytes > config.max_bytes {
        return Err(DeliveryError::TooLarge {
            name: stem.to_owned(),
            size_bytes,
            max_bytes: config.max_bytes,
        });
    }
    let failed = |source| DeliveryError::Disk {
        name: config.folder.join(stem).display().to_string(),
        source,
    };
    let folder = Folder::open(&config.folder).map_err(failed)?;
    let room = config.max_bytes - size_bytes;
    rotation
        .make_room(&folder, room, earliest, &mut 0)
        .map_err(failed)?;
    let written = match write_new(&folder, stem, &payload.body) {
        Err(error) if is_full(&error) => {
            // Other programs filled the disk: remove as much of the oldest as the new one needs.
            let remaining = rotation.bytes().saturating_sub(size_bytes);
            rotation
                .make_room(&folder, remaining, earliest, removed)
                .and_then(|()| write_new(&folder, stem, &payload.body))
        }
        other => other,
    };
    rotation.add(FolderEntry {
        name: written.map_err(failed)?,
        bytes: size_bytes,
    });
    Ok(())
}

/// Writes a new file and returns its name.
fn write_new(folder: &Folder, stem: &str, body: &[u8]) -> io::Result<String> {
    let partial = name::partial(stem);
    // Left by an agent that was killed.
    folder.remove(&partial)?;
    folder.write(&partial, &[body], 0o640)?;
    let named = rename_to_free(folder, &partial, stem);
    if named.is_err() {
        let _ = folder.remove(&partial);
    }
    named
}

/// Renames a complete file to the first free of its names.
fn rename_to_free(folder: &Folder, partial: &str, stem: &str) -> io::Result<String> {
    let first = format!("{stem}{SUFFIX}");
    let others = (2..=MAX_EQUAL).map(|number| format!("{stem}_{number}{SUFFIX}"));
    for name in iter::once(first).chain(others) {
        if folder.rename(partial, &name)? {
            return Ok(name);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path, time::SystemTime};

    use super::*;
    use crate::export::support::{SmallDisk, batch};

    fn files(folder: &Path, max_bytes: u64) -> FileDestination {
        FileDestination::new(FileConfig {
            folder: folder.to_owned(),
            max_bytes,
            max_age: Duration::from_secs(3_600),
            function_names: FunctionNames::Plain,
        })
        .unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    async fn put(
        files: &FileDestination,
        service: &str,
        at: u64,
    ) -> Result<Receipt, DeliveryError> {
        let mut batch = batch(service, &[7; 3_000]);
        let mut profile = (*batch.profile).clone();
        profile.start = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
        batch.profile = profile.into();
        files.send(&files.pack(&batch).unwrap()).await
    }

    #[tokio::test]
    async fn a_profile_becomes_a_file() {
        let temporary = tempfile::tempdir().unwrap();
        let files = files(&temporary.path().join("profiles"), 1 << 20);
        put(&files, "../x y", 5).await.unwrap();
        put(&files, "../x y", 5).await.unwrap();
        put(&files, "../x/y", 5).await.unwrap();
        let folder = temporary.path().join("profiles");
        assert_eq!(
            names(&folder),
            [
                "19700101T000005.000Z_.._x_y.pb.gz",
                "19700101T000005.000Z_.._x_y_2.pb.gz",
                "19700101T000005.000Z_.._x_y_3.pb.gz",
            ]
        );
        for name in names(&folder) {
            assert_eq!(fs::read(folder.join(name)).unwrap(), [7; 3_000]);
        }
    }

    #[tokio::test]
    async fn the_oldest_go_for_the_limit_and_for_their_age() {
        let temporary = tempfile::tempdir().unwrap();
        let files = files(temporary.path(), 3 * 4_096);
        for at in [40, 10, 20, 30] {
            put(&files, "a", at).await.unwrap();
        }
        assert_eq!(
            names(temporary.path()),
            [20, 30, 40].map(|at| format!("19700101T0000{at}.000Z_a.pb.gz"))
        );
        put(&files, "a", 3_600 + 35).await.unwrap();
        assert_eq!(
            names(temporary.path()),
            [
                "19700101T000040.000Z_a.pb.gz",
                "19700101T010035.000Z_a.pb.gz"
            ]
        );
    }

    #[tokio::test]
    async fn what_is_of_others_is_left_alone() {
        let temporary = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let link = temporary.path().join("19700101T000001.000Z_a.pb.gz");
        symlink(outside.path().join("secret"), &link).unwrap();
        let partial = temporary
            .path()
            .join(".19700101T000005.000Z_a.pb.gz.partial");
        symlink(outside.path().join("new"), partial).unwrap();
        fs::write(temporary.path().join("notes.pb.gz"), vec![0; 90_000]).unwrap();
        // Left by an agent that was killed.
        let left = ".19700101T000002.000Z_b.pb.gz.partial";
        fs::write(temporary.path().join(left), [0; 9_000]).unwrap();

        let files = files(temporary.path(), 4_096);
        put(&files, "a", 1).await.unwrap();
        assert!(!names(temporary.path()).contains(&left.to_owned()));
        put(&files, "a", 5).await.unwrap();
        assert!(link.is_symlink());
        assert_eq!(
            names(temporary.path()),
            [
                "19700101T000001.000Z_a.pb.gz",
                "19700101T000005.000Z_a.pb.gz",
                "notes.pb.gz"
            ]
        );
        assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
        assert!(!outside.path().join("new").exists());
    }

    #[tokio::test]
    async fn more_than_the_limit_is_not_written() {
        let temporary = tempfile::tempdir().unwrap();
        let failure = put(&files(temporary.path(), 4_095), "a", 5)
            .await
            .unwrap_err();
        assert!(
            matches!(failure, DeliveryError::TooLarge { .. }),
            "{failure}"
        );
    }

    #[tokio::test]
    async fn on_a_full_disk_the_newest_is_kept() {
        let disk = SmallDisk::mount(64 << 10);
        let files = files(disk.path(), 1 << 30);
        put(&files, "a", 1).await.unwrap();
        put(&files, "a", 2).await.unwrap();
        assert_eq!(files.take_removed(), 0);
        disk.fill();
        put(&files, "a", 3).await.unwrap();
        assert_eq!(files.take_removed(), 1);
        assert!(!names(disk.path()).contains(&"19700101T000001.000Z_a.pb.gz".to_owned()));
        disk.fill();
        put(&files, "a", 4).await.unwrap();
        disk.fill();
        put(&files, "a", 5).await.unwrap();
        let kept = names(disk.path());
        assert_eq!(
            kept.iter().filter(|name| name.ends_with(".pb.gz")).count(),
            2
        );
        assert!(kept.contains(&"19700101T000005.000Z_a.pb.gz".to_owned()));
    }
}
