//! The rules of all loaded tables, each with the index by which rows refer to it.
//!
//! Invariants: the index of [`Rule::UNKNOWN`] is 0; a rule keeps its index as long as a table refers to
//! it, and for [`REUSED_AFTER`] more, in which a walk that has found a row may still read it; one table
//! adds at most [`MAX_OF_TABLE`] rules, so that no file takes all indices.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    time::{Duration, Instant},
};

use agent_common::{limits::MAX_RULES, unwind::Rule};
use foldhash::fast::RandomState;

/// Most rules that a table adds: a large C++ program with all of its libraries has 3,000.
const MAX_OF_TABLE: usize = 8192;

/// Time from when no table refers to a rule until its index becomes another one's.
const REUSED_AFTER: Duration = Duration::from_secs(1);

/// Distinct rules, with the number of tables that refer to each.
#[derive(Debug)]
pub struct SharedRules {
    slots: Vec<Slot>,
    indices: HashMap<Rule, u16, RandomState>,
    /// Indices that no table referred to since a time; void where the slot has another time.
    unused: VecDeque<(Instant, u16)>,
    added: Vec<(u16, Rule)>,
    left_out: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    rule: Rule,
    tables: u32,
    unused_since: Option<Instant>,
}

impl SharedRules {
    /// Only [`Rule::UNKNOWN`].
    #[must_use]
    pub fn new() -> Self {
        let mut rules = Self {
            slots: Vec::new(),
            indices: HashMap::with_hasher(RandomState::default()),
            unused: VecDeque::new(),
            added: Vec::new(),
            left_out: 0,
        };
        rules.index(&Rule::UNKNOWN, Instant::now());
        rules
    }

    /// The indices of the rules of a table; 0 of those that find no place. The table refers to them
    /// until they are [released](Self::release).
    pub fn add(&mut self, rules: &[Rule], now: Instant) -> Box<[u16]> {
        let mut most = MAX_OF_TABLE;
        let mut index = |rule| {
            let is_new = !self.indices.contains_key(rule);
            if is_new && most == 0 {
                self.left_out += 1;
                return 0;
            }
            most -= usize::from(is_new);
            self.index(rule, now)
        };
        rules.iter().map(&mut index).collect()
    }

    /// No longer refers to the rules of a table.
    pub fn release(&mut self, table: &[u16], now: Instant) {
        for &index in table.iter().filter(|index| **index != 0) {
            if let Some(slot) = self.slots.get_mut(usize::from(index)) {
                slot.tables -= 1;
                if slot.tables == 0 {
                    slot.unused_since = Some(now);
                    self.unused.push_back((now, index));
                }
            }
        }
    }

    /// The rules that have got an index since this was last called.
    pub fn take_added(&mut self) -> Vec<(u16, Rule)> {
        mem::take(&mut self.added)
    }

    /// The rule with this index.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn get(&self, index: u16) -> Option<Rule> {
        self.slots.get(usize::from(index)).map(|slot| slot.rule)
    }

    /// How many rules of tables have got the index 0, because all were used up or the table had too
    /// many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn index(&mut self, rule: &Rule, now: Instant) -> u16 {
        let known = self.indices.get(rule).copied();
        let Some(index) = known.or_else(|| self.place(rule, now)) else {
            self.left_out += 1;
            return 0;
        };
        let slot = &mut self.slots[usize::from(index)];
        slot.tables += 1;
        slot.unused_since = None;
        index
    }

    /// Puts a rule into a new slot, or in place of one that is not used any more.
    fn place(&mut self, rule: &Rule, now: Instant) -> Option<u16> {
        let slot = Slot {
            rule: *rule,
            tables: 0,
            unused_since: None,
        };
        let index = if self.slots.len() < MAX_RULES as usize {
            self.slots.push(slot);
            u16::try_from(self.slots.len() - 1).ok()?
        } else {
            let index = self.take_unused(now)?;
            let before = mem::replace(&mut self.slots[usize::from(index)], slot);
            self.indices.remove(&before.rule);
            index
        };
        self.indices.insert(*rule, index);
        self.added.push((index, *rule));
        Some(index)
    }

    /// The index that was not used for the longest time.
    fn take_unused(&mut self, now: Instant) -> Option<u16> {
        loop {
            let &(since, index) = self.unused.front()?;
            let is_so = self.slots[usize::from(index)].unused_since == Some(since);
            if is_so && now.saturating_duration_since(since) < REUSED_AFTER {
                return None;
            }
            self.unused.pop_front();
            if is_so {
                return Some(index);
            }
        }
    }
}

impl Default for SharedRules {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_OF_TABLE, REUSED_AFTER, SharedRules};
    use agent_common::{
        limits::MAX_RULES,
        unwind::{CfaRule, Rule},
    };
    use std::time::{Duration, Instant};

    /// Different rules, the first with this number.
    fn rules(first: usize, count: usize) -> Vec<Rule> {
        (first..first + count)
            .map(|number| Rule {
                cfa: CfaRule::REGISTER,
                offset: i32::try_from(number).unwrap(),
                ..Rule::UNKNOWN
            })
            .collect()
    }

    /// Adds tables of the largest size until all indices are used.
    fn fill(shared: &mut SharedRules, now: Instant) -> Vec<Box<[u16]>> {
        let tables = MAX_RULES as usize / MAX_OF_TABLE;
        (0..tables)
            .map(|table| shared.add(&rules(1 + table * MAX_OF_TABLE, MAX_OF_TABLE), now))
            .collect()
    }

    #[test]
    fn tables_share_rules_that_are_added_once() {
        let mut shared = SharedRules::new();
        let now = Instant::now();
        assert_eq!(*shared.add(&[Rule::UNKNOWN], now), [0]);
        assert_eq!(*shared.add(&rules(8, 2), now), [1, 2]);
        assert_eq!(*shared.add(&rules(9, 2), now), [2, 3]);
        let added = shared.take_added();
        let all = [vec![Rule::UNKNOWN], rules(8, 3)].concat();
        assert_eq!(added, (0..).zip(all).collect::<Vec<_>>());
        assert!(shared.take_added().is_empty());
        assert_eq!(shared.get(3), Some(rules(10, 1)[0]));
        assert_eq!(shared.get(4), None);
    }

    #[test]
    fn one_table_does_not_take_all() {
        let mut shared = SharedRules::new();
        let now = Instant::now();
        let large = shared.add(&rules(1, MAX_OF_TABLE + 10), now);
        assert_eq!(
            large[MAX_OF_TABLE - 1],
            u16::try_from(MAX_OF_TABLE).unwrap()
        );
        assert_eq!(large[MAX_OF_TABLE..], [0; 10]);
        assert_eq!(shared.left_out(), 10);
        // Rules that are there already count for nothing.
        let again = shared.add(&rules(1, MAX_OF_TABLE + 10), now);
        assert!(again.iter().all(|index| *index != 0));
    }

    #[test]
    fn rules_that_no_table_needs_give_way_after_a_while() {
        let mut shared = SharedRules::new();
        let start = Instant::now();
        let tables = fill(&mut shared, start);
        let late = rules(1_000_000, 2);
        assert_eq!(*shared.add(&late, start), [0, 0]);
        shared.take_added();

        shared.release(&tables[1], start);
        assert_eq!(*shared.add(&late, start + REUSED_AFTER / 2), [0, 0]);
        let later = start + REUSED_AFTER;
        let indices = shared.add(&late, later);
        assert_eq!(*indices, tables[1][..2]);
        let expected: Vec<_> = indices.iter().copied().zip(late.clone()).collect();
        assert_eq!(shared.take_added(), expected);
        assert_eq!(shared.get(indices[0]), Some(late[0]));

        // One that is needed again before is not overwritten.
        let needed = rules(1 + MAX_OF_TABLE + 2, 1);
        assert_eq!(*shared.add(&needed, later), tables[1][2..3]);
        let others = shared.add(
            &rules(2_000_000, MAX_OF_TABLE),
            later + Duration::from_secs(1),
        );
        assert!(!others.contains(&tables[1][2]));
        assert!(!others.iter().any(|index| indices.contains(index)));
        let without = others.iter().filter(|index| **index == 0);
        assert_eq!(without.count(), 3);
    }
}
