//! Which profiles of a folder go when there are too many.
//!
//! A folder may hold a hundred thousand files, so it is not listed for each that is written: what
//! is remembered is how much all of them take and which are the oldest. It is listed again when
//! those are gone, and now and then for what others have done in it.
//!
//! Invariants: what goes is the oldest, and before it what is named for a time that is yet to come,
//! which a wrong clock has named; a clock that is wrong for a moment does not empty the folder,
//! because only so many go for their age with each that is written.

use std::{collections::BTreeMap, io, time::SystemTime};

use super::{
    folder::{Folder, FolderEntry},
    name,
};

/// How many of the oldest are remembered.
const OLDEST: usize = 1_024;

/// Profiles that are written before the folder is listed again.
const TRUSTED: u32 = 4_096;

/// Most that go for their age with each that is written.
const MOST_AGED: usize = 64;

/// What is known of a folder.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// What all profiles take, in bytes.
    bytes: u64,
    /// The oldest, in the order in which they go.
    oldest: BTreeMap<RemovalOrder, FolderEntry>,
    /// Whether there are others.
    has_others: bool,
    /// Profiles that were written since the folder was listed.
    written: u32,
}

/// When a profile goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RemovalOrder {
    /// Whether it is not named for a time that is yet to come.
    is_past: bool,
    name: String,
}

impl RemovalOrder {
    /// That of a file; names of times before `now` are past.
    fn of(name: &str, now: &str) -> Self {
        let stem = name::sort_key(name);
        Self {
            is_past: stem <= now,
            name: stem.to_owned(),
        }
    }
}

impl Rotation {
    /// Removes the oldest profiles until the others take no more than `room` bytes, and of those
    /// whose names are before `earliest`.
    pub(crate) fn make_room(
        &mut self,
        folder: &Folder,
        room: u64,
        earliest: &str,
    ) -> io::Result<()> {
        if self.written >= TRUSTED {
            self.oldest.clear();
        }
        let mut aged = 0;
        loop {
            if self.oldest.is_empty() {
                self.list(folder)?;
            }
            let Some(file) = self.oldest.first_entry() else {
                return Ok(());
            };
            let is_aged = *file.key().name < *earliest && aged < MOST_AGED;
            if self.bytes <= room && !is_aged {
                return Ok(());
            }
            aged += 1;
            folder.remove(&file.get().name)?;
            let file = file.remove();
            self.bytes = self.bytes.saturating_sub(file.bytes);
        }
    }

    /// Takes notice of a profile that was written.
    pub(crate) fn add(&mut self, file: FolderEntry) {
        self.bytes = self.bytes.saturating_add(file.bytes);
        self.written += 1;
        let turn = RemovalOrder::of(&file.name, &name::time(SystemTime::now()));
        let last = self.oldest.last_key_value();
        if !self.has_others || last.is_some_and(|(last, _)| turn < *last) {
            self.oldest.insert(turn, file);
            self.forget_the_newer();
        }
    }

    /// What all profiles take, in bytes.
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
            self.oldest.insert(RemovalOrder::of(&file.name, now), file);
            self.forget_the_newer();
        }
        Ok(())
    }

    fn forget_the_newer(&mut self) {
        if self.oldest.len() > OLDEST {
            self.oldest.pop_last();
            self.has_others = true;
        }
    }
}

/// The profiles in a folder, and what is left of those that were never completed.
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
    fn more_than_is_remembered_goes_in_order() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path()).unwrap();
        let all = 3 * u32::try_from(OLDEST).unwrap();
        fill(&folder, (0..all).map(file));
        let mut rotation = Rotation::default();
        rotation.make_room(&folder, 10 * 4_096, "").unwrap();
        assert_eq!(
            names(&folder),
            (all - 10..all).map(file).collect::<Vec<_>>()
        );
        assert_eq!(rotation.bytes(), 10 * 4_096);
    }

    #[test]
    fn a_folder_is_listed_seldom() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path()).unwrap();
        fill(&folder, (0..20).map(file));
        let mut rotation = Rotation::default();
        for second in 20..30 {
            rotation.make_room(&folder, 19 * 4_096, "").unwrap();
            fill(&folder, [file(second)]);
            rotation.add(FolderEntry {
                name: file(second),
                bytes: 4_096,
            });
        }
        assert_eq!(names(&folder), (10..30).map(file).collect::<Vec<_>>());
        assert_eq!(rotation.written, 10);
        // What others remove in the meantime is noticed at last.
        for second in 10..25 {
            folder.remove(&file(second)).unwrap();
        }
        rotation.written = TRUSTED;
        rotation.make_room(&folder, 19 * 4_096, "").unwrap();
        assert_eq!((rotation.bytes(), rotation.written), (5 * 4_096, 0));
    }

    #[test]
    fn what_a_wrong_clock_has_named_goes_first() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path()).unwrap();
        let later = "99990101T000000.000Z_a.pb.gz".to_owned();
        fill(&folder, (0..3).map(file).chain([later]));
        let mut rotation = Rotation::default();
        rotation.make_room(&folder, 3 * 4_096, "").unwrap();
        assert_eq!(names(&folder), (0..3).map(file).collect::<Vec<_>>());
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_moment_does_not_empty_the_folder() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path()).unwrap();
        fill(&folder, (0..500).map(file));
        let mut rotation = Rotation::default();
        rotation.make_room(&folder, 1 << 30, "9999").unwrap();
        assert_eq!(names(&folder).len(), 500 - MOST_AGED);
    }
}
