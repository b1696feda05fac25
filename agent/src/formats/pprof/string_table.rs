//! The string table: distinct strings.
//!
//! Invariant: the first string is empty.

use std::collections::HashMap;

/// Strings and their indices.
pub(super) struct StringTable {
    indices: HashMap<String, i64>,
    table: Vec<String>,
}

impl StringTable {
    /// A table with only the empty string.
    pub(super) fn new() -> Self {
        let mut strings = Self {
            indices: HashMap::new(),
            table: Vec::new(),
        };
        strings.index("");
        strings
    }

    /// The index of a string, which is added if it is new.
    pub(super) fn index(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.indices.get(text) {
            return index;
        }
        let index = i64::try_from(self.table.len()).unwrap_or(i64::MAX);
        self.table.push(text.to_owned());
        self.indices.insert(text.to_owned(), index);
        index
    }

    /// The strings, by index.
    pub(super) fn into_table(self) -> Vec<String> {
        self.table
    }
}
