//! A string table: every text once.
//!
//! Invariant: the first text is the empty one.

use std::collections::HashMap;

/// Texts and their indices.
pub(super) struct StringTable {
    indices: HashMap<String, i64>,
    table: Vec<String>,
}

impl StringTable {
    /// A table of the empty text alone.
    pub(super) fn new() -> Self {
        let mut strings = Self {
            indices: HashMap::new(),
            table: Vec::new(),
        };
        strings.index("");
        strings
    }

    /// The index of a text, which is added when it is new.
    pub(super) fn index(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.indices.get(text) {
            return index;
        }
        let index = i64::try_from(self.table.len()).unwrap_or(i64::MAX);
        self.table.push(text.to_owned());
        self.indices.insert(text.to_owned(), index);
        index
    }

    /// The texts, by index.
    pub(super) fn into_table(self) -> Vec<String> {
        self.table
    }
}
