//! Python functions of threads that wait for work.

mod pattern;
mod rules;

use agent_common::record::WaitReason;

pub(super) use self::pattern::PythonFunction;
use self::rules::RULES;

/// Most functions that a rule looks at, from the leaf on.
pub(super) const MAX_FUNCTIONS: usize = 16;

/// Whether a thread waits for work that waits for this, by the functions at its leaf.
pub(super) fn is_idle(wait: WaitReason, functions: &[PythonFunction<'_>]) -> bool {
    RULES
        .iter()
        .any(|rule| rule.waits.contains(&wait) && rule.matches(functions))
}

#[cfg(test)]
mod tests;
