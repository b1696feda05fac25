//! Tasks as trees: those that nobody awaits, and below each task those that it waits for.
//!
//! Invariants: every task is in one place; tasks that wait for each other in a circle, which no tree has, are found; nothing
//! here recurses, since a chain of tasks may be as long as there are tasks.

use std::collections::HashMap;

use super::tasks::DumpedTask;

/// Trees of tasks, by indices.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Forest {
    pub(super) roots: Vec<usize>,
    /// The tasks below each task.
    pub(super) below: Vec<Vec<usize>>,
    /// Tasks each of which waits for the next one, and the last one for the first.
    pub(super) cycles: Vec<Vec<usize>>,
}

impl Forest {
    pub(super) fn new(tasks: &[DumpedTask]) -> Self {
        let indices: HashMap<&str, usize> =
            (0..).zip(tasks).map(|(nth, it)| (&*it.id, nth)).collect();
        let awaiters: Vec<Vec<usize>> = tasks
            .iter()
            .map(|task| {
                let ids = task.awaited_by.iter();
                ids.filter_map(|awaiter| indices.get(&*awaiter.id).copied())
                    .collect()
            })
            .collect();
        let mut awaited = vec![Vec::new(); tasks.len()];
        for (task, awaiters) in awaiters.iter().enumerate() {
            for awaiter in awaiters {
                if let Some(awaited) = awaited.get_mut(*awaiter) {
                    awaited.push(task);
                }
            }
        }
        let mut forest = Self {
            below: vec![Vec::new(); tasks.len()],
            ..Self::default()
        };
        let mut is_placed = vec![false; tasks.len()];
        for (task, awaiters) in awaiters.iter().enumerate() {
            if awaiters.is_empty() {
                forest.roots.push(task);
                is_placed[task] = true;
            }
        }
        forest.place(forest.roots.clone(), &awaited, &mut is_placed);
        for task in 0..tasks.len() {
            if !is_placed[task] {
                let cycle = cycle(task, &awaiters);
                let root = cycle.first().copied().unwrap_or(task);
                // It is another one if a cycle leads to this task.
                forest.cycles.push(cycle);
                forest.roots.push(root);
                is_placed[root] = true;
                forest.place(vec![root], &awaited, &mut is_placed);
            }
        }
        forest
    }

    /// Places the tasks below these, each below the first one that is reached.
    fn place(&mut self, mut level: Vec<usize>, awaited: &[Vec<usize>], is_placed: &mut [bool]) {
        while !level.is_empty() {
            let mut next = Vec::new();
            for task in level {
                for below in &awaited[task] {
                    if !is_placed[*below] {
                        is_placed[*below] = true;
                        self.below[task].push(*below);
                        next.push(*below);
                    }
                }
            }
            level = next;
        }
    }
}

/// The cycle to which the awaiters of a task lead, in the order of waiting.
fn cycle(task: usize, awaiters: &[Vec<usize>]) -> Vec<usize> {
    let mut at = HashMap::new();
    let mut path = Vec::new();
    let mut task = Some(task);
    while let Some(this) = task {
        if let Some(start) = at.insert(this, path.len()) {
            path.drain(..start);
            break;
        }
        path.push(this);
        task = awaiters[this].first().copied();
    }
    // Each one is awaited by the next one.
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::dump::tasks::fixtures::tasks;

    #[test]
    fn each_task_is_in_one_place() {
        // The third one has two awaiters, the fourth one is awaited by one that is not there.
        let forest = Forest::new(&tasks(&[&[], &[0], &[0, 1], &[9], &[2]]));
        assert_eq!(forest.roots, [0, 3]);
        assert_eq!(forest.below, [vec![1, 2], vec![], vec![4], vec![], vec![]]);
        assert!(forest.cycles.is_empty());
    }

    #[test]
    fn cycles_are_found() {
        // The first one is awaited by the second one, and so on; a fourth one is awaited by the first one.
        let forest = Forest::new(&tasks(&[&[1], &[2], &[0], &[0]]));
        assert_eq!(forest.cycles, [[2, 1, 0]]);
        assert_eq!(forest.roots, [2]);
        assert_eq!(forest.below, [vec![3], vec![0], vec![1], vec![]]);
        // One leads to a cycle of one.
        let forest = Forest::new(&tasks(&[&[1], &[1]]));
        assert_eq!((forest.cycles, forest.roots), (vec![vec![1]], vec![1]));
        assert_eq!(forest.below, [vec![], vec![0]]);
    }

    #[test]
    fn a_long_chain_has_a_place_for_each() {
        let awaiters: Vec<Vec<usize>> = (0..10_000_usize)
            .map(|nth| nth.checked_sub(1).into_iter().collect())
            .collect();
        let awaiters: Vec<&[usize]> = awaiters.iter().map(Vec::as_slice).collect();
        let forest = Forest::new(&tasks(&awaiters));
        assert_eq!(forest.roots, [0]);
        assert!((0..9_999).all(|nth| forest.below[nth] == [nth + 1]));
    }
}
