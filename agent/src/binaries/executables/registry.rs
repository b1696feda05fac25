//! The executables that processes map, and which process maps which.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use agent_common::{limits::MAX_MAPPINGS, maps::Mapping};
use rustix::process::{Resource, getrlimit};

use super::{
    entries::{Entries, ExecutableCounts, Forgotten},
    executable::Executable,
    mapped_program::MappedProgram,
};
use crate::process::{self, maps};

/// Most open files; of further files only addresses are reported.
const MAX_OPEN: usize = 2048;

/// Most mappings of one process that are passed to the BPF programs.
const MAX_MAPPINGS_OF_PROCESS: usize = MAX_MAPPINGS as usize / 8;

/// The executables that processes have mapped. Clones are one registry.
///
/// Invariant: its lock is not held while a file or a process is read.
#[derive(Clone, Debug)]
pub struct Executables(Arc<Mutex<Entries>>);

/// What a process maps.
#[derive(Clone, Debug, Default)]
pub struct MappedExecutables {
    /// Its executable mappings, in the form that the BPF programs read.
    pub mappings: Vec<Mapping>,
    /// The user of the process; root's where it is not known.
    pub user: u32,
    /// The executables, which are not forgotten while this refers to them.
    executables: Vec<Arc<Executable>>,
}

impl Default for Executables {
    fn default() -> Self {
        // Half of the descriptors are left for everything else.
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let max_open = usize::try_from(descriptors / 2).unwrap_or(MAX_OPEN);
        Self(Arc::new(Mutex::new(Entries::new(max_open.min(MAX_OPEN)))))
    }
}

impl Executables {
    /// Reads the executable mappings of a program, and opens and numbers the files that are new.
    ///
    /// # Errors
    ///
    /// When its process has ended or its mappings may not be read.
    pub fn read_mappings<P: MappedProgram>(
        &self,
        program: &P,
    ) -> Result<MappedExecutables, process::Error> {
        let mappings = program.mappings()?;
        let mut found = MappedExecutables {
            user: program.user().unwrap_or_default(),
            ..MappedExecutables::default()
        };
        let is_executable = |mapping: &&maps::Mapping| mapping.permissions.execute;
        for mapping in mappings.iter().filter(is_executable) {
            if found.mappings.len() == MAX_MAPPINGS_OF_PROCESS {
                break;
            }
            let executable = self.number(program, mapping);
            found.executables.extend(executable.clone());
            let anonymous = Mapping {
                start: mapping.start,
                end: mapping.end,
                bias: 0,
                executable: Mapping::ANONYMOUS,
                table: 0,
            };
            let of_file = executable.filter(|executable| !executable.is_memory());
            found.mappings.push(match of_file {
                Some(executable) => Mapping {
                    bias: executable.bias(mapping),
                    executable: executable.number(),
                    table: executable.table(),
                    ..anonymous
                },
                None => anonymous,
            });
        }
        found
            .executables
            .sort_unstable_by_key(|executable| executable.number());
        found
            .executables
            .dedup_by_key(|executable| executable.number());
        Ok(found)
    }

    /// Sets what a process maps.
    pub fn set_process(&self, pid: u32, mapped: &MappedExecutables) {
        let executables = mapped.executables.iter();
        let numbers = executables.map(|executable| executable.number()).collect();
        self.entries().set_users(pid, numbers, Instant::now());
    }

    /// Adds a forked process, which maps the executables of its parent.
    pub fn add_forked(&self, pid: u32, parent: u32) {
        let mut entries = self.entries();
        let numbers = entries.of_process(parent).to_vec();
        if !numbers.is_empty() {
            entries.set_users(pid, numbers, Instant::now());
        }
    }

    /// Removes a process that has ended or runs another program.
    pub fn remove_process(&self, pid: u32) {
        self.entries().set_users(pid, Vec::new(), Instant::now());
    }

    /// The executable with this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<Arc<Executable>> {
        self.entries().get(number).cloned()
    }

    /// The executables that a process maps.
    #[must_use]
    pub fn of_process(&self, pid: u32) -> Vec<Arc<Executable>> {
        let entries = self.entries();
        let numbers = entries.of_process(pid).iter();
        numbers
            .filter_map(|number| entries.get(*number))
            .cloned()
            .collect()
    }

    /// Forgets the executables that no process has mapped since `unused_before`, except those of which
    /// `is_busy` says that something is done for them.
    #[must_use]
    pub fn forget(&self, unused_before: Instant, is_busy: impl Fn(u32) -> bool) -> Vec<Forgotten> {
        let removed = self.entries().forget(unused_before, is_busy);
        closed(removed)
    }

    /// Forgets the executables that were not mapped for the longest time where tables for more may be
    /// missing soon, as [`Self::forget`].
    #[must_use]
    pub fn forget_excess(&self, is_busy: impl Fn(u32) -> bool) -> Vec<Forgotten> {
        let removed = self.entries().forget_excess(Instant::now(), is_busy);
        closed(removed)
    }

    /// How many there are.
    #[must_use]
    pub fn counts(&self) -> ExecutableCounts {
        self.entries().counts()
    }

    /// Since when no process has an executable mapped.
    pub(super) fn unused_since(&self, number: u32) -> Option<Instant> {
        self.entries().unused_since(number)
    }

    /// Gives the executable of a mapping the number that it had when it was recorded.
    #[cfg(feature = "testing")]
    pub fn number_as_recorded<P: MappedProgram>(
        &self,
        number: u32,
        program: &P,
        mapping: &maps::Mapping,
    ) {
        self.entries().set_next_number(number);
        self.number(program, mapping);
    }

    /// The executable of a mapping; [`None`] where it has no file, or the tables are used up.
    fn number<P: MappedProgram>(
        &self,
        program: &P,
        mapping: &maps::Mapping,
    ) -> Option<Arc<Executable>> {
        let identity = program.executable_identity(mapping)?;
        let known = self.entries().find(identity, Instant::now());
        known.or_else(|| {
            // The lock is not held while files are closed either.
            let (closed, may_open) = self.entries().make_room();
            drop(closed);
            let executable = Executable::open(identity, program, mapping, may_open);
            let mut entries = self.entries();
            entries.insert(executable, !may_open, Instant::now())
        })
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was forgotten, once its files are closed.
fn closed(removed: Vec<(Forgotten, Arc<Executable>)>) -> Vec<Forgotten> {
    removed
        .into_iter()
        .map(|(forgotten, _)| forgotten)
        .collect()
}
