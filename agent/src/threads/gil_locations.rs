//! Where the words of the GIL of each profiled process are, as its examination has found out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::python::gil::GilLocation;

/// The words of the GIL by process. Clones are the same.
///
/// Invariant: the session that adds processes removes them when they end or run another program.
#[derive(Clone, Debug, Default)]
pub struct GilLocations(Arc<Mutex<HashMap<u32, GilLocation>>>);

impl GilLocations {
    /// Adds a process, or replaces what was known of it.
    pub fn set(&self, tgid: u32, location: GilLocation) {
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

    /// The words of a process.
    pub(super) fn get(&self, tgid: u32) -> GilLocation {
        self.all().get(&tgid).copied().unwrap_or_default()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<u32, GilLocation>> {
        // It is consistent after every statement, so also after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
