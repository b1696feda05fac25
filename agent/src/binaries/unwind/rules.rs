//! The rules of a file, each with the index by which its rows refer to it.

use std::collections::{HashMap, hash_map::Entry};

use agent_common::unwind::Rule;
use foldhash::fast::RandomState;

/// Distinct rules, at most 65,536.
///
/// Invariants: a rule's index never changes; the index of [`Rule::UNKNOWN`] is 0.
#[derive(Clone, Debug)]
pub struct Rules {
    all: Vec<Rule>,
    /// Looked up for each row of a table: a third of the time of compiling went into a slower hash.
    indices: HashMap<Rule, u16, RandomState>,
    left_out: u64,
}

impl Rules {
    /// Only [`Rule::UNKNOWN`].
    #[must_use]
    pub fn new() -> Self {
        let mut indices = HashMap::with_hasher(RandomState::default());
        indices.insert(Rule::UNKNOWN, 0);
        Self {
            all: vec![Rule::UNKNOWN],
            indices,
            left_out: 0,
        }
    }

    /// The index of a rule; 0 where all indices are used up.
    pub fn index(&mut self, rule: &Rule) -> u16 {
        match self.indices.entry(*rule) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let next = u16::try_from(self.all.len());
                let Ok(index) = next else {
                    self.left_out += 1;
                    return 0;
                };
                self.all.push(*rule);
                *new.insert(index)
            }
        }
    }

    /// The rule with this index.
    #[must_use]
    pub fn get(&self, index: u16) -> Option<Rule> {
        self.all.get(usize::from(index)).copied()
    }

    /// All rules, in the order of their indices.
    #[must_use]
    pub fn all(&self) -> &[Rule] {
        &self.all
    }

    /// How many rules got the index 0 because all were used up.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Rules;
    use agent_common::unwind::{CfaRule, Rule};

    fn rule(offset: i32) -> Rule {
        Rule {
            cfa: CfaRule::REGISTER,
            offset,
            ..Rule::UNKNOWN
        }
    }

    #[test]
    fn a_rule_keeps_its_index() {
        let mut rules = Rules::new();
        assert_eq!(rules.index(&Rule::UNKNOWN), 0);
        assert_eq!((rules.index(&rule(8)), rules.index(&rule(16))), (1, 2));
        assert_eq!((rules.index(&rule(24)), rules.index(&rule(8))), (3, 1));
        assert_eq!(rules.all(), [Rule::UNKNOWN, rule(8), rule(16), rule(24)]);
        assert_eq!((rules.get(2), rules.get(4)), (Some(rule(16)), None));
    }

    #[test]
    fn excess_rules_are_unknown_and_counted() {
        let mut rules = Rules::new();
        for offset in 0..0xffff {
            assert_eq!(i32::from(rules.index(&rule(offset))), offset + 1);
        }
        assert_eq!(rules.left_out(), 0);
        assert_eq!(rules.index(&rule(0xffff)), 0);
        assert_eq!(rules.index(&rule(0xfffe)), 0xffff);
        assert_eq!(rules.left_out(), 1);
        assert_eq!(rules.all().len(), 1 << 16);
    }
}
