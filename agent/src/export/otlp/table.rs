//! A table of the dictionary: each entry once, the empty one first.

use std::hash::Hash;

use foldhash::fast::RandomState;
use indexmap::IndexSet;

use super::super::batch::Unencodable;

/// A table of distinct entries.
pub(super) struct Table<T>(IndexSet<T, RandomState>);

impl<T: Default + Eq + Hash> Table<T> {
    pub(super) fn new() -> Self {
        Self(IndexSet::from_iter([T::default()]))
    }

    /// Index of an entry, which is added if missing.
    pub(super) fn index(&mut self, entry: T) -> Result<i32, Unencodable> {
        i32::try_from(self.0.insert_full(entry).0).map_err(|_| Unencodable)
    }

    pub(super) fn into_entries(self) -> Vec<T> {
        self.0.into_iter().collect()
    }
}
