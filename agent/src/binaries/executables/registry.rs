//! The executables that processes map, and which process maps which.

use std::{
    collections::{BTreeMap, HashMap},
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

/// The executables that processes have mapped.
#[derive(Debug, Default)]
pub struct Executables {
    /// The executables by number.
    by_number: BTreeMap<u32, Executable>,
    numbers: HashMap<Identity, u32>,
    /// The numbers of the executables that each process maps.
    processes: HashMap<u32, Vec<u32>>,
    last_number: u32,
    last_table: u32,
}

impl Executables {
    /// Reads the executable mappings of a process, in the form that the BPF programs read.
    ///
    /// # Errors
    ///
    /// When the process has ended or its mappings may not be read.
    pub fn read_mappings(&mut self, process: &Process) -> Result<Vec<Mapping>, process::Error> {
        let mappings = process.mappings()?;
        let mut found = Vec::new();
        let mut numbers = Vec::new();
        let is_executable = |mapping: &&maps::Mapping| mapping.permissions.execute;
        for mapping in mappings.iter().filter(is_executable) {
            if found.len() == MAX_MAPPINGS_OF_PROCESS {
                break;
            }
            let number = self.number(process, mapping);
            let executable = number
                .and_then(|number| self.by_number.get(&number))
                .filter(|executable| !executable.is_memory());
            let anonymous = Mapping {
                start: mapping.start,
                end: mapping.end,
                bias: 0,
                executable: Mapping::ANONYMOUS,
                table: 0,
            };
            found.push(match executable {
                Some(executable) => Mapping {
                    bias: executable.bias(mapping),
                    executable: executable.number(),
                    table: executable.table(),
                    ..anonymous
                },
                None => anonymous,
            });
            numbers.extend(number);
        }
        numbers.sort_unstable();
        numbers.dedup();
        self.set_users(process.pid(), numbers);
        Ok(found)
    }

    /// Adds a forked process, which maps the executables of its parent.
    pub fn add_forked(&mut self, pid: u32, parent: u32) {
        if let Some(numbers) = self.processes.get(&parent).cloned() {
            self.set_users(pid, numbers);
        }
    }

    /// Removes a process that has ended or runs another program.
    pub fn remove_process(&mut self, pid: u32) {
        self.set_users(pid, Vec::new());
    }

    /// The executable with this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&Executable> {
        self.by_number.get(&number)
    }

    /// The executables that a process maps.
    pub fn of_process(&self, pid: u32) -> impl Iterator<Item = &Executable> {
        let numbers = self.processes.get(&pid).map_or(&[][..], Vec::as_slice);
        numbers
            .iter()
            .filter_map(|number| self.by_number.get(number))
    }

    /// Sets the executables that a process maps.
    fn set_users(&mut self, pid: u32, numbers: Vec<u32>) {
        let now = Instant::now();
        for number in &numbers {
            if let Some(executable) = self.by_number.get_mut(number) {
                executable.add_user();
            }
        }
        let before = if numbers.is_empty() {
            self.processes.remove(&pid)
        } else {
            self.processes.insert(pid, numbers)
        };
        for number in before.unwrap_or_default() {
            if let Some(executable) = self.by_number.get_mut(&number) {
                executable.remove_user(now);
            }
        }
    }

    /// The number of the executable of a mapping; [`None`] where it has no file, or the tables are
    /// used up.
    fn number(&mut self, process: &Process, mapping: &maps::Mapping) -> Option<u32> {
        let identity = Identity::of(process, mapping)?;
        if let Some(number) = self.numbers.get(&identity) {
            return Some(*number);
        }
        let table = self.free_table()?;
        self.last_number += 1;
        let number = self.last_number;
        let may_open = self.by_number.len() < MAX_OPEN;
        let executable = Executable::open(number, table, identity, process, mapping, may_open);
        self.by_number.insert(number, executable);
        self.numbers.insert(identity, number);
        Some(number)
    }

    /// Gives the executable of a mapping the number that it had when it was recorded.
    #[cfg(feature = "testing")]
    pub fn number_as_recorded(&mut self, number: u32, process: &Process, mapping: &maps::Mapping) {
        self.last_number = number - 1;
        self.number(process, mapping);
    }

    /// An unused index of a table.
    fn free_table(&mut self) -> Option<u32> {
        (self.last_table < MAX_EXECUTABLES - 1).then(|| {
            self.last_table += 1;
            self.last_table
        })
    }
}
