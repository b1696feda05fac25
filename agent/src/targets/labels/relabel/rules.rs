//! A list of rules.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::rule::Rule;
use crate::targets::labels::names::HIDDEN;

/// Rules, in the order in which they are applied.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies all rules; [`None`] if one of them drops the labels.
    #[must_use]
    pub fn apply(&self, mut labels: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
        for rule in &self.0 {
            if !rule.apply(&mut labels) {
                return None;
            }
        }
        labels.retain(|name, value| !name.starts_with(HIDDEN) && !value.is_empty());
        Some(labels)
    }
}
