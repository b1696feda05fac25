//! Where probes are to be: functions in files, as the examinations of processes have found out.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tracing::warn;

use crate::{process::maps::FileId, python::ProbeSite};

/// Most places: each is an open file, and breakpoints in all processes that map it.
const MAX_PLACES: usize = 256;

/// Most processes with probes of their own. The kernel asks each of them at each call of the function in all others, which
/// takes some 0.1 µs; and to take the probes of one away takes a second.
const MAX_PROCESSES: usize = 16;

/// Most processes of a place of which one has to open the file.
const MAX_OPENERS: usize = 8;

/// A file with functions to which probes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// The file.
    file: FileId,
    /// For this process, or all that map the file.
    pub(super) process: Option<u32>,
}

/// Processes by whose mappings a file can be opened.
pub(super) type Openers = Vec<(u32, ProbeSite)>;

/// The places, by the processes that need them. Clones are the same.
///
/// Invariant: the session that adds processes removes them when they end or run another program.
#[derive(Clone, Debug)]
pub(in crate::session) struct ProbeSites(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Whether each process has a probe of its own, which no other one runs into.
    of_processes: bool,
    /// What is recorded, as in `exceptions are recorded`.
    subject: &'static str,
    sites: Mutex<Sites>,
}

#[derive(Debug, Default)]
struct Sites {
    processes: HashMap<u32, Vec<(Place, ProbeSite)>>,
    places: HashMap<Place, BTreeSet<u32>>,
    /// Whether a place has come or gone since it was last asked.
    has_changed: bool,
    /// Whether a process found no room.
    is_full: bool,
}

impl ProbeSites {
    /// Of processes that are known one by one, or of all that map a file; `subject` is what is recorded.
    pub(in crate::session) fn new(subject: &'static str, of_processes: bool) -> Self {
        Self(Arc::new(Shared {
            of_processes,
            subject,
            sites: Mutex::default(),
        }))
    }

    /// What is recorded, as in `exceptions are recorded`.
    pub(super) fn subject(&self) -> &'static str {
        self.0.subject
    }

    /// Adds a process, or replaces what was known of it; [`false`] where others have the probes that there may be.
    pub(in crate::session) fn set(&self, pid: u32, sites: &[ProbeSite]) -> bool {
        let places = sites.iter().filter_map(|site| {
            let file = site.mapping.file.as_ref()?;
            Some((self.place(pid, file.id), site.clone()))
        });
        let mut all = self.all();
        if !self.has_room(&all, pid) {
            return false;
        }
        all.set(pid, places.collect(), self.0.subject);
        true
    }

    /// Adds a process that is a copy of another one; [`false`] where that has probes and there is no room for more.
    pub(in crate::session) fn copy(&self, pid: u32, original: u32) -> bool {
        let mut all = self.all();
        let Some(mut places) = all.processes.get(&original).cloned() else {
            return true;
        };
        if !self.has_room(&all, pid) {
            return false;
        }
        for (place, _) in &mut places {
            *place = self.place(pid, place.file);
        }
        all.set(pid, places, self.0.subject);
        true
    }

    /// Whether a process can be added.
    fn has_room(&self, all: &Sites, pid: u32) -> bool {
        let is_full = all.processes.len() >= MAX_PROCESSES;
        !self.0.of_processes || !is_full || all.processes.contains_key(&pid)
    }

    fn place(&self, pid: u32, file: FileId) -> Place {
        Place {
            file,
            process: self.0.of_processes.then_some(pid),
        }
    }

    /// Removes a process.
    pub(in crate::session) fn remove(&self, pid: u32) {
        self.all().remove(pid);
    }

    /// All places with processes that open their files, if that has changed since the last call.
    pub(super) fn changed(&self) -> Option<Vec<(Place, Openers)>> {
        let mut all = self.all();
        if !std::mem::take(&mut all.has_changed) {
            return None;
        }
        let places = all.places.iter().map(|(place, users)| {
            let openers = users.iter().rev().take(MAX_OPENERS);
            let site_of = |pid: &u32| {
                let sites = all.processes.get(pid)?;
                let (_, site) = sites.iter().find(|(of, _)| of == place)?;
                Some((*pid, site.clone()))
            };
            (*place, openers.filter_map(site_of).collect())
        });
        Some(places.collect())
    }

    /// Some of the processes.
    pub(in crate::session) fn processes(&self, most: usize) -> Vec<u32> {
        self.all().processes.keys().copied().take(most).collect()
    }

    /// Has [`Self::changed`] return the places once more.
    pub(super) fn try_again(&self) {
        self.all().has_changed = true;
    }

    fn all(&self) -> MutexGuard<'_, Sites> {
        // It is consistent after every statement that may panic.
        self.0.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sites {
    fn set(&mut self, pid: u32, sites: Vec<(Place, ProbeSite)>, subject: &str) {
        self.remove(pid);
        for (place, site) in sites {
            if !self.places.contains_key(&place) {
                if self.places.len() >= MAX_PLACES {
                    if !std::mem::replace(&mut self.is_full, true) {
                        warn!(
                            "{subject} are recorded in {MAX_PLACES} files at most: those of process {pid} are not"
                        );
                    }
                    continue;
                }
                self.has_changed = true;
            }
            self.places.entry(place).or_default().insert(pid);
            self.processes.entry(pid).or_default().push((place, site));
        }
    }

    fn remove(&mut self, pid: u32) {
        for (place, _) in self.processes.remove(&pid).unwrap_or_default() {
            let Some(users) = self.places.get_mut(&place) else {
                continue;
            };
            users.remove(&pid);
            if users.is_empty() {
                self.places.remove(&place);
                self.has_changed = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        binaries::probe_points::{ProbePoint, ProbedFunction},
        process::maps::Mapping,
    };

    fn site(inode: u64) -> ProbeSite {
        let line = format!("7f00-7f80 r-xp 00001000 08:01 {inode} /usr/lib/libpython3.so");
        let mapping = Mapping::parse(line.as_bytes()).expect("a mapping");
        ProbeSite {
            mapping,
            points: vec![ProbePoint {
                function: ProbedFunction::Traceback,
                offset: 0x1010,
                announced: None,
            }],
        }
    }

    #[test]
    fn a_place_stays_as_long_as_a_process_needs_it() {
        let sites = ProbeSites::new("exceptions", false);
        assert!(sites.changed().is_none());
        sites.set(1, &[site(7)]);
        sites.set(2, &[site(7)]);
        sites.copy(3, 2);
        let places = sites.changed().expect("a new place");
        assert_eq!(places.len(), 1);
        assert_eq!(places[0].1.len(), 3);
        assert!(sites.changed().is_none());
        sites.remove(1);
        sites.remove(2);
        assert!(sites.changed().is_none());
        sites.set(3, &[site(8)]);
        let places = sites.changed().expect("another place");
        assert_eq!(places.len(), 1);
        assert_eq!(places[0].1[0].0, 3);
        sites.remove(3);
        assert!(sites.changed().expect("none").is_empty());
    }

    #[test]
    fn probes_of_processes_of_their_own_are_few() {
        for of_processes in [true, false] {
            let sites = ProbeSites::new("allocations", of_processes);
            let pids = 1..=u32::try_from(MAX_PROCESSES).unwrap();
            assert!(pids.clone().all(|pid| sites.set(pid, &[site(7)])));
            assert_eq!(sites.set(100, &[site(7)]), !of_processes);
            assert_eq!(sites.copy(101, 1), !of_processes);
            assert!(
                sites.copy(102, 100 + u32::from(of_processes) * 100),
                "it has none"
            );
            // One that has them keeps them, and one that ends makes room.
            assert!(sites.set(1, &[site(8)]));
            sites.remove(1);
            assert!(sites.set(100, &[site(7)]));
        }
    }

    #[test]
    fn processes_that_are_known_have_places_of_their_own() {
        let sites = ProbeSites::new("exceptions", true);
        sites.set(1, &[site(7)]);
        sites.set(2, &[site(7)]);
        assert_eq!(sites.changed().expect("places").len(), 2);
    }

    #[test]
    fn places_are_bounded() {
        let sites = ProbeSites::new("exceptions", false);
        for pid in 1..=300 {
            sites.set(pid, &[site(pid.into())]);
        }
        assert_eq!(sites.changed().expect("places").len(), MAX_PLACES);
        // There is room again.
        sites.remove(1);
        sites.set(300, &[site(300)]);
        assert!(sites.all().processes.contains_key(&300));
    }
}
