//! What code runs: executable files, each with a number, and where processes have mapped them.
//!
//! A file is known by its identity, so that all processes that map it share its number, its unwind
//! table and its symbols. Numbers are never used again: a stack that the kernel half has told of
//! keeps its meaning.
//!
//! Invariants: the file of a process is opened once, when it is first seen, and at most
//! [`MAX_OPEN`] are open; tables take at most [`MAX_TABLE_BYTES`] in the kernel; what nobody maps
//! any more gives way first.

mod bytes;
mod executable;
mod tables;
mod vdso;

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use agent_common::{
    limits::{MAX_EXECUTABLES, MAX_MAPPINGS},
    mappings::Mapping,
};

pub use bytes::Bytes;
pub use executable::Executable;
use executable::Identity;
pub use tables::{Compilation, Job, Loading, Tables};

use crate::process::{self, Process, maps};

/// Most files that are open at the same time; of more only the addresses are known.
const MAX_OPEN: usize = 2048;

/// Most bytes that unwind tables take in the kernel.
const MAX_TABLE_BYTES: usize = 40 << 20;

/// Most mappings of one process that are told to the kernel half.
const MAX_MAPPINGS_OF_PROCESS: usize = MAX_MAPPINGS as usize / 8;

/// All executable files that processes have mapped.
#[derive(Debug, Default)]
pub struct Executables {
    /// By their numbers, so the oldest first.
    executables: BTreeMap<u32, Executable>,
    numbers: HashMap<Identity, u32>,
    /// What each process has mapped.
    processes: HashMap<u32, Vec<u32>>,
    last_number: u32,
    free_tables: Vec<u32>,
    last_table: u32,
}

impl Executables {
    /// Looks at what a process has mapped executable, and gives that as the kernel half wants it.
    ///
    /// # Errors
    ///
    /// When the process has gone or may not be looked at.
    pub fn look(&mut self, process: &Process) -> Result<Vec<Mapping>, process::Error> {
        let mappings = process.mappings()?;
        let mut known = Vec::new();
        let mut numbers = Vec::new();
        let executable = |mapping: &&maps::Mapping| mapping.permissions.execute;
        for mapping in mappings.iter().filter(executable) {
            if known.len() == MAX_MAPPINGS_OF_PROCESS {
                break;
            }
            let number = self.number(process, mapping);
            let executable = number
                .and_then(|number| self.executables.get(&number))
                .filter(|executable| !executable.is_memory());
            let anonymous = Mapping {
                start: mapping.start,
                end: mapping.end,
                bias: 0,
                executable: Mapping::ANONYMOUS,
                table: 0,
            };
            known.push(match executable {
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
        Ok(known)
    }

    /// Takes notice of a process that was forked, and maps what its parent does.
    pub fn share(&mut self, pid: u32, parent: u32) {
        if let Some(numbers) = self.processes.get(&parent).cloned() {
            self.set_users(pid, numbers);
        }
    }

    /// Takes notice of a process that has ended or runs another program.
    pub fn forget(&mut self, pid: u32) {
        self.set_users(pid, Vec::new());
    }

    /// The file with this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&Executable> {
        self.executables.get(&number)
    }

    /// The files that a process has mapped.
    pub fn of_process(&self, pid: u32) -> impl Iterator<Item = &Executable> {
        let numbers = self.processes.get(&pid).map_or(&[][..], Vec::as_slice);
        numbers
            .iter()
            .filter_map(|number| self.executables.get(number))
    }

    /// Says what a process maps.
    fn set_users(&mut self, pid: u32, numbers: Vec<u32>) {
        let now = Instant::now();
        for number in &numbers {
            if let Some(executable) = self.executables.get_mut(number) {
                executable.add_user();
            }
        }
        let before = if numbers.is_empty() {
            self.processes.remove(&pid)
        } else {
            self.processes.insert(pid, numbers)
        };
        for number in before.unwrap_or_default() {
            if let Some(executable) = self.executables.get_mut(&number) {
                executable.remove_user(now);
            }
        }
    }

    /// The number of the file of a mapping; [`None`] where there is no file, or too many are known.
    fn number(&mut self, process: &Process, mapping: &maps::Mapping) -> Option<u32> {
        let identity = Identity::of(process, mapping)?;
        if let Some(number) = self.numbers.get(&identity) {
            return Some(*number);
        }
        let table = self.free_table()?;
        self.last_number += 1;
        let number = self.last_number;
        let may_open = self.executables.len() < MAX_OPEN;
        let executable = Executable::open(number, table, identity, process, mapping, may_open);
        self.executables.insert(number, executable);
        self.numbers.insert(identity, number);
        Some(number)
    }

    /// Gives the file of a mapping the number that it had when it was recorded.
    #[cfg(feature = "testing")]
    pub fn number_as_recorded(&mut self, number: u32, process: &Process, mapping: &maps::Mapping) {
        self.last_number = number - 1;
        self.number(process, mapping);
    }

    /// The index of a table that nobody uses.
    fn free_table(&mut self) -> Option<u32> {
        if let Some(table) = self.free_tables.pop() {
            return Some(table);
        }
        (self.last_table < MAX_EXECUTABLES - 1).then(|| {
            self.last_table += 1;
            self.last_table
        })
    }

    /// Forgets the files that no process has mapped since `before`; gives the indices of their
    /// tables.
    pub fn forget_unused(&mut self, before: Instant) -> Vec<u32> {
        let is_unused = |executable: &Executable| {
            executable
                .unused_since()
                .is_some_and(|since| since < before)
        };
        let unused: Vec<u32> = self
            .executables
            .values()
            .filter(|executable| is_unused(executable))
            .map(Executable::number)
            .collect();
        let mut tables = Vec::new();
        for number in unused {
            if let Some(executable) = self.executables.remove(&number) {
                self.numbers.remove(&executable.identity());
                tables.push(executable.table());
            }
        }
        self.free_tables.extend(&tables);
        tables
    }
}
