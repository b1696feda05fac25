//! Relabeling rules, the `relabel_configs` of Prometheus.
//!
//! They are applied in order, and each sees what the ones before it have done. At the end labels
//! whose names start with `__` are removed.
//!
//! Differences to Prometheus: expressions are those of the crate `regex`, whose `\d`,
//! `\w` and `\s` also match what is not ASCII; label names are letters, digits and `_`, which all
//! destinations accept, also where Prometheus 3 allows any UTF-8; `labelmap` skips names that would
//! not be valid.
//!
//! Invariants: rules come from whoever runs the agent, values from any process: a rule that is accepted
//! cannot fail later, expressions take linear time, a value that grows beyond 4 KiB is
//! truncated.

mod read;
mod rule;
mod rules;
#[cfg(test)]
mod tests;

pub use self::rules::Rules;
