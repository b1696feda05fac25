//! The time of processes for which there was no time in a pass, so that it is in a later one.

use std::{cmp::Reverse, collections::HashMap, mem};

/// Most time that a process has, in nanoseconds: of one that cannot be read for longer, it is not known.
const MAX_OWED_NS: u64 = 300_000_000_000;

/// The time of the tasks of each process that is in no sample yet.
#[derive(Debug, Default)]
pub(super) struct OwedTime(HashMap<u32, Owed>);

#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    time_ns: u64,
    /// Whether it could not be read the last time.
    is_last: bool,
}

impl OwedTime {
    /// Adds the time of a pass to that of these processes; others have ended.
    pub(super) fn add(&mut self, processes: &[u32], elapsed_ns: u64) {
        let before = mem::take(&mut self.0);
        let owed = processes.iter().map(|tgid| {
            let before = before.get(tgid).copied().unwrap_or_default();
            let time_ns = before.time_ns.saturating_add(elapsed_ns).min(MAX_OWED_NS);
            (*tgid, Owed { time_ns, ..before })
        });
        self.0 = owed.collect();
    }

    /// The processes, and how much time they have in nanoseconds: those with most of it first, and last those that could not
    /// be read.
    pub(super) fn ordered(&self) -> Vec<(u32, u64)> {
        let mut owed: Vec<_> = self.0.iter().collect();
        owed.sort_unstable_by_key(|(_, owed)| (owed.is_last, Reverse(owed.time_ns)));
        let owed = owed.into_iter();
        owed.map(|(tgid, owed)| (*tgid, owed.time_ns)).collect()
    }

    /// The time of a process is in samples.
    pub(super) fn pay(&mut self, tgid: u32) {
        if let Some(owed) = self.0.get_mut(&tgid) {
            *owed = Owed::default();
        }
    }

    /// A process could not be read.
    pub(super) fn put_last(&mut self, tgid: u32) {
        if let Some(owed) = self.0.get_mut(&tgid) {
            owed.is_last = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_kept_until_it_is_paid() {
        let mut owed = OwedTime::default();
        owed.add(&[1, 2, 3], 10);
        owed.pay(2);
        owed.pay(4);
        owed.add(&[1, 2], 5);
        // Another one has ended.
        assert_eq!(owed.ordered(), [(1, 15), (2, 5)]);
        owed.pay(1);
        owed.add(&[1, 2, 3], 1);
        assert_eq!(owed.ordered()[0], (2, 6));
        // One that cannot be read is not in the way of others, and keeps its time.
        owed.put_last(2);
        owed.add(&[1, 2], 1);
        assert_eq!(owed.ordered(), [(1, 2), (2, 7)]);
        owed.add(&[2], u64::MAX);
        assert_eq!(owed.ordered(), [(2, MAX_OWED_NS)]);
        owed.add(&[], 0);
        assert!(owed.ordered().is_empty());
    }
}
