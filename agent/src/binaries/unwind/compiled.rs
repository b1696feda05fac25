//! The compiled call-frame information of a file.

use agent_common::unwind::Rule;

use super::{reason::Unknown, rows::Row, rules::Rules};

/// The rules of a file, each from an address on.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// What distances are counted from.
    pub(super) base: u64,
    /// The rules of the rows.
    pub(super) rules: Rules,
    pub(super) rows: Vec<Row>,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the reasons are read by the tests of this module")
    )]
    pub(super) unknown: Unknown,
}

impl Compiled {
    /// The rows, in the order of their addresses, which are those before the load bias is added;
    /// neighbours differ, and the last is unknown.
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (u64, Rule)> {
        let base = self.base;
        self.rows.iter().map(move |row| {
            let address = base + u64::from(row.distance);
            (address, rule_at(&self.rules, row.rule))
        })
    }

    /// The rule that holds at an address.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn find(&self, address: u64) -> Rule {
        let after = self
            .rows
            .partition_point(|row| self.base + u64::from(row.distance) <= address);
        after
            .checked_sub(1)
            .and_then(|index| self.rows.get(index))
            .map_or(Rule::UNKNOWN, |row| rule_at(&self.rules, row.rule))
    }

    /// What is not known, and why.
    #[cfg(test)]
    #[must_use]
    pub fn unknown(&self) -> &Unknown {
        &self.unknown
    }
}

/// The rule with an index of [`Rows`].
pub(super) fn rule_at(rules: &Rules, index: u32) -> Rule {
    u16::try_from(index)
        .ok()
        .and_then(|index| rules.get(index))
        .unwrap_or(Rule::UNKNOWN)
}
