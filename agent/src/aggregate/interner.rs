//! The tables of a profile being built: equal items have the same index.

use std::hash::Hash;

use foldhash::fast::RandomState;
use indexmap::{Equivalent, IndexSet};

/// A table of distinct items.
pub struct Interner<T> {
    items: IndexSet<T, RandomState>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            items: IndexSet::default(),
        }
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// The index of an item, which is added if it is new.
    pub fn index(&mut self, item: T) -> u32 {
        index(self.items.insert_full(item).0)
    }

    /// The index of the item that is equal to a key; `make` makes it if it is new.
    pub fn index_of(
        &mut self,
        key: &(impl Equivalent<T> + Hash + ?Sized),
        make: impl FnOnce() -> T,
    ) -> u32 {
        match self.items.get_index_of(key) {
            Some(known) => index(known),
            None => self.index(make()),
        }
    }

    /// The item with an index.
    ///
    /// # Panics
    ///
    /// When `index` is out of bounds.
    pub fn get(&self, index: u32) -> &T {
        &self.items[index as usize]
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// All items, by index.
    pub fn into_items(self) -> Vec<T> {
        self.items.into_iter().collect()
    }
}

/// An index in the model's type. It never saturates in practice: 2^32 items do not fit in memory.
pub fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
