//! The tables of a profile being built: equal items have the same index.

use std::{collections::HashMap, hash::Hash};

/// A table of distinct items.
pub struct Interner<T> {
    items: Vec<T>,
    indices: HashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            indices: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    /// The index of an item, which is added if it is new.
    pub fn index(&mut self, item: T) -> u32 {
        if let Some(index) = self.indices.get(&item) {
            return *index;
        }
        let index = index(self.items.len());
        self.items.push(item.clone());
        self.indices.insert(item, index);
        index
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
        self.items
    }
}

/// An index in the model's type. It never saturates in practice: 2^32 items do not fit in memory.
pub fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
