//! Counts the last frames of native stacks, by process.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use crate::profile::{LastFrame, ProcessIndex, UnwindStats};

/// Statistics of native unwinding so far.
#[derive(Debug, Default)]
pub(super) struct UnwindTally(BTreeMap<ProcessIndex, ProcessTally>);

/// Statistics of one process.
#[derive(Debug, Default)]
struct ProcessTally {
    complete: u64,
    incomplete: HashMap<LastFrame, u64>,
}

impl UnwindTally {
    /// Adds `count` samples whose native stack is complete.
    pub(super) fn add_complete(&mut self, process: ProcessIndex, count: u64) {
        self.0.entry(process).or_default().complete += count;
    }

    /// Adds `count` samples whose native stack ends at `last_frame`.
    pub(super) fn add_incomplete(
        &mut self,
        process: ProcessIndex,
        last_frame: LastFrame,
        count: u64,
    ) {
        let tally = self.0.entry(process).or_default();
        *tally.incomplete.entry(last_frame).or_default() += count;
    }

    /// The statistics as a profile has them.
    pub(super) fn finish(self) -> Vec<UnwindStats> {
        let processes = self.0.into_iter();
        processes
            .map(
                |(
                    process,
                    ProcessTally {
                        complete,
                        incomplete,
                    },
                )| {
                    let mut incomplete: Vec<_> = incomplete.into_iter().collect();
                    let incomplete_count: u64 = incomplete.iter().map(|(_, count)| count).sum();
                    incomplete
                        .sort_unstable_by_key(|&(last_frame, count)| (Reverse(count), last_frame));
                    incomplete.truncate(UnwindStats::MAX_LAST_FRAMES);
                    UnwindStats {
                        process,
                        walked: complete + incomplete_count,
                        complete,
                        incomplete,
                    }
                },
            )
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ExecutableId;

    #[test]
    fn the_most_frequent_last_frames_are_kept() {
        let mut walks = UnwindTally::default();
        let process = ProcessIndex(1);
        walks.add_complete(process, 100);
        for number in 0..20 {
            let last_frame = LastFrame::Executable(ExecutableId(number));
            walks.add_incomplete(process, last_frame, 1 + u64::from(number));
        }
        walks.add_incomplete(process, LastFrame::NoFrame, 19);
        walks.add_complete(ProcessIndex(0), 3);
        let [first, second] = &walks.finish()[..] else {
            panic!("not two processes");
        };
        let of_first = (
            first.process,
            first.walked,
            first.complete,
            first.incomplete.len(),
        );
        assert_eq!(of_first, (ProcessIndex(0), 3, 3, 0));
        assert_eq!((second.walked, second.complete), (100 + 210 + 19, 100));
        assert_eq!(second.incomplete.len(), UnwindStats::MAX_LAST_FRAMES);
        assert_eq!(
            second.incomplete[..3],
            [
                (LastFrame::Executable(ExecutableId(19)), 20),
                (LastFrame::NoFrame, 19),
                (LastFrame::Executable(ExecutableId(18)), 19),
            ]
        );
    }
}
