//! Which tasks of asyncio a profile names.
//!
//! A program may have any number of tasks with names of their own. A profile has the names of those with the largest
//! values; the others are one.

use std::cmp::Reverse;

use foldhash::{HashMap, HashSet};

/// Most names of tasks in a profile, besides the one for all others.
const MAX_TASKS: usize = 1000;

/// Stands for the tasks that are not named.
pub(super) const OTHER_TASKS: &str = "[other tasks]";

/// The tasks that a profile names, by the hashes of their names.
pub(super) struct ShownTasks {
    /// [`None`] for all of them.
    named: Option<HashSet<u64>>,
}

impl ShownTasks {
    /// Of samples: the hash of a task's name, 0 for none, and what the samples measured.
    pub(super) fn of(samples: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut values = HashMap::<u64, u64>::default();
        for (task, value) in samples.filter(|(task, _)| *task != 0) {
            let sum = values.entry(task).or_default();
            *sum = sum.saturating_add(value);
        }
        if values.len() <= MAX_TASKS {
            return Self { named: None };
        }
        let mut tasks: Vec<_> = values.into_iter().collect();
        tasks.sort_unstable_by_key(|&(task, value)| (Reverse(value), task));
        tasks.truncate(MAX_TASKS);
        Self {
            named: Some(tasks.into_iter().map(|(task, _)| task).collect()),
        }
    }

    /// The name of a task; [`None`] for none, or where its name was lost.
    pub(super) fn name<'a>(
        &self,
        task: u64,
        name: impl FnOnce(u64) -> Option<&'a String>,
    ) -> Option<&'a str> {
        if task == 0 {
            return None;
        }
        let is_named = self
            .named
            .as_ref()
            .is_none_or(|named| named.contains(&task));
        if is_named {
            name(task).map(String::as_str)
        } else {
            Some(OTHER_TASKS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_with_the_largest_values_are_named() {
        let name = "a".to_owned();
        let many = MAX_TASKS as u64 + 5;
        let tasks = ShownTasks::of((1..=many).map(|task| (task, task)));
        for (task, shown) in [
            (0, None),
            (5, Some(OTHER_TASKS)),
            (6, Some("a")),
            (many, Some("a")),
        ] {
            assert_eq!(tasks.name(task, |_| Some(&name)), shown, "{task}");
        }
        let few = ShownTasks::of((0..=many - 5).map(|task| (task, 0)));
        assert_eq!(few.name(1, |_| Some(&name)), Some("a"));
        assert_eq!(few.name(1, |_| None), None);
    }
}
