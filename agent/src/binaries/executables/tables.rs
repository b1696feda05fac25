//! The unwind tables of executables: compiled on other threads, then passed to the BPF programs.

use std::{collections::HashMap, mem, sync::Arc, time::Instant};

use agent_common::unwind::Rule;

use super::{bytes::Bytes, executable::Executable, registry::Executables};
use crate::binaries::{
    elf::{self, Elf},
    unwind::{self, CodeMark, Compiled, PackedTable, SharedRules, compile, pack},
};
use crate::workers::Subject;

/// Most bytes of kernel memory for unwind tables: those of all libraries of TensorFlow take 44 MB, of which one takes 18.
const MAX_TABLE_BYTES: usize = 64 << 20;

/// Most bytes of the table of one executable, so that none takes all of that.
const MAX_BYTES_OF_TABLE: usize = MAX_TABLE_BYTES / 2;

/// Finds the code in a file that its call-frame information does not describe as it is.
pub type FindMarks = fn(&Elf<Arc<Bytes>>) -> Result<Vec<CodeMark>, elf::Error>;

/// The unwind tables of all executables.
#[derive(Debug)]
pub struct TableSet {
    find_marks: FindMarks,
    rules: SharedRules,
    /// By the numbers of the executables.
    states: HashMap<u32, State>,
    /// Bytes of the loaded tables in the kernel.
    bytes: usize,
    /// Times that a table found no room.
    left_out: u64,
}

/// The state of an executable's table.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Compiling {
        /// Whether a sample needs it.
        is_wanted: bool,
    },
    /// It is large and was not needed yet.
    Left,
    /// It is being loaded into the kernel.
    Loading(Size),
    /// It is in the kernel.
    Loaded(Size),
    /// There was no room for so many bytes.
    NoRoom(usize),
    /// There is no table, or it cannot be loaded.
    None,
}

/// What a table takes in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Size {
    bytes: usize,
    /// The indices of its rules.
    rules: Box<[u16]>,
}

/// A table that is to be compiled, on any thread.
#[derive(Debug)]
pub struct CompileJob {
    number: u32,
    table: u32,
    bytes: Arc<Bytes>,
    find_marks: FindMarks,
    /// Most bytes of call-frame information of a table that no sample needs yet: a larger one is left until then.
    /// [`None`] where a sample needs it.
    most_bytes: Option<u64>,
    /// The file, for the worker threads.
    subject: Subject,
}

/// What is to be done so that a sample's table is there.
#[derive(Debug)]
pub enum TableRequest {
    /// The table is to be compiled.
    Compile(CompileJob),
    /// It is being compiled, or waits for that behind those that no sample needs.
    Hasten(Subject),
}

/// The result of a [`CompileJob`].
#[derive(Debug)]
pub struct Compilation {
    number: u32,
    table: u32,
    result: CompilationResult,
}

#[derive(Debug)]
enum CompilationResult {
    Compiled(Compiled),
    /// It is large, and no sample needed it when the job began.
    Left,
    /// There is none, or it takes too long to read.
    None,
}

/// A table that is to be loaded; [`TableSet::end_loading`] ends that.
#[derive(Debug)]
pub struct NewTable {
    /// The number of the executable.
    pub executable: u32,
    /// The index of the table.
    pub index: u32,
    /// The table.
    pub table: PackedTable,
}

/// Changes that are to be made in the BPF maps.
#[derive(Debug, Default)]
pub struct TableUpdate {
    /// New rules, with their indices.
    pub rules: Vec<(u16, Rule)>,
    /// New tables.
    pub tables: Vec<NewTable>,
    /// Indices of executables without a table.
    pub without_table: Vec<u32>,
    /// Indices of tables that were evicted.
    pub unloaded: Vec<u32>,
    /// Tables that are to be compiled after all.
    pub jobs: Vec<CompileJob>,
}

impl CompileJob {
    /// The file, for the worker threads.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Whether a sample needs the table.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.most_bytes.is_none()
    }

    /// What takes its place when it does not end.
    #[must_use]
    pub fn without_result(&self) -> Compilation {
        Compilation {
            number: self.number,
            table: self.table,
            result: CompilationResult::None,
        }
    }

    /// Compiles the table, which takes up to a second for the largest files.
    #[must_use]
    pub fn run(self) -> Compilation {
        Compilation {
            number: self.number,
            table: self.table,
            result: compile_file(self.bytes, self.find_marks, self.most_bytes)
                .unwrap_or(CompilationResult::None),
        }
    }
}

fn compile_file(
    bytes: Arc<Bytes>,
    find_marks: FindMarks,
    most_bytes: Option<u64>,
) -> Result<CompilationResult, unwind::Error> {
    let elf = Elf::read(bytes)?;
    if let Some(most) = most_bytes {
        let bytes = elf.section(".eh_frame").map_or(0, |section| section.bytes);
        if bytes.max(elf.go_table_bytes()) > most {
            return Ok(CompilationResult::Left);
        }
    }
    let compiled = compile_with_marks(&elf, find_marks)?;
    Ok(compiled.map_or(CompilationResult::None, CompilationResult::Compiled))
}

/// Compiles the table of a file, with the marks that are found in it; [`None`] where it has none: without one, walks follow
/// frame pointers.
///
/// # Errors
///
/// As for [`compile`].
pub fn compile_with_marks(
    elf: &Elf<Arc<Bytes>>,
    find_marks: FindMarks,
) -> Result<Option<Compiled>, unwind::Error> {
    let marks = find_marks(elf)?;
    let compiled = compile(elf, &marks)?;
    Ok(Some(compiled).filter(|compiled| compiled.rows().len() != 0))
}

impl TableSet {
    /// No tables. Rules in the code that `find_marks` finds are marked.
    #[must_use]
    pub fn new(find_marks: FindMarks) -> Self {
        Self {
            find_marks,
            rules: SharedRules::default(),
            states: HashMap::new(),
            bytes: 0,
            left_out: 0,
        }
    }

    /// Times that a table found no room.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Rules of tables that found no room: the walk ends where they would apply.
    #[must_use]
    pub fn rules_left_out(&self) -> u64 {
        self.rules.left_out()
    }

    /// Requests the table of an executable, which a sample needs; [`None`] where that was done before,
    /// the file cannot be read, or there is still no room.
    pub fn request(
        &mut self,
        executables: &Executables,
        executable: &Executable,
    ) -> Option<TableRequest> {
        match self.states.get_mut(&executable.number()) {
            Some(State::Compiling { is_wanted }) if !*is_wanted => {
                *is_wanted = true;
                return Some(TableRequest::Hasten(executable.subject()));
            }
            Some(State::Compiling { .. } | State::Loading(_) | State::Loaded(_) | State::None) => {
                return None;
            }
            Some(&mut State::NoRoom(bytes)) => {
                if !self.has_room(executables, bytes) {
                    return None;
                }
            }
            Some(State::Left) | None => {}
        }
        self.begin(executable, None).map(TableRequest::Compile)
    }

    /// As [`Self::request`], before a sample needs it, and only for an executable with at most so many bytes of
    /// call-frame information.
    pub fn request_ahead(
        &mut self,
        executable: &Executable,
        most_bytes: u64,
    ) -> Option<CompileJob> {
        let is_new = !self.states.contains_key(&executable.number());
        is_new.then(|| self.begin(executable, Some(most_bytes)))?
    }

    fn begin(&mut self, executable: &Executable, most_bytes: Option<u64>) -> Option<CompileJob> {
        let number = executable.number();
        let Some(bytes) = executable.bytes() else {
            self.states.insert(number, State::None);
            return None;
        };
        let is_wanted = most_bytes.is_none();
        self.states.insert(number, State::Compiling { is_wanted });
        Some(CompileJob {
            number,
            table: executable.table(),
            bytes: Arc::clone(bytes),
            find_marks: self.find_marks,
            most_bytes,
            subject: executable.subject(),
        })
    }

    /// Packs compiled tables; returns the changes to be made in the BPF maps. Where there is no room
    /// for a table, tables of executables that no process maps are evicted.
    pub fn accept(
        &mut self,
        executables: &Executables,
        compilations: impl IntoIterator<Item = Compilation>,
    ) -> TableUpdate {
        let mut update = TableUpdate::default();
        for compilation in compilations {
            // A table that is no longer requested is dropped.
            let Some(State::Compiling { is_wanted }) = self.states.get(&compilation.number) else {
                continue;
            };
            let compiled = match compilation.result {
                CompilationResult::Compiled(compiled) => compiled,
                CompilationResult::None => {
                    // Without a table the walk follows frame pointers.
                    update.without_table.push(compilation.table);
                    self.states.insert(compilation.number, State::None);
                    continue;
                }
                CompilationResult::Left => {
                    let is_wanted = *is_wanted;
                    self.states.insert(compilation.number, State::Left);
                    if is_wanted && let Some(executable) = executables.get(compilation.number) {
                        update.jobs.extend(self.begin(&executable, None));
                    }
                    continue;
                }
            };
            let rules = self.rules.add(compiled.rules(), Instant::now());
            let table = pack(&compiled, &rules);
            let size = Size {
                bytes: table.words.len() * 4,
                rules,
            };
            update
                .unloaded
                .extend(self.make_room(executables, size.bytes));
            let state = if self.fits(size.bytes) {
                self.bytes += size.bytes;
                update.tables.push(NewTable {
                    executable: compilation.number,
                    index: compilation.table,
                    table,
                });
                State::Loading(size)
            } else {
                // It has a table, so frame pointers would be wrong.
                self.rules.release(&size.rules, Instant::now());
                self.left_out += 1;
                State::NoRoom(size.bytes)
            };
            self.states.insert(compilation.number, state);
        }
        update.rules = self.rules.take_added();
        update
    }

    /// Ends the loading of the tables of some executables; without `is_loaded` they take no room.
    pub fn end_loading(&mut self, executables: &[u32], is_loaded: bool) {
        for number in executables {
            let Some(state) = self.states.get_mut(number) else {
                continue;
            };
            match mem::replace(state, State::None) {
                State::Loading(size) if is_loaded => *state = State::Loaded(size),
                State::Loading(size) => {
                    self.bytes -= size.bytes;
                    self.rules.release(&size.rules, Instant::now());
                }
                other => *state = other,
            }
        }
    }

    /// Whether the table of an executable is being compiled or loaded.
    #[must_use]
    pub fn is_busy(&self, number: u32) -> bool {
        matches!(
            self.states.get(&number),
            Some(State::Compiling { .. } | State::Loading(_))
        )
    }

    /// Forgets an executable; its table is to be unloaded.
    pub fn forget(&mut self, number: u32) {
        self.evict(number);
    }

    /// Evicts tables of executables that no process maps, the longest unused first, until there is
    /// room for `bytes`; returns their indices.
    fn make_room(&mut self, executables: &Executables, bytes: usize) -> Vec<u32> {
        let mut unloaded = Vec::new();
        if !self.has_room(executables, bytes) {
            return unloaded;
        }
        for executable in self.unused(executables) {
            if self.fits(bytes) {
                break;
            }
            self.evict(executable.number());
            unloaded.push(executable.table());
        }
        unloaded
    }

    /// Whether there is room for `bytes` now.
    fn fits(&self, bytes: usize) -> bool {
        bytes <= MAX_BYTES_OF_TABLE && self.bytes + bytes <= MAX_TABLE_BYTES
    }

    /// Whether there is room for `bytes`, or can be made.
    fn has_room(&self, executables: &Executables, bytes: usize) -> bool {
        if bytes > MAX_BYTES_OF_TABLE {
            return false;
        }
        if self.fits(bytes) {
            return true;
        }
        let bytes_of = |executable: &Arc<Executable>| match self.states.get(&executable.number()) {
            Some(State::Loaded(size)) => size.bytes,
            _ => 0,
        };
        let unused: usize = self.unused(executables).iter().map(bytes_of).sum();
        self.bytes - unused + bytes <= MAX_TABLE_BYTES
    }

    /// The executables with loaded tables that no process maps, the longest unused first.
    fn unused(&self, executables: &Executables) -> Vec<Arc<Executable>> {
        let mut unused: Vec<_> = self
            .states
            .iter()
            .filter(|(_, state)| matches!(state, State::Loaded(_)))
            .filter_map(|(number, _)| executables.get(*number))
            .filter_map(|executable| {
                Some((executables.unused_since(executable.number())?, executable))
            })
            .collect();
        unused.sort_unstable_by_key(|(since, executable)| (*since, executable.number()));
        unused
            .into_iter()
            .map(|(_, executable)| executable)
            .collect()
    }

    fn evict(&mut self, number: u32) {
        if let Some(State::Loading(size) | State::Loaded(size)) = self.states.remove(&number) {
            self.bytes -= size.bytes;
            self.rules.release(&size.rules, Instant::now());
        }
    }
}
