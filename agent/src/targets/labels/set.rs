//! Sets of labels.

use std::collections::BTreeMap;

use crate::profile::SERVICE_NAME_LABEL;

/// Most bytes of a value before relabeling, and of one that a rule makes.
pub(super) const MAX_VALUE: usize = 4 << 10;

/// The labels of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(pub(super) BTreeMap<String, String>);

impl Labels {
    /// The value of a label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.0.iter();
        labels.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Those of the series of all processes whose own series are too many.
    #[must_use]
    pub fn other() -> Self {
        Self([(SERVICE_NAME_LABEL.to_owned(), "other".to_owned())].into())
    }

    /// Adds those of `others` whose names are not in the set.
    #[must_use]
    pub fn with(mut self, others: &BTreeMap<String, String>) -> Self {
        for (name, value) in others {
            self.0.entry(name.clone()).or_insert_with(|| value.clone());
        }
        self
    }

    /// The values, by name.
    #[must_use]
    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }
}

/// Labels before relabeling, hidden ones included.
#[derive(Debug, Default)]
pub(super) struct LabelSet(pub(super) BTreeMap<String, String>);

impl LabelSet {
    /// Adds a label if it has a value.
    pub(super) fn add(&mut self, name: &str, value: Option<String>) {
        if let Some(mut value) = value.filter(|value| !value.is_empty()) {
            // A command line may be longer than any label.
            truncate(&mut value, MAX_VALUE);
            self.0.insert(name.to_owned(), value);
        }
    }
}

/// Shortens a text to at most so many bytes, between characters.
pub(super) fn truncate(text: &mut String, most: usize) {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}
