//! Native code of a process: which files have unwind tables, and which have symbols.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use tokio::time::{Instant, timeout_at};

use agent_common::maps::Mapping;

use crate::{
    binaries::{
        elf::{DebugFiles, Elf, Source, Which},
        executables::{Executable, MappedExecutables},
        unwind,
    },
    process::{Process, RegularFile},
    session::Examinations,
    symbolize::perf_map::PerfMap,
    workers::{Failure, Lane, Subject, Workers},
};

/// First address of the kernel's half of the address space.
const KERNEL: u64 = 1 << 63;

/// Time for one file, and for all.
const LIMIT: Duration = Duration::from_secs(10);
const ALL_LIMIT: Duration = Duration::from_secs(30);

/// Native code of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeCode {
    /// Files that are mapped executable.
    pub files: Vec<NativeFile>,
    /// Code generated at run time, if there is any.
    pub run_time: Option<RunTime>,
}

/// Code generated at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTime {
    /// Path of its perf map, as the process sees it.
    pub map: PathBuf,
    /// Whether the perf map exists.
    pub has_map: bool,
}

/// A file that is mapped executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeFile {
    /// Its file name.
    pub name: String,
    /// Its contents, or why they are not known.
    pub contents: Result<Contents, Unread>,
}

/// Why the contents of a file are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It cannot be opened, or is no ELF file.
    Invalid,
    /// It takes too long to read.
    TooLong,
    /// It was not its turn in the time for all files.
    NotInTime,
}

/// Unwind tables and symbols of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Whether it has call-frame information that compiles to unwind rows.
    pub has_unwind_table: bool,
    /// Its symbols.
    pub symbols: Symbols,
    /// Whether it has DWARF, in it or in a debug file: lines and inlined functions.
    pub has_debug_info: bool,
}

/// Symbols of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbols {
    /// A full symbol table.
    All,
    /// Only exported symbols.
    Exported,
    /// None.
    None,
}

impl NativeCode {
    /// Examines all executable mappings of a process; `mapped` is what a capture has read of them.
    ///
    /// # Errors
    ///
    /// When the process has exited or may not be read, or when its perf map takes too long to read.
    pub(super) async fn find(
        examinations: &Examinations,
        process: &Arc<Process>,
        mapped: Option<MappedExecutables>,
    ) -> Result<Self> {
        let mapped = mapped.context("its mappings may not be read")?;
        let mappings = &mapped.mappings;
        let is_file = |mapping: &&Mapping| mapping.executable != Mapping::ANONYMOUS;
        // Several parts of a file may be mapped.
        let files: BTreeSet<u32> = mappings
            .iter()
            .filter(is_file)
            .map(|mapping| mapping.executable)
            .collect();
        let is_run_time = |mapping: &Mapping| !is_file(&mapping) && mapping.start < KERNEL;
        let run_time = if mappings.iter().any(is_run_time) {
            Some(RunTime::find(&examinations.workers, process).await?)
        } else {
            None
        };
        let files = files
            .into_iter()
            .filter_map(|number| examinations.executables.get(number));
        Ok(Self {
            files: NativeFile::find(&examinations.workers, process, files).await,
            run_time,
        })
    }
}

impl RunTime {
    async fn find(workers: &Workers, process: &Arc<Process>) -> Result<Self, Failure> {
        let subject = Subject::perf_map(process.pid());
        let map = PerfMap::path(process);
        let process = Arc::clone(process);
        let refresh = move || PerfMap::default().refresh(&process);
        let pending = workers.submit(Lane::Symbols, subject, LIMIT, refresh);
        Ok(Self {
            map,
            has_map: pending.result().await?,
        })
    }
}

impl NativeFile {
    async fn find(
        workers: &Workers,
        process: &Arc<Process>,
        files: impl Iterator<Item = Arc<Executable>>,
    ) -> Vec<Self> {
        let submit = |executable: Arc<Executable>| {
            let path = executable.path();
            let name = path.file_name().unwrap_or(path.as_os_str());
            let name = name.to_string_lossy().into_owned();
            let subject = executable.subject();
            let process = Arc::clone(process);
            let read = move || Contents::of(&process, &executable);
            (name, workers.submit(Lane::Tables, subject, LIMIT, read))
        };
        let submitted: Vec<_> = files.map(submit).collect();
        let ends = Instant::now() + ALL_LIMIT;
        let mut found = Vec::new();
        for (name, pending) in submitted {
            let contents = match timeout_at(ends, pending.result()).await {
                Ok(Ok(contents)) => contents.ok_or(Unread::Invalid),
                Ok(Err(_)) => Err(Unread::TooLong),
                Err(_) => Err(Unread::NotInTime),
            };
            found.push(Self { name, contents });
        }
        found
    }
}

impl Contents {
    fn of(process: &Process, executable: &Executable) -> Option<Self> {
        let path = executable.path();
        let elf = Elf::read(Arc::clone(executable.bytes()?)).ok()?;
        let has_all = has_functions(&elf, Which::All);
        let debug = if has_all && elf.has_debug_info() {
            None
        } else {
            DebugFiles::of(process, path).find(&elf)
        };
        let compiled = unwind::compile(&elf, &[]);
        Some(Self {
            has_unwind_table: compiled.is_ok_and(|compiled| compiled.rows().len() != 0),
            symbols: Symbols::of(&elf, debug.as_ref()),
            has_debug_info: elf.has_debug_info() || debug.is_some_and(|it| it.has_debug_info()),
        })
    }
}

impl Symbols {
    fn of<S: Source>(elf: &Elf<S>, debug: Option<&Elf<RegularFile>>) -> Self {
        let embedded = || elf.embedded().ok().flatten();
        if has_functions(elf, Which::All)
            || elf.go_table().is_ok_and(|table| table.is_some())
            || debug.is_some_and(|debug| has_functions(debug, Which::All))
            || embedded().is_some_and(|embedded| has_functions(&embedded, Which::All))
        {
            Self::All
        } else if has_functions(elf, Which::Exported) {
            Self::Exported
        } else {
            Self::None
        }
    }
}

/// Whether a symbol table exists and has functions.
fn has_functions<S: Source>(elf: &Elf<S>, which: Which) -> bool {
    let mut is_any = false;
    elf.symbol_table(which)
        .is_some_and(|table| elf.functions(&table, |_| is_any = true).is_ok())
        && is_any
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn code_of(process: Process) -> NativeCode {
        let examinations = Examinations::new(true);
        let mapped = examinations.executables.read_mappings(&process).unwrap();
        NativeCode::find(&examinations, &Arc::new(process), Some(mapped))
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn the_code_of_this_process_is_known() {
        let process = Process::open(std::process::id()).unwrap();
        let executable = process.executable().file_name().unwrap().to_owned();
        let code = code_of(process).await;
        let own = code
            .files
            .iter()
            .find(|file| Some(&*file.name) == executable.to_str());
        let contents = own.unwrap().contents.unwrap();
        assert_eq!(contents.symbols, Symbols::All);
        assert!(contents.has_unwind_table);
        let is_vdso = |file: &&NativeFile| file.name == "[vdso]";
        let vdso = code.files.iter().find(is_vdso).unwrap().contents.unwrap();
        assert_eq!(vdso.symbols, Symbols::Exported);
        assert!(vdso.has_unwind_table);
        assert_eq!(code.run_time, None);
    }
}
