//! The scheduler's own account of threads.

use std::{fs, path::Path};

/// For how many nanoseconds a thread has run and has waited to run, and how often it began to run: `folder` is that of
/// the thread in `/proc`, or of a process for its first thread.
pub(crate) fn schedstat(folder: impl AsRef<Path>) -> [u64; 3] {
    let schedstat = fs::read_to_string(folder.as_ref().join("schedstat")).unwrap();
    let numbers = schedstat.split_whitespace();
    let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}
