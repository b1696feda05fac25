//! Symbolizes JIT code with what its compiler registers for debuggers.
//!
//! LLVM, and with it numba, registers each piece of code as an ELF file in memory, in a list to which
//! the variable `__jit_debug_descriptor` points:
//!
//! ```text
//! version: u32, action: u32, relevant entry, first entry ─► next, previous, address of a file, its size
//! ```
//!
//! See "JIT Interface" in GDB's documentation.
//!
//! Invariants: all of it is memory of another process, and may be anything: entries, files, functions
//! and names are bounded, a file is read only where the list says that it is, and once as long as it
//! stays there.

use std::{
    collections::{HashMap, HashSet},
    io,
};

use super::demangle;
use crate::{
    binaries::elf::{Elf, Placement, Source, Which},
    process::{Memory, Process, maps::Mapping},
};

/// The variable that leads to the list.
const DESCRIPTOR: &str = "__jit_debug_descriptor";

/// Its version.
const VERSION: u32 = 1;

/// Most files in which the variable is searched.
const MAX_SEARCHED: usize = 1 << 10;

/// Most entries of the list that are visited.
const MAX_ENTRIES: usize = 10_000;

/// Most bytes of a registered file.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Most functions of all registered files.
const MAX_FUNCTIONS: usize = 100_000;

/// Most bytes of their names.
const MAX_NAME_BYTES: usize = 16 << 20;

/// The functions that the JIT compilers of a process have registered.
#[derive(Debug, Default)]
pub(super) struct JitInterface {
    /// Start addresses of the mappings of files that were searched for the variable.
    searched: HashSet<u64>,
    /// Addresses of the variable: a process may have several compilers.
    descriptors: Vec<u64>,
    /// The functions of registered files.
    files: HashMap<RegisteredFile, Vec<JitFunction>>,
    /// The functions of all of them, by address.
    functions: Vec<JitFunction>,
}

/// A file in the memory of the process, and the entry that registers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RegisteredFile {
    entry: u64,
    start: u64,
    bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct JitFunction {
    start: u64,
    /// First address after it.
    end: u64,
    /// As in the symbol table.
    name: Vec<u8>,
}

/// Reads memory of the process.
trait ReadMemory {
    /// Fills `into` from `address`.
    fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()>;
}

impl ReadMemory for Memory {
    fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        Self::read(self, address, into).map_err(|_| io::ErrorKind::UnexpectedEof.into())
    }
}

impl JitInterface {
    /// Reads what is registered in `process`, which must be the same process in every call.
    pub(super) fn refresh(&mut self, process: &Process) {
        self.find_descriptors(process);
        if self.descriptors.is_empty() {
            return;
        }
        if let Ok(memory) = process.memory() {
            self.update(memory);
        }
    }

    /// The function at `address`, as of the last refresh.
    pub(super) fn find(&self, address: u64) -> Option<String> {
        let after = self
            .functions
            .partition_point(|function| function.start <= address);
        let function = self.functions[..after].last()?;
        (address < function.end).then(|| demangle::demangle(&function.name))
    }

    /// Searches mapped files that were not searched yet.
    fn find_descriptors(&mut self, process: &Process) {
        for mapping in process.mappings().unwrap_or_default() {
            let is_code = mapping.permissions.execute && mapping.file.is_some();
            if is_code && self.searched.len() < MAX_SEARCHED && self.searched.insert(mapping.start)
            {
                self.descriptors.extend(descriptor(process, &mapping));
            }
        }
    }

    /// Reads the lists.
    fn update(&mut self, memory: &impl ReadMemory) {
        let mut before = std::mem::take(&mut self.files);
        let (mut functions, mut name_bytes) = (0, 0);
        for file in registered(memory, &self.descriptors) {
            let known = before.remove(&file);
            let mut found = known.unwrap_or_else(|| functions_of(memory, file).unwrap_or_default());
            found.truncate(MAX_FUNCTIONS - functions);
            functions += found.len();
            name_bytes += found.iter().map(|found| found.name.len()).sum::<usize>();
            if name_bytes > MAX_NAME_BYTES {
                break;
            }
            self.files.insert(file, found);
        }
        self.functions = self.files.values().flatten().cloned().collect();
        self.functions.sort_unstable();
    }
}

/// The address of the variable in a mapped file.
fn descriptor(process: &Process, mapping: &Mapping) -> Option<u64> {
    let elf = Elf::read(process.open_mapped(mapping).ok()?).ok()?;
    let symbol = elf.symbol(DESCRIPTOR).ok()??;
    let bias = elf.segments().load_bias(Placement {
        start: mapping.start,
        file_offset: mapping.file_offset,
        is_executable: true,
    })?;
    Some(symbol.address.wrapping_add(bias))
}

/// The files in the lists.
fn registered(memory: &impl ReadMemory, descriptors: &[u64]) -> Vec<RegisteredFile> {
    let mut files = Vec::new();
    let mut visited = HashSet::new();
    for descriptor in descriptors {
        let mut head = [0; 24];
        if memory.read(*descriptor, &mut head).is_err() || !head.starts_with(&VERSION.to_le_bytes())
        {
            continue;
        }
        let mut entry = word(&head, 16);
        while entry != 0 && visited.len() < MAX_ENTRIES && visited.insert(entry) {
            let mut fields = [0; 32];
            if memory.read(entry, &mut fields).is_err() {
                break;
            }
            let file = RegisteredFile {
                entry,
                start: word(&fields, 16),
                bytes: word(&fields, 24),
            };
            if file.bytes <= MAX_FILE_BYTES {
                files.push(file);
            }
            entry = word(&fields, 0);
        }
    }
    files
}

/// The functions of a registered file.
fn functions_of(memory: &impl ReadMemory, file: RegisteredFile) -> Option<Vec<JitFunction>> {
    let elf = Elf::read(InMemory { memory, file }).ok()?;
    let table = elf.symbol_table(Which::All)?;
    let mut found = Vec::new();
    elf.functions(&table, |function| {
        if found.len() < MAX_FUNCTIONS {
            found.push(function);
        }
    })
    .ok()?;
    let functions = found.into_iter().filter_map(|function| {
        let end = function.address.checked_add(function.bytes)?;
        let name = elf.function_name(&table, function.name).ok()?;
        (end > function.address && !name.is_empty()).then_some(JitFunction {
            start: function.address,
            end,
            name,
        })
    });
    Some(functions.collect())
}

/// The bytes of a registered file.
struct InMemory<'a, M> {
    memory: &'a M,
    file: RegisteredFile,
}

impl<M: ReadMemory> Source for InMemory<'_, M> {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.bytes)
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.file.bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let address = self.file.start.checked_add(offset);
        let address = address.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.memory.read(address, into)
    }
}

/// The number at an offset.
fn word(bytes: &[u8], offset: usize) -> u64 {
    let word = bytes.get(offset..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests;
