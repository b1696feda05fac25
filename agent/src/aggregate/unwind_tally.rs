//! How far native walks came, by process.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use crate::profile::{ProcessIndex, Reached, Unwinding};

/// How far native walks came so far.
#[derive(Debug, Default)]
pub(super) struct Walks(BTreeMap<ProcessIndex, Tally>);

/// How far the native walks of one process came.
#[derive(Debug, Default)]
struct Tally {
    whole: u64,
    ends: HashMap<Reached, u64>,
}

impl Walks {
    /// Counts `count` walks that reached the entry.
    pub(super) fn add_whole(&mut self, process: ProcessIndex, count: u64) {
        self.0.entry(process).or_default().whole += count;
    }

    /// Counts `count` walks that did not.
    pub(super) fn add_broken(&mut self, process: ProcessIndex, reached: Reached, count: u64) {
        let tally = self.0.entry(process).or_default();
        *tally.ends.entry(reached).or_default() += count;
    }

    /// As a profile has it.
    pub(super) fn finish(self) -> Vec<Unwinding> {
        let processes = self.0.into_iter();
        processes
            .map(|(process, Tally { whole, ends })| {
                let mut ends: Vec<_> = ends.into_iter().collect();
                let broken: u64 = ends.iter().map(|(_, count)| count).sum();
                ends.sort_unstable_by_key(|&(reached, count)| (Reverse(count), reached));
                ends.truncate(Unwinding::MAX_ENDS);
                Unwinding {
                    process,
                    walked: whole + broken,
                    whole,
                    ends,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ExecutableId;

    #[test]
    fn the_most_frequent_ends_are_kept() {
        let mut walks = Walks::default();
        let process = ProcessIndex(1);
        walks.add_whole(process, 100);
        for number in 0..20 {
            let reached = Reached::Executable(ExecutableId(number));
            walks.add_broken(process, reached, 1 + u64::from(number));
        }
        walks.add_broken(process, Reached::Nothing, 19);
        walks.add_whole(ProcessIndex(0), 3);
        let [first, second] = &walks.finish()[..] else {
            panic!("not two processes");
        };
        let of_first = (first.process, first.walked, first.whole, first.ends.len());
        assert_eq!(of_first, (ProcessIndex(0), 3, 3, 0));
        assert_eq!((second.walked, second.whole), (100 + 210 + 19, 100));
        assert_eq!(second.ends.len(), Unwinding::MAX_ENDS);
        assert_eq!(
            second.ends[..3],
            [
                (Reached::Executable(ExecutableId(19)), 20),
                (Reached::Nothing, 19),
                (Reached::Executable(ExecutableId(18)), 19),
            ]
        );
    }
}
