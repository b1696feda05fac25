//! Removes the oldest profiles of a folder to keep its limits.
//!
//! A folder may hold a hundred thousand files, so it is not listed for each write: the size of all
//! files and the names of the oldest are cached. It is listed again when those are removed, and every
//! few thousand writes because other programs may change it.
//!
//! Invariants: profiles with a time in the future, named by a wrong clock, are removed first, then the
//! oldest; a clock that is wrong for a moment does not empty the folder, because each write removes a
//! bounded number of profiles for their age.

use std::{collections::BTreeMap, io, time::SystemTime};

use super::{
    folder::{Folder, FolderEntry},
    name,
};

/// Number of the oldest profiles that are cached.
const MAX_CACHED: usize = 1_024;

/// Writes before the folder is listed again.
const WRITES_PER_LISTING: u32 = 4_096;

/// Most profiles removed for their age with each write.
const MAX_EXPIRED_PER_WRITE: usize = 64;

/// Cached state of a folder.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// Disk space of all profiles, in bytes.
    bytes: u64,
    /// The oldest profiles, in the order of removal.
    oldest: BTreeMap<RemovalOrder, FolderEntry>,
    /// Whether the folder has further profiles.
    has_others: bool,
    /// Writes since the folder was listed.
    written: u32,
}

/// Sort key: the next profile to remove first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RemovalOrder {
    /// Whether the time in the name is not in the future.
    is_past: bool,
    name: String,
}

impl RemovalOrder {
    fn new(name: &str, now: &str) -> Self {
        let stem = name::sort_key(name);
        Self {
            is_past: stem <= now,
            name: stem.to_owned(),
        }
    }
}

impl Rotation {
    /// Removes the oldest profiles until the others take no more than `max_bytes`, and some of those
    /// with names before `earliest`; `removed` counts them.
    pub(crate) fn make_room(
        &mut self,
        folder: &Folder,
        max_bytes: u64,
        earliest: &str,
        removed: &mut u64,
    ) -> io::Result<()> {
        if self.written >= WRITES_PER_LISTING {
            self.oldest.clear();
        }
        let mut expired = 0;
        loop {
            if self.oldest.is_empty() {
                self.list(folder)?;
            }
            let Some(file) = self.oldest.first_entry() else {
                return Ok(());
            };
            let is_expired = *file.key().name < *earliest && expired < MAX_EXPIRED_PER_WRITE;
            if self.bytes <= max_bytes && !is_expired {
                return Ok(());
            }
            expired += 1;
            folder.remove(&file.get().name)?;
            *removed += 1;
            let file = file.remove();
            self.bytes = self.bytes.saturating_sub(file.bytes);
        }
    }

    /// Adds a profile that was written.
    pub(crate) fn add(&mut self, file: FolderEntry) {
        self.bytes = self.bytes.saturating_add(file.bytes);
        self.written += 1;
        let turn = RemovalOrder::new(&file.name, &name::time(SystemTime::now()));
        let last = self.oldest.last_key_value();
        if !self.has_others || last.is_some_and(|(last, _)| turn < *last) {
            self.oldest.insert(turn, file);
            self.truncate();
        }
    }

    /// Disk space of all profiles, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn list(&mut self, folder: &Folder) -> io::Result<()> {
        let now = &*name::time(SystemTime::now());
        self.bytes = 0;
        self.written = 0;
        self.has_others = false;
        for file in profiles(folder)? {
            self.bytes = self.bytes.saturating_add(file.bytes);
            self.oldest.insert(RemovalOrder::new(&file.name, now), file);
            self.truncate();
        }
        Ok(())
    }

    fn truncate(&mut self) {
        if self.oldest.len() > MAX_CACHED {
            self.oldest.pop_last();
            self.has_others = true;
        }
    }
}

/// The profiles in a folder, and the files of profiles that were never completed.
fn profiles(folder: &Folder) -> io::Result<Vec<FolderEntry>> {
    folder.entries(|name| {
        name::completed(name)
            .is_some_and(|name| name.ends_with(name::SUFFIX) && name::moment(name).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(folder: &Folder, names: impl IntoIterator<Item = String>) {
        for name in names {
            folder.write(&name, &[b"x"], 0o600).unwrap();
        }
    }

    fn file(second: u32) -> String {
        format!(
            "20261121T15{:02}{:02}.000Z_a.pb.gz",
            second / 60,
            second % 60
        )
    }

    fn names(folder: &Folder) -> Vec<String> {
        let mut names: Vec<_> = profiles(folder)
            .unwrap()
            .into_iter()
            .map(|file| file.name)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn more_than_is_cached_is_removed_in_order() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path()).unwrap();
        let all = 3 * u32::try_from(MAX_CACHED).unwrap();
        fill(&folder, (0..all).map(file));
        let mut rotation = Rotation::default();
        let mut removed = 0;
        rotation
            .make_room(&folder, 10 * 4_096, "", &mut removed)
            .unwrap();
        assert_eq!(
            names(&folder),
            (all - 10..all).map(file).collect::<Vec<_>>()
        );
        assert_eq!(rotation.bytes(), 10 * 4_096);
        assert_eq!(removed, u64::from(all - 10));
    }

    #[test]
    fn a_folder_is_listed_seldom() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path()).unwrap();
        fill(&folder, (0..20).map(file));
        let mut rotation = Rotation::default();
        for second in 20..30 {
            rotation.make_room(&folder, 19 * 4_096, "", &mut 0).unwrap();
            fill(&folder, [file(second)]);
            rotation.add(FolderEntry {
                name: file(second),
                bytes: 4_096,
            });
        }
        assert_eq!(names(&folder), (10..30).map(file).collect::<Vec<_>>());
        assert_eq!(rotation.written, 10);
        // Removals by other programs are detected when the folder is listed again.
        for second in 10..25 {
            folder.remove(&file(second)).unwrap();
        }
        rotation.written = WRITES_PER_LISTING;
        rotation.make_room(&folder, 19 * 4_096, "", &mut 0).unwrap();
        assert_eq!((rotation.bytes(), rotation.written), (5 * 4_096, 0));
    }

    #[test]
    fn profiles_from_the_future_are_removed_first() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path()).unwrap();
        let later = "99990101T000000.000Z_a.pb.gz".to_owned();
        fill(&folder, (0..3).map(file).chain([later]));
        let mut rotation = Rotation::default();
        rotation.make_room(&folder, 3 * 4_096, "", &mut 0).unwrap();
        assert_eq!(names(&folder), (0..3).map(file).collect::<Vec<_>>());
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_moment_does_not_empty_the_folder() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path()).unwrap();
        fill(&folder, (0..500).map(file));
        let mut rotation = Rotation::default();
        rotation
            .make_room(&folder, 1 << 30, "9999", &mut 0)
            .unwrap();
        assert_eq!(names(&folder).len(), 500 - MAX_EXPIRED_PER_WRITE);
    }
}
