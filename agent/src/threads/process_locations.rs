//! Where each profiled process has what passes read besides the stacks of its threads, as its examination has found out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::python::{gil::GilLocation, remote::tasks::TaskLocation};

/// Where a process has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessLocation {
    /// The words of its GIL.
    pub gil: GilLocation,
    /// Its tasks, if it has any that can be read.
    pub tasks: Option<TaskLocation>,
}

/// The locations by process. Clones are the same.
///
/// Invariant: the session that adds processes removes them when they end or run another program.
#[derive(Clone, Debug, Default)]
pub struct ProcessLocations(Arc<Mutex<HashMap<u32, ProcessLocation>>>);

impl ProcessLocations {
    /// Adds a process, or replaces what was known of it.
    pub fn set(&self, tgid: u32, location: ProcessLocation) {
        self.all().insert(tgid, location);
    }

    /// Adds a process that is a copy of another one.
    pub fn copy(&self, tgid: u32, original: u32) {
        let mut all = self.all();
        if let Some(location) = all.get(&original).copied() {
            all.insert(tgid, location);
        }
    }

    /// Removes a process.
    pub fn remove(&self, tgid: u32) {
        self.all().remove(&tgid);
    }

    /// That of a process.
    pub(super) fn get(&self, tgid: u32) -> ProcessLocation {
        self.all().get(&tgid).copied().unwrap_or_default()
    }

    /// The processes with tasks.
    pub(super) fn with_tasks(&self) -> Vec<u32> {
        let all = self.all();
        let with_tasks = all.iter().filter(|(_, location)| location.tasks.is_some());
        with_tasks.map(|(tgid, _)| *tgid).collect()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<u32, ProcessLocation>> {
        // It is consistent after every statement, so also after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
