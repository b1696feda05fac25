//! The tasks that await a task, also by futures: those of `asyncio.gather` stand between them.
//!
//! Invariant: objects that are visited are bounded, for one task and for all.

use std::collections::{HashMap, HashSet, VecDeque};

use agent_common::memory::{UserAddr, UserMemory};

use super::{super::structure::Structure, objects::Objects, task::Awaiter};

/// Most objects that are visited for one task.
const MAX_OBJECTS: usize = 10_000;

/// Most objects that are visited for all tasks of a process.
const MAX_ALL: usize = 200_000;

/// Finds the tasks that await others.
#[derive(Default)]
pub(super) struct Awaiters {
    visited: usize,
    names: HashMap<u64, Option<String>>,
}

impl Awaiters {
    /// Whether some were left out because there are so many.
    pub(super) fn is_cut(&self) -> bool {
        self.visited >= MAX_ALL
    }

    /// The tasks that await this one.
    pub(super) fn of<M: UserMemory>(
        &mut self,
        objects: &mut Objects<M>,
        task: &Structure,
    ) -> Vec<Awaiter> {
        let mut left: VecDeque<UserAddr> = objects.awaiters(task, MAX_OBJECTS).into();
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        while let Some(address) = left.pop_front() {
            if seen.len() == MAX_OBJECTS || self.is_cut() {
                break;
            }
            if !seen.insert(address) {
                continue;
            }
            self.visited += 1;
            let Some(future) = objects.future(address) else {
                continue;
            };
            if future.byte(objects.layout.asyncio.is_task) == 0 {
                left.extend(objects.awaiters(&future, MAX_OBJECTS));
            } else if let Some(name) = self.name(objects, address) {
                let address = address.0;
                found.push(Awaiter { address, name });
            }
        }
        found
    }

    fn name<M: UserMemory>(
        &mut self,
        objects: &mut Objects<M>,
        address: UserAddr,
    ) -> Option<String> {
        let name = self.names.entry(address.0);
        let read = || {
            let task = objects.task(address)?;
            objects.name(&task)
        };
        name.or_insert_with(read).clone()
    }
}
