//! Files that were left out, and why.

use std::io;

use super::merge::MergeLimitExceeded;
use crate::{formats::ReadError, text::printable};

/// Files left out that are named.
const MAX_NAMED: usize = 10;

/// Files that were left out.
#[derive(Debug, Default)]
pub struct SkippedFiles {
    /// The first ones, each with the reason.
    pub named: Vec<(String, SkipReason)>,
    /// How many there are.
    pub count: usize,
}

impl SkippedFiles {
    pub(super) fn add(&mut self, name: &str, why: SkipReason) {
        self.count += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push((printable(name).into_owned(), why));
        }
    }
}

/// Why a file was left out.
#[derive(Debug, thiserror::Error)]
pub enum SkipReason {
    /// It cannot be read from its disk.
    #[error("it cannot be read: {0}")]
    Disk(#[from] io::Error),
    /// It is no profile.
    #[error(transparent)]
    Format(#[from] ReadError),
    /// There is no room for it.
    #[error(transparent)]
    MergeLimitExceeded(#[from] MergeLimitExceeded),
}
