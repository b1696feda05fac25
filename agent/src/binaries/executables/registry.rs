//! The executables that processes map, and which process maps which.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use agent_common::{
    limits::{MAX_EXECUTABLES, MAX_MAPPINGS},
    maps::Mapping,
};

use super::executable::{Executable, Identity};
use crate::process::{self, Process, maps};

/// Most open files; of further files only addresses are reported.
const MAX_OPEN: usize = 2048;

/// Most mappings of one process that are passed to the BPF programs.
const MAX_MAPPINGS_OF_PROCESS: usize = MAX_MAPPINGS as usize / 8;

/// The executables that processes have mapped. Clones are one registry.
///
/// Invariant: its lock is not held while a file or a process is read.
#[derive(Clone, Debug, Default)]
pub struct Executables(Arc<Mutex<Registry>>);

/// What a process maps.
#[derive(Clone, Debug, Default)]
pub struct MappedExecutables {
    /// Its executable mappings, in the form that the BPF programs read.
    pub mappings: Vec<Mapping>,
    /// The numbers of the executables.
    numbers: Vec<u32>,
}

#[derive(Debug, Default)]
struct Registry {
    by_number: BTreeMap<u32, Entry>,
    numbers: HashMap<Identity, u32>,
    /// The numbers of the executables that each process maps.
    processes: HashMap<u32, Vec<u32>>,
    last_number: u32,
    last_table: u32,
}

#[derive(Debug)]
struct Entry {
    executable: Arc<Executable>,
    /// Processes that have it mapped.
    users: u32,
    /// Since when no process has it mapped.
    unused_since: Option<Instant>,
}

impl Executables {
    /// Reads the executable mappings of a process, and opens and numbers the files that are new.
    ///
    /// # Errors
    ///
    /// When the process has ended or its mappings may not be read.
    pub fn read_mappings(&self, process: &Process) -> Result<MappedExecutables, process::Error> {
        let mappings = process.mappings()?;
        let mut found = MappedExecutables::default();
        let is_executable = |mapping: &&maps::Mapping| mapping.permissions.execute;
        for mapping in mappings.iter().filter(is_executable) {
            if found.mappings.len() == MAX_MAPPINGS_OF_PROCESS {
                break;
            }
            let executable = self.number(process, mapping);
            let number = executable.as_ref().map(|executable| executable.number());
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
            found.numbers.extend(number);
        }
        found.numbers.sort_unstable();
        found.numbers.dedup();
        Ok(found)
    }

    /// Sets what a process maps.
    pub fn set_process(&self, pid: u32, mapped: &MappedExecutables) {
        self.registry().set_users(pid, mapped.numbers.clone());
    }

    /// Adds a forked process, which maps the executables of its parent.
    pub fn add_forked(&self, pid: u32, parent: u32) {
        let mut registry = self.registry();
        if let Some(numbers) = registry.processes.get(&parent).cloned() {
            registry.set_users(pid, numbers);
        }
    }

    /// Removes a process that has ended or runs another program.
    pub fn remove_process(&self, pid: u32) {
        self.registry().set_users(pid, Vec::new());
    }

    /// The executable with this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<Arc<Executable>> {
        let registry = self.registry();
        let entry = registry.by_number.get(&number)?;
        Some(Arc::clone(&entry.executable))
    }

    /// The executables that a process maps.
    #[must_use]
    pub fn of_process(&self, pid: u32) -> Vec<Arc<Executable>> {
        let registry = self.registry();
        let numbers = registry.processes.get(&pid).map_or(&[][..], Vec::as_slice);
        let entries = numbers
            .iter()
            .filter_map(|number| registry.by_number.get(number));
        entries.map(|entry| Arc::clone(&entry.executable)).collect()
    }

    /// Since when no process has an executable mapped.
    pub(super) fn unused_since(&self, number: u32) -> Option<Instant> {
        self.registry().by_number.get(&number)?.unused_since
    }

    /// Gives the executable of a mapping the number that it had when it was recorded.
    #[cfg(feature = "testing")]
    pub fn number_as_recorded(&self, number: u32, process: &Process, mapping: &maps::Mapping) {
        self.registry().last_number = number - 1;
        self.number(process, mapping);
    }

    /// The executable of a mapping; [`None`] where it has no file, or the tables are used up.
    fn number(&self, process: &Process, mapping: &maps::Mapping) -> Option<Arc<Executable>> {
        let identity = Identity::of(process, mapping)?;
        let (known, may_open) = {
            let registry = self.registry();
            (registry.find(identity), registry.by_number.len() < MAX_OPEN)
        };
        known.or_else(|| {
            let executable = Executable::open(identity, process, mapping, may_open);
            self.registry().insert(executable)
        })
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    fn find(&self, identity: Identity) -> Option<Arc<Executable>> {
        let number = self.numbers.get(&identity)?;
        let entry = self.by_number.get(number)?;
        Some(Arc::clone(&entry.executable))
    }

    /// Adds an executable, unless another thread has meanwhile; [`None`] when no table is free.
    fn insert(&mut self, executable: Executable) -> Option<Arc<Executable>> {
        let identity = executable.identity();
        if let Some(known) = self.find(identity) {
            return Some(known);
        }
        let table = self.free_table()?;
        self.last_number += 1;
        let number = self.last_number;
        let executable = Arc::new(executable.with_number(number, table));
        let entry = Entry {
            executable: Arc::clone(&executable),
            users: 0,
            unused_since: None,
        };
        self.by_number.insert(number, entry);
        self.numbers.insert(identity, number);
        Some(executable)
    }

    /// Sets the executables that a process maps.
    fn set_users(&mut self, pid: u32, numbers: Vec<u32>) {
        let now = Instant::now();
        for number in &numbers {
            if let Some(entry) = self.by_number.get_mut(number) {
                entry.users += 1;
                entry.unused_since = None;
            }
        }
        let before = if numbers.is_empty() {
            self.processes.remove(&pid)
        } else {
            self.processes.insert(pid, numbers)
        };
        for number in before.unwrap_or_default() {
            if let Some(entry) = self.by_number.get_mut(&number) {
                entry.users = entry.users.saturating_sub(1);
                if entry.users == 0 {
                    entry.unused_since = Some(now);
                }
            }
        }
    }

    /// An unused index of a table.
    fn free_table(&mut self) -> Option<u32> {
        (self.last_table < MAX_EXECUTABLES - 1).then(|| {
            self.last_table += 1;
            self.last_table
        })
    }
}
