//! Files that were left out, and why.

use std::io;

use super::merge::Full;
use crate::{formats::ReadError, text::printable};

/// Files left out that are named.
const MAX_NAMED: usize = 10;

/// Files that were left out.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// The first ones, each with the reason.
    pub named: Vec<(String, NotRead)>,
    /// How many there are.
    pub count: usize,
}

impl LeftOut {
    pub(super) fn add(&mut self, name: &str, why: NotRead) {
        self.count += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push((printable(name).into_owned(), why));
        }
    }
}

/// Why a file was left out.
#[derive(Debug, thiserror::Error)]
pub enum NotRead {
    /// It cannot be read from its disk.
    #[error("it cannot be read: {0}")]
    Disk(#[from] io::Error),
    /// It is no profile.
    #[error(transparent)]
    Format(#[from] ReadError),
    /// There is no room for it.
    #[error(transparent)]
    Full(#[from] Full),
}
