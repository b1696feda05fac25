//! Code that is more than its call-frame information says.

use std::ops::Range;

use agent_common::unwind::{CfaRule, Rule, RuleFlags};

use super::{
    code_ranges::CodeRanges,
    rows::{Row, Rows},
};

/// Some code, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMark {
    /// Its addresses, before the load bias is added.
    pub range: Range<u64>,
    /// What it is.
    pub role: CodeRole,
}

/// What marked code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodeRole {
    /// An interpreter's evaluation loop.
    EvaluationLoop,
    /// The beginning of a stack: what its call-frame information says of a caller is not so.
    StackRoot,
}

impl CodeRole {
    /// The number that stands for it in rows.
    const fn number(self) -> u32 {
        match self {
            Self::EvaluationLoop => 0,
            Self::StackRoot => 1,
        }
    }

    /// The rule of marked code, where the role has this number.
    pub(super) fn rule(number: u32, rule: Rule) -> Rule {
        if number == Self::StackRoot.number() {
            return Rule {
                cfa: CfaRule::END,
                ..Rule::UNKNOWN
            };
        }
        Rule {
            flags: rule.flags.with(RuleFlags::EVALUATES),
            ..rule
        }
    }
}

/// Rows that cover marked code, with the numbers of its roles in place of rules.
pub(super) fn rows(code: &CodeRanges, marks: &[CodeMark]) -> Vec<Row> {
    let mut marks: Vec<_> = marks
        .iter()
        .filter_map(|CodeMark { range, role }| {
            Some((
                code.distance(range.start)?,
                code.distance(range.end)?,
                *role,
            ))
        })
        .collect();
    marks.sort_unstable();
    let mut rows = Rows::default();
    for (start, end, role) in marks {
        rows.push(start..end, role.number());
    }
    rows.finish()
}
