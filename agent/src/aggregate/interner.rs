//! The tables of a profile in the making: equal things have the same index.

use std::{collections::HashMap, hash::Hash};

/// Things, each once.
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
    /// The index of a thing, which is added when it is new.
    pub fn index(&mut self, item: T) -> u32 {
        if let Some(index) = self.indices.get(&item) {
            return *index;
        }
        let index = index(self.items.len());
        self.items.push(item.clone());
        self.indices.insert(item, index);
        index
    }

    /// The thing with an index.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn get(&self, index: u32) -> &T {
        &self.items[index as usize]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// All of them, by index.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }
}

/// An index as the model has it. A profile cannot have 2^32 of anything: every one of them takes
/// more than a byte of memory.
pub fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
