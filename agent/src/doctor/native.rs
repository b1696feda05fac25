//! What native frames of a process can be made of: how its files say that their code is unwound,
//! and which of their functions have names.

use std::{
    collections::HashSet,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_common::maps::Mapping;

use crate::{
    code::{Bytes, Code, Executable},
    elf::{DebugFiles, Elf, Source, Which},
    process::{self, Process},
    symbolize::perf_map::PerfMap,
    unwind,
};

/// First address that no process has: from here on the kernel has code of its own.
const KERNEL: u64 = 1 << 63;

/// The code of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeCode {
    /// The files that are mapped executable.
    pub files: Vec<NativeFile>,
    /// The code that was made at run time, if there is any.
    pub run_time: Option<RunTime>,
}

/// Code that was made at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTime {
    /// Where the map with its names would be, as the process sees it.
    pub map: PathBuf,
    /// Whether there is one.
    pub has_map: bool,
}

/// A file that is mapped executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeFile {
    /// Its name, without folders.
    pub name: String,
    /// What is in it; [`None`] if it could not be read.
    pub contents: Option<Contents>,
}

/// What a file tells of its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Whether it has call-frame information that rules could be made of.
    pub has_unwind_table: bool,
    /// Which of its functions have names.
    pub symbols: Symbols,
    /// Whether there is debugging information, in it or for it: lines and inlined functions.
    pub has_debug_info: bool,
}

/// Which functions of a file have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbols {
    /// All.
    All,
    /// Those that other files can use.
    Exported,
    /// None.
    None,
}

impl NativeCode {
    /// Looks at all that a process has mapped executable.
    ///
    /// # Errors
    ///
    /// When the process has gone or may not be looked at.
    pub(super) fn of(process: &Process) -> Result<Self, process::Error> {
        let mut code = Code::default();
        let mappings = code.look(process)?;
        let is_file = |mapping: &&Mapping| mapping.executable != Mapping::ANONYMOUS;
        // Of a file several parts may be mapped.
        let files: HashSet<u32> = mappings
            .iter()
            .filter(is_file)
            .map(|mapping| mapping.executable)
            .collect();
        let is_run_time = |mapping: &Mapping| !is_file(&mapping) && mapping.start < KERNEL;
        let has_run_time = mappings.iter().any(is_run_time);
        Ok(Self {
            files: code
                .of_process(process.pid())
                .filter(|executable| files.contains(&executable.number()))
                .map(|executable| NativeFile::of(process, executable))
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
    fn of<S: Source>(elf: &Elf<S>, debug: Option<&Elf<File>>) -> Self {
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

/// Whether a table of symbols is there and has functions.
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
