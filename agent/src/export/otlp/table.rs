//! A table of the dictionary: each entry once, the empty one first.

use std::{collections::HashMap, hash::Hash};

use super::super::batch::Unencodable;

/// A table of distinct entries.
pub(super) struct Table<T> {
    entries: Vec<T>,
    indexes: HashMap<T, i32>,
}

impl<T: Clone + Default + Eq + Hash> Table<T> {
    pub(super) fn new() -> Self {
        Self {
            entries: vec![T::default()],
            indexes: HashMap::from([(T::default(), 0)]),
        }
    }

    /// Index of an entry, which is added if missing.
    pub(super) fn index(&mut self, entry: T) -> Result<i32, Unencodable> {
        if let Some(index) = self.indexes.get(&entry) {
            return Ok(*index);
        }
        let index = i32::try_from(self.entries.len()).map_err(|_| Unencodable)?;
        self.entries.push(entry.clone());
        self.indexes.insert(entry, index);
        Ok(index)
    }

    pub(super) fn into_entries(self) -> Vec<T> {
        self.entries
    }
}
