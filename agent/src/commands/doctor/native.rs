//! Native code of a process: which files have unwind tables, and which have symbols.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_common::maps::Mapping;

use crate::{
    binaries::{
        elf::{DebugFiles, Elf, Source, Which},
        executables::{Bytes, Executable, Executables},
        unwind,
    },
    process::{self, Process, RegularFile},
    symbolize::perf_map::PerfMap,
};

/// First address of the kernel's half of the address space.
const KERNEL: u64 = 1 << 63;

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
    /// Its contents; [`None`] if it could not be read.
    pub contents: Option<Contents>,
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
    /// Examines all executable mappings of a process.
    ///
    /// # Errors
    ///
    /// When the process has exited or may not be read.
    pub(crate) fn of(process: &Process) -> Result<Self, process::Error> {
        let code = Executables::default();
        let mapped = code.read_mappings(process)?;
        let mappings = &mapped.mappings;
        let is_file = |mapping: &&Mapping| mapping.executable != Mapping::ANONYMOUS;
        // Several parts of a file may be mapped.
        let files: BTreeSet<u32> = mappings
            .iter()
            .filter(is_file)
            .map(|mapping| mapping.executable)
            .collect();
        let is_run_time = |mapping: &Mapping| !is_file(&mapping) && mapping.start < KERNEL;
        let has_run_time = mappings.iter().any(is_run_time);
        Ok(Self {
            files: files
                .into_iter()
                .filter_map(|number| code.get(number))
                .map(|executable| NativeFile::of(process, &executable))
                .collect(),
            run_time: has_run_time.then(|| RunTime {
                map: PerfMap::path(process),
                has_map: PerfMap::default().refresh(process),
            }),
        })
    }
}

impl NativeFile {
    fn of(process: &Process, executable: &Executable) -> Self {
        let path = executable.path();
        let name = path.file_name().unwrap_or(path.as_os_str());
        let bytes = executable.bytes();
        Self {
            name: name.to_string_lossy().into_owned(),
            contents: bytes.and_then(|bytes| Contents::of(process, path, bytes)),
        }
    }
}

impl Contents {
    fn of(process: &Process, path: &Path, bytes: &Arc<Bytes>) -> Option<Self> {
        let elf = Elf::read(Arc::clone(bytes)).ok()?;
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

    #[test]
    fn the_code_of_this_process_is_known() {
        let process = Process::open(std::process::id()).unwrap();
        let code = NativeCode::of(&process).unwrap();
        let executable = process.executable().file_name().unwrap();
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
