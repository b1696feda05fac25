//! The unwind tables of files: compiled where nobody waits for them, then told to the kernel half.

use std::{collections::HashMap, ops::Range, sync::Arc};

use agent_common::unwind::Rule;

use super::{bytes::Bytes, executable::Executable, registry::Executables};
use crate::binaries::{
    elf::{self, Elf},
    unwind::{self, Compiled, Rules, Table, compile, pack},
};

/// Most bytes of kernel memory for unwind tables.
const MAX_TABLE_BYTES: usize = 40 << 20;

/// Most bytes of call-frame information of a file that is compiled before anybody asks for it.
const MAX_SMALL: u64 = 4 << 20;

/// Finds the addresses of the interpreter's evaluation loop in a file, before the load bias is
/// added; none where it has no such loop.
pub type EvaluationLoops = fn(&Elf<Arc<Bytes>>) -> Result<Vec<Range<u64>>, elf::Error>;

/// The unwind tables of all files.
#[derive(Debug)]
pub struct Tables {
    evaluation_loops: EvaluationLoops,
    rules: Rules,
    /// By the numbers of the files.
    states: HashMap<u32, State>,
    /// What those that are loaded take in the kernel, in bytes.
    bytes: usize,
}

/// How far the table of a file has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Compiling,
    /// It takes so many bytes in the kernel, or none if there is no room for it or none at all.
    Done(usize),
}

/// A table that is to be compiled.
#[derive(Debug)]
pub struct Job {
    number: u32,
    table: u32,
    bytes: Arc<Bytes>,
    evaluation_loops: EvaluationLoops,
}

/// A table that has been compiled, or could not be.
#[derive(Debug)]
pub struct Compilation {
    number: u32,
    table: u32,
    result: Result<Compiled, unwind::Error>,
}

/// What is to be told to the kernel half.
#[derive(Debug, Default)]
pub struct Loading {
    /// The index of the first of the rules.
    pub first_rule: u16,
    /// Rules that are new.
    pub rules: Vec<Rule>,
    /// Tables, each with its index.
    pub tables: Vec<(u32, Table)>,
    /// Indices of tables that there are none of.
    pub without_table: Vec<u32>,
    /// Indices of tables that gave way to others.
    pub unloaded: Vec<u32>,
}

impl Job {
    /// Compiles the table, which may take a second for the largest files.
    #[must_use]
    pub fn run(self) -> Compilation {
        Compilation {
            number: self.number,
            table: self.table,
            result: compile_file(self.bytes, self.evaluation_loops),
        }
    }
}

fn compile_file(
    bytes: Arc<Bytes>,
    evaluation_loops: EvaluationLoops,
) -> Result<Compiled, unwind::Error> {
    let elf = Elf::read(bytes)?;
    let loops = evaluation_loops(&elf)?;
    compile(&elf, &loops)
}

impl Tables {
    /// No tables. Rows in the evaluation loops that `evaluation_loops` finds are marked.
    #[must_use]
    pub fn new(evaluation_loops: EvaluationLoops) -> Self {
        Self {
            evaluation_loops,
            rules: Rules::default(),
            states: HashMap::new(),
            bytes: 0,
        }
    }

    /// What is to be done to have the table of a file, unless that is under way or done.
    pub fn want(&mut self, executable: &Executable) -> Option<Job> {
        let number = executable.number();
        if self.states.contains_key(&number) {
            return None;
        }
        let Some(bytes) = executable.bytes() else {
            self.states.insert(number, State::Done(0));
            return None;
        };
        self.states.insert(number, State::Compiling);
        Some(Job {
            number,
            table: executable.table(),
            bytes: Arc::clone(bytes),
            evaluation_loops: self.evaluation_loops,
        })
    }

    /// The same, for a file whose table is made in no time.
    pub fn want_if_small(&mut self, executable: &Executable) -> Option<Job> {
        let elf = Elf::read(Arc::clone(executable.bytes()?)).ok()?;
        let bytes = elf.section(".eh_frame").map_or(0, |section| section.bytes);
        (bytes.max(elf.go_table_bytes()) <= MAX_SMALL).then(|| self.want(executable))?
    }

    /// Takes what has been compiled, and gives what is to be told to the kernel half. Where there is
    /// no room for a table those of files that no process maps any more give way.
    pub fn accept(
        &mut self,
        code: &Executables,
        compilations: impl IntoIterator<Item = Compilation>,
    ) -> Loading {
        let mut loading = Loading::default();
        for compilation in compilations {
            // One that was forgotten meanwhile is not wanted any more.
            if self.states.get(&compilation.number) != Some(&State::Compiling) {
                continue;
            }
            let table = compilation
                .result
                .ok()
                .map(|compiled| pack(&compiled, &mut self.rules))
                .filter(|table| table.pages != 0);
            let bytes = table.as_ref().map_or(0, |table| table.words.len() * 4);
            loading.unloaded.extend(self.make_room(code, bytes));
            match table {
                Some(table) if self.bytes + bytes <= MAX_TABLE_BYTES => {
                    self.bytes += bytes;
                    self.states.insert(compilation.number, State::Done(bytes));
                    loading.tables.push((compilation.table, table));
                }
                table => {
                    // Without a table frame pointers are tried; without room that would be wrong.
                    if table.is_none() {
                        loading.without_table.push(compilation.table);
                    }
                    self.states.insert(compilation.number, State::Done(0));
                }
            }
        }
        let mut added = self.rules.take_added().peekable();
        loading.first_rule = added.peek().map_or(0, |(index, _)| *index);
        loading.rules = added.map(|(_, rule)| rule).collect();
        loading
    }

    /// Lets tables of files that are not used any more go, until there is room for so many bytes;
    /// gives their indices.
    fn make_room(&mut self, code: &Executables, bytes: usize) -> Vec<u32> {
        if self.bytes + bytes <= MAX_TABLE_BYTES {
            return Vec::new();
        }
        let mut unused: Vec<_> = self
            .states
            .iter()
            .filter(|(_, state)| matches!(state, State::Done(1..)))
            .filter_map(|(number, _)| code.get(*number))
            .filter_map(|executable| Some((executable.unused_since()?, executable)))
            .collect();
        unused.sort_unstable_by_key(|(since, executable)| (*since, executable.number()));
        let mut unloaded = Vec::new();
        for (_, executable) in unused {
            if self.bytes + bytes <= MAX_TABLE_BYTES {
                break;
            }
            self.forget(executable.number());
            unloaded.push(executable.table());
        }
        unloaded
    }

    /// Forgets the table of a file.
    fn forget(&mut self, number: u32) {
        if let Some(State::Done(bytes)) = self.states.remove(&number) {
            self.bytes -= bytes;
        }
    }
}
