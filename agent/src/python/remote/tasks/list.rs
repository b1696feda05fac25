//! The lists of tasks: circular, of nodes inside of the tasks, with links both ways.
//!
//! ```text
//! head ⇄ node ⇄ node ⇄ … ⇄ head
//! ```
//!
//! New tasks are linked in before the head, and a task that is done is taken out, with null as its links.
//!
//! Invariants: a task is taken over if the links from and to the one before it agree, and it is a task; where a list changes,
//! it is followed from the last node that still is in it. Steps and time are bounded, and no task is found twice.

use std::{mem, time::Instant};

use agent_common::memory::{UserAddr, UserMemory};
use foldhash::{HashMap, HashSet};

use super::{super::structure::behind, objects::Objects};

/// Most steps along the lists of a process.
const MAX_STEPS: u32 = 200_000;

/// Steps after which it is looked at the time.
const STEPS_AT_ONCE: u32 = 64;

/// Steps to one node that fail before it is left out.
const ATTEMPTS: u32 = 4;

/// A task in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// The address of the task.
    pub(super) address: UserAddr,
    /// The thread that created it, an index; [`None`] where that has ended.
    pub(super) thread: Option<usize>,
}

/// Which tasks are kept, where there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// The first ones that are found.
    First,
    /// Any, each with the same chance.
    Random,
}

/// The tasks of all lists of a process.
pub(super) struct Lists {
    pub(super) tasks: Vec<Listed>,
    /// Tasks that exceed the limit.
    pub(super) more: u64,
    /// Nodes that were left out.
    pub(super) inconsistent: u64,
    /// Whether a list was not followed to its end.
    pub(super) is_cut: bool,
    keep: Keep,
    /// Most tasks that are kept.
    most: usize,
    /// When following ends.
    deadline: Instant,
    /// Whether the newest tasks come first.
    is_reversed: bool,
    seen: HashSet<u64>,
    steps: u32,
}

impl Lists {
    /// Without tasks yet, of which `most` are kept.
    pub(super) fn new(keep: Keep, most: usize, deadline: Instant) -> Self {
        Self {
            tasks: Vec::new(),
            more: 0,
            inconsistent: 0,
            is_cut: false,
            keep,
            most,
            deadline,
            // Those for which there is no time should not always be the same ones.
            is_reversed: keep == Keep::Random && fastrand::bool(),
            seen: HashSet::default(),
            steps: 0,
        }
    }

    /// All tasks that were found.
    pub(super) fn count(&self) -> u64 {
        self.tasks.len() as u64 + self.more
    }

    /// Follows the list with this head. `refresh` has the memory at some addresses read again.
    pub(super) fn follow<M: UserMemory>(
        &mut self,
        objects: &mut Objects<M>,
        head: UserAddr,
        thread: Option<usize>,
        refresh: impl Fn(&[UserAddr]),
    ) {
        let node_at = objects.layout.asyncio.node;
        let mut next_at = objects.layout.node_next;
        let mut previous_at = objects.layout.node_previous;
        if self.is_reversed {
            mem::swap(&mut next_at, &mut previous_at);
        }
        // The nodes from the head on that were in the list when they were visited: the one before each of them.
        let mut before_nodes: HashMap<UserAddr, UserAddr> = HashMap::default();
        let mut last = head;
        let mut failures = 0;
        loop {
            self.steps += 1;
            let has_no_time =
                self.steps.is_multiple_of(STEPS_AT_ONCE) && Instant::now() >= self.deadline;
            if self.steps > MAX_STEPS || has_no_time {
                self.is_cut = true;
                return;
            }
            let next = objects.memory.word(behind(last, next_at)).map(UserAddr);
            if next == Ok(head) {
                return;
            }
            let new = next.ok().filter(|it| it.could_be_structure());
            let address = new.map(|node| UserAddr(node.0.wrapping_sub(node_at)));
            if let Some((node, address)) = new.zip(address) {
                if let Some(before) = before_nodes.get(&node) {
                    // A new task at the address of one that has ended comes last; else the list does not lead back to
                    // its head, or it changes faster than it is read.
                    refresh(&[*before]);
                    let is_same = objects.memory.word(behind(*before, next_at)) == Ok(node.0);
                    self.is_cut |= is_same;
                    return;
                }
                let task = objects.task(address);
                let previous = task.map(|task| task.word(node_at + previous_at));
                if previous == Some(last.0) {
                    failures = 0;
                    before_nodes.insert(node, last);
                    last = node;
                    if self.seen.insert(node.0) {
                        self.add(Listed { address, thread });
                    }
                    continue;
                }
            }
            // The list has changed between reading one part of it and another: the last ones may have left it.
            let [node, task] = [new, address].map(|it| it.unwrap_or(last));
            refresh(&[last, node, task]);
            let visited = last;
            while let Some(before) = before_nodes.get(&last).copied() {
                refresh(&[before]);
                if objects.memory.word(behind(before, next_at)) == Ok(last.0) {
                    break;
                }
                before_nodes.remove(&last);
                last = before;
            }
            if last != visited {
                failures = 0;
                continue;
            }
            failures += 1;
            if failures < ATTEMPTS {
                continue;
            }
            // The list is not as it should be.
            failures = 0;
            let Some(node) = new else {
                self.is_cut = true;
                return;
            };
            self.inconsistent += 1;
            self.seen.insert(node.0);
            before_nodes.insert(node, last);
            last = node;
        }
    }

    fn add(&mut self, task: Listed) {
        if self.tasks.len() < self.most {
            self.tasks.push(task);
            return;
        }
        self.more += 1;
        if self.keep == Keep::Random {
            let place = usize::try_from(fastrand::u64(..self.count())).unwrap_or(usize::MAX);
            if let Some(place) = self.tasks.get_mut(place) {
                *place = task;
            }
        }
    }
}
