//! What used the most: the rows of the tables.

use std::{cmp::Reverse, collections::HashSet};

use crate::profile::{FunctionId, ProcessIndex, Profile};

/// What a function used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FunctionRow {
    pub(super) function: FunctionId,
    /// Samples in which it ran itself.
    pub(super) own: u64,
    /// Samples in which it was anywhere on the stack, once however often it was there.
    pub(super) total: u64,
}

/// All functions that were seen, the hottest first.
pub(super) fn hottest_functions(profile: &Profile) -> Vec<FunctionRow> {
    let ids = 0..u32::try_from(profile.functions.len()).unwrap_or(u32::MAX);
    let mut rows: Vec<_> = ids
        .map(|id| FunctionRow {
            function: FunctionId(id),
            own: 0,
            total: 0,
        })
        .collect();
    let mut seen = HashSet::new();
    for sample in &profile.samples {
        seen.clear();
        let stack = profile.stacks[sample.stack.0 as usize].iter();
        let lines = stack.flat_map(|id| &profile.location(*id).lines);
        let functions = lines.map(|line| line.function);
        for (depth, function) in functions.enumerate() {
            let row = &mut rows[function.0 as usize];
            if depth == 0 {
                row.own += sample.count;
            }
            if seen.insert(function) {
                row.total += sample.count;
            }
        }
    }
    rows.retain(|row| row.total != 0);
    rows.sort_by_key(|row| (Reverse((row.own, row.total)), row.function));
    rows
}

/// All processes that were sampled and their samples, the busiest first.
pub(super) fn busiest_processes(profile: &Profile) -> Vec<(ProcessIndex, u64)> {
    let ids = 0..u32::try_from(profile.processes.len()).unwrap_or(u32::MAX);
    let mut rows: Vec<_> = ids.map(|id| (ProcessIndex(id), 0)).collect();
    for sample in &profile.samples {
        rows[profile.process_of(sample).0 as usize].1 += sample.count;
    }
    rows.retain(|&(_, samples)| samples != 0);
    rows.sort_by_key(|&(process, samples)| (Reverse(samples), process));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::support::{made_processes, made_profile};

    #[test]
    fn recursion_counts_once_in_a_stack() {
        let profile = made_profile("");
        let rows = hottest_functions(&profile);
        assert_eq!((rows[0].own, rows[0].total), (150, 150));
        assert!(rows.iter().all(|row| row.total <= profile.total()));
        let own: u64 = rows.iter().map(|row| row.own).sum();
        assert_eq!(own, profile.total());
    }

    #[test]
    fn processes_have_the_samples_of_their_threads() {
        let mut profile = made_processes("");
        let rows = [(0, 350), (1, 110), (2, 7)].map(|(id, count)| (ProcessIndex(id), count));
        assert_eq!(busiest_processes(&profile), rows);
        profile.samples.retain(|sample| sample.thread.0 > 3);
        assert_eq!(busiest_processes(&profile), rows[1..]);
    }
}
