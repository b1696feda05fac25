//! Files that were skipped, and why.

use std::io;

use super::merge::MergeLimitExceeded;
use crate::{formats::PprofReadError, text::printable};

/// Most skipped files that are named.
const MAX_NAMED: usize = 10;

/// Files that were skipped.
#[derive(Debug, Default)]
pub struct SkippedFiles {
    /// The first ones, with the reason.
    pub named: Vec<(String, SkipReason)>,
    /// Number of all skipped files.
    pub count: usize,
}

impl SkippedFiles {
    /// Adds a file.
    pub(crate) fn add(&mut self, name: &str, reason: SkipReason) {
        self.count += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push((printable(name).into_owned(), reason));
        }
    }

    /// Adds those of another folder.
    pub(crate) fn extend(&mut self, others: Self) {
        self.count += others.count;
        let room = MAX_NAMED.saturating_sub(self.named.len());
        self.named.extend(others.named.into_iter().take(room));
    }
}

/// Why a file was skipped.
#[derive(Debug, thiserror::Error)]
pub enum SkipReason {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Disk(#[from] io::Error),
    /// It is not a valid profile.
    #[error(transparent)]
    Format(#[from] PprofReadError),
    /// The merged profile would be too large.
    #[error(transparent)]
    MergeLimitExceeded(#[from] MergeLimitExceeded),
}
