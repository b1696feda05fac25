//! The lists of tasks: circular, of nodes inside of the tasks, with links both ways.
//!
//! ```text
//! head ⇄ node ⇄ node ⇄ … ⇄ head
//! ```
//!
//! New tasks are linked in before the head, and a task that is done is taken out, with null as its links.
//!
//! Invariants: a task is taken over if the links from and to the one before it agree, and it is a task; where a list changes,
//! it is followed from the last node that still is in it. Steps are bounded, and no node is visited twice.

use std::collections::HashSet;

use agent_common::memory::{UserAddr, UserMemory};

use super::{super::structure::behind, objects::Objects};

/// Most tasks of a process.
pub(super) const MAX_TASKS: usize = 10_000;

/// Most steps along the lists of a process.
const MAX_STEPS: u32 = 200_000;

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

/// The tasks of all lists of a process.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) tasks: Vec<Listed>,
    /// Tasks that exceed the limit.
    pub(super) more: u64,
    /// Nodes that were left out.
    pub(super) inconsistent: u64,
    /// Whether a list was not followed to its end.
    pub(super) is_cut: bool,
    seen: HashSet<u64>,
    steps: u32,
}

impl Lists {
    /// Follows the list with this head.
    pub(super) fn follow<M: UserMemory>(
        &mut self,
        objects: &mut Objects<M>,
        head: UserAddr,
        thread: Option<usize>,
    ) {
        let node_at = objects.layout.asyncio.node;
        let (next_at, previous_at) = (objects.layout.node_next, objects.layout.node_previous);
        // Nodes that were in the list when they were visited.
        let mut path = vec![head];
        let mut failures = 0;
        while let Some(last) = path.last().copied() {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                self.is_cut = true;
                return;
            }
            let next = objects.memory.word(behind(last, next_at)).map(UserAddr);
            if next == Ok(head) {
                return;
            }
            let new = next.ok().filter(|it| it.could_be_structure());
            if let Some(node) = new {
                if self.seen.contains(&node.0) {
                    // A list that does not lead back to its head, or one that changes faster than it is read.
                    self.is_cut = true;
                    return;
                }
                let address = UserAddr(node.0.wrapping_sub(node_at));
                let task = objects.task(address);
                let previous = task.map(|task| task.word(node_at + previous_at));
                if previous == Some(last.0) {
                    failures = 0;
                    self.seen.insert(node.0);
                    path.push(node);
                    self.add(Listed { address, thread });
                    continue;
                }
            }
            let before = path.len().checked_sub(2).and_then(|nth| path.get(nth));
            if let Some(before) = before
                && objects.memory.word(behind(*before, next_at)) != Ok(last.0)
            {
                // The last one has left the list.
                path.pop();
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
            path.push(node);
        }
    }

    fn add(&mut self, task: Listed) {
        if self.tasks.len() < MAX_TASKS {
            self.tasks.push(task);
        } else {
            self.more += 1;
        }
    }
}
