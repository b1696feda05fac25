//! The string table: distinct strings.
//!
//! Invariant: the first string is empty.

use foldhash::fast::RandomState;
use indexmap::IndexSet;

/// Strings and their indices.
pub(super) struct StringTable(IndexSet<String, RandomState>);

impl StringTable {
    /// A table with only the empty string.
    pub(super) fn new() -> Self {
        Self(IndexSet::from_iter([String::new()]))
    }

    /// The index of a string, which is added if it is new.
    pub(super) fn index(&mut self, text: &str) -> i64 {
        let known = self.0.get_index_of(text);
        let index = known.unwrap_or_else(|| self.0.insert_full(text.to_owned()).0);
        i64::try_from(index).unwrap_or(i64::MAX)
    }

    /// The strings, by index.
    pub(super) fn into_table(self) -> Vec<String> {
        self.0.into_iter().collect()
    }
}
