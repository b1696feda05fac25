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
//! Invariants: rules come from whoever runs the agent, values from any process: a rule that is accepted
//! cannot fail later, expressions take linear time, a value that grows beyond 4 KiB is
//! truncated.

mod read;
mod rule;
mod rules;
#[cfg(test)]
mod tests;

pub use self::rules::Rules;
