//! Rules that rewrite labels, as Prometheus has them in `relabel_configs`.
//!
//! They are applied in order, and each sees what the ones before it have done. At the end labels
//! whose name starts with `__` go, so that rules see them and nobody else does.
//!
//! It differs from Prometheus in this: expressions are those of the crate `regex`, whose `\d`,
//! `\w` and `\s` also match what is not ASCII; label names are letters, digits and `_`, which all
//! destinations understand, also where Prometheus 3 takes any UTF-8; `labelmap` leaves out what
//! would not be such a name.
//!
//! Invariants: rules come from whoever runs the agent, values from anybody: a rule that is taken
//! cannot fail later, expressions take linear time, a value that grows beyond [`MAX_VALUE`] bytes
//! is cut.

mod read;
mod rule;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use read::Invalid;
pub use rule::Rule;

/// Most bytes of a value that a rule makes.
pub const MAX_VALUE: usize = 4 << 10;

/// How names start that only rules see.
pub(super) const HIDDEN: &str = "__";

/// Rules, in the order in which they are applied.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Rewrites labels; gives [`None`] if they are to be dropped, with all that they stand for.
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

/// Whether all destinations take it for the name of a label.
pub(super) fn is_label_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first == b'_' || first.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests;
