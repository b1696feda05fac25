//! Who holds the GIL while others wait for it.
//!
//! Invariant: that a thread holds the GIL is what the interpreter's own words say, never a guess from its
//! stack.

use std::collections::{HashMap, HashSet};

use crate::python::gil::Gil;

/// Who holds a GIL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// It is free: the next one is being woken.
    Nobody,
    /// The thread with this id.
    Thread(u32),
    /// A thread that the pass has not met, or the words could not be read.
    Unknown,
}

/// A wait for a GIL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GilWait {
    /// For which.
    pub(super) gil: Gil,
    /// Who had it then.
    pub(super) holder: HolderPointer,
    /// The pass that has seen this, before the stack of the waiting thread was proved.
    pub(super) pass: u64,
}

/// Who holds a GIL, by the thread pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HolderPointer {
    /// It is free.
    Nobody,
    /// The thread with this thread pointer.
    Thread(u64),
    /// It cannot be read.
    Unknown,
}

/// The holders of the GILs of the processes that a pass has read.
#[derive(Debug, Default)]
pub(super) struct GilHolders {
    /// By process.
    holders: HashMap<u32, Vec<(Gil, Holder)>>,
    /// The threads of these processes, by process and thread pointer.
    threads: HashMap<(u32, u64), u32>,
}

impl GilHolders {
    /// Of these processes, whose threads are `(process, thread pointer, thread)`.
    pub(super) fn of_processes(
        processes: &HashSet<u32>,
        threads: impl Iterator<Item = (u32, u64, u32)>,
    ) -> Self {
        Self {
            holders: HashMap::with_capacity(processes.len()),
            threads: threads
                .filter(|(process, ..)| processes.contains(process))
                .map(|(process, pointer, thread)| ((process, pointer), thread))
                .collect(),
        }
    }

    /// Adds the holders of the GILs of a process.
    pub(super) fn add(&mut self, process: u32, holders: &[(Gil, HolderPointer)]) {
        let holders = holders
            .iter()
            .map(|(gil, pointer)| (*gil, self.thread(process, *pointer)))
            .collect();
        self.holders.insert(process, holders);
    }

    /// Who holds the GIL of a process.
    pub(super) fn holder(&self, process: u32, gil: Gil) -> Holder {
        let holders = self.holders.get(&process);
        let found = holders.and_then(|holders| holders.iter().find(|(of, _)| *of == gil));
        found.map_or(Holder::Unknown, |(_, holder)| *holder)
    }

    /// The processes with a GIL, and who holds it.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, Holder)> {
        let processes = self.holders.iter();
        processes.flat_map(|(process, gils)| gils.iter().map(|(_, holder)| (*process, *holder)))
    }

    /// The thread of a process with this thread pointer.
    pub(super) fn thread(&self, process: u32, holder: HolderPointer) -> Holder {
        match holder {
            HolderPointer::Nobody => Holder::Nobody,
            HolderPointer::Unknown => Holder::Unknown,
            HolderPointer::Thread(pointer) => self
                .threads
                .get(&(process, pointer))
                .map_or(Holder::Unknown, |thread| Holder::Thread(*thread)),
        }
    }

    /// Whether a thread holds a GIL; [`None`] where that is not known, or there is none.
    pub(super) fn holds(&self, process: u32, thread: u32) -> Option<bool> {
        let holders = self.holders.get(&process)?;
        let holds = |(_, holder): &(Gil, Holder)| *holder == Holder::Thread(thread);
        if holders.iter().any(holds) {
            return Some(true);
        }
        let is_known = |(_, holder): &(Gil, Holder)| *holder != Holder::Unknown;
        (!holders.is_empty() && holders.iter().all(is_known)).then_some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders() -> GilHolders {
        let threads = [(1, 0x100, 11), (1, 0x200, 12), (2, 0x100, 21)];
        GilHolders::of_processes(&HashSet::from([1]), threads.into_iter())
    }

    #[test]
    fn a_holder_is_found_by_its_thread_pointer() {
        let mut holders = holders();
        let other = Gil::At(0x5000);
        let found = [
            (Gil::At(0x4000), HolderPointer::Thread(0x200)),
            (other, HolderPointer::Nobody),
        ];
        holders.add(1, &found);
        assert_eq!(holders.holder(1, Gil::At(0x4000)), Holder::Thread(12));
        assert_eq!(holders.holder(1, other), Holder::Nobody);
        assert_eq!(holders.holder(1, Gil::Only), Holder::Unknown);
        let all: Vec<_> = holders.all().collect();
        assert_eq!(all, [(1, Holder::Thread(12)), (1, Holder::Nobody)]);
        assert_eq!(holders.holds(1, 12), Some(true));
        assert_eq!(holders.holds(1, 11), Some(false));
        // Not read.
        assert_eq!(holders.holder(2, other), Holder::Unknown);
        assert_eq!(holders.holds(2, 21), None);
    }

    #[test]
    fn who_else_holds_it_is_not_known_where_one_holder_is_not() {
        let mut holders = holders();
        holders.add(
            1,
            &[
                (Gil::At(0x4000), HolderPointer::Thread(0x200)),
                (Gil::At(0x5000), HolderPointer::Thread(0x300)),
            ],
        );
        assert_eq!(holders.holds(1, 12), Some(true));
        assert_eq!(holders.holds(1, 11), None);
        assert_eq!(holders.holder(1, Gil::At(0x5000)), Holder::Unknown);
        // A process without a GIL.
        holders.add(1, &[]);
        assert_eq!(holders.holds(1, 12), None);
    }
}
