//! How the caller of a native frame is found: rules, and the tables that say which rule applies at
//! which address.

mod rule;
mod table;

pub use rule::{CfaRule, Rule, RuleFlags, Saved};
pub use table::{BLOCK_WORDS, Block, PAGE_BYTES, RuleSearch, TableWords, row};
