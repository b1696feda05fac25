//! The compiled call-frame information of a file.

use agent_common::unwind::Rule;

use super::{reason::UnknownCounts, rows::Row, rules::Rules};

/// The rules of a file by address: each holds from its row's address to the next row's.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// The address that distances are relative to.
    pub(super) base: u64,
    /// The rules of the rows.
    pub(super) rules: Rules,
    pub(super) rows: Vec<Row>,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the reasons are read by the tests of this module")
    )]
    pub(super) unknown: UnknownCounts,
}

impl Compiled {
    /// The rows with their addresses before the load bias is added, sorted; adjacent rules differ,
    /// and the last is unknown.
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (u64, Rule)> {
        let base = self.base;
        self.rows.iter().map(move |row| {
            let address = base + u64::from(row.distance);
            (address, rule_at(&self.rules, row.rule))
        })
    }

    /// Bytes of memory that its rows take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.rows)
    }

    /// Its rules, to whose positions rows refer.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        self.rules.all()
    }

    /// The rule that holds at an address.
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

    /// How many rows are unknown, by reason.
    #[cfg(test)]
    #[must_use]
    pub fn unknown(&self) -> &UnknownCounts {
        &self.unknown
    }
}

/// The rule of a [`Row`].
pub(super) fn rule_at(rules: &Rules, index: u32) -> Rule {
    u16::try_from(index)
        .ok()
        .and_then(|index| rules.get(index))
        .unwrap_or(Rule::UNKNOWN)
}
