//! Native and kernel frames → functions and lines, from the symbols of files, the kernel's symbols
//! and the perf maps of processes.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use agent_common::record::{NativeFrame, NativeKind};

use super::{
    elf_symbols::{ElfSymbols, NoSymbolReason, SymbolCache, SymbolLimits, SymbolLookup},
    kernel::{KallsymsError, KernelSymbols},
    perf_map::{PerfMap, PerfMapMiss},
    symbolized::{NativeFunction, SymbolizedNativeFrame},
};
use crate::{
    binaries::{
        elf::{DebugFiles, Elf},
        executables::{Executable, Executables},
    },
    process::Process,
    profile::{self, ExecutableKind, UnsymbolizedReason},
};

/// Symbolizes native and kernel frames; caches symbols across windows.
pub struct NativeSymbolizer {
    files: SymbolCache,
    /// [`None`] until the first kernel frame.
    kernel: Option<Result<KernelSymbols, KallsymsError>>,
    /// By process id.
    perf_maps: HashMap<u32, PerfMap>,
}

impl NativeSymbolizer {
    /// Keeps about `symbol_bytes` bytes of the symbols of files.
    pub fn new(symbol_bytes: usize) -> Self {
        Self {
            files: SymbolCache::new(symbol_bytes),
            kernel: None,
            perf_maps: HashMap::new(),
        }
    }

    /// Evicts the perf maps of processes that have ended.
    pub fn remove_processes(&mut self, ended: &[u32]) {
        for pid in ended {
            self.perf_maps.remove(pid);
        }
    }

    /// [`None`] for a file that `executables` lacks, and for a frame that is not native.
    pub(super) fn symbolize(
        &mut self,
        executables: &Executables,
        frame: &NativeFrame,
    ) -> Option<SymbolizedNativeFrame> {
        match frame.kind {
            NativeKind::KERNEL => Some(self.kernel(frame.address)),
            NativeKind::FILE => {
                Some(self.file(&*executables.get(frame.id_or_count)?, frame.address))
            }
            NativeKind::ANONYMOUS => Some(self.anonymous(frame.id_or_count, frame.address)),
            _ => None,
        }
    }

    fn kernel(&mut self, address: u64) -> SymbolizedNativeFrame {
        let symbols = &*self.kernel.get_or_insert_with(KernelSymbols::read);
        let function = match symbols {
            Ok(symbols) => symbols.find(address).ok_or(UnsymbolizedReason::NoSymbol),
            Err(KallsymsError::AddressesHidden) => Err(UnsymbolizedReason::KptrRestricted),
            Err(_) => Err(UnsymbolizedReason::KallsymsUnreadable),
        };
        let module = function.as_ref().ok().and_then(|function| function.module);
        let build_id = symbols.as_ref().ok().and_then(KernelSymbols::build_id);
        let executable = profile::Executable {
            path: PathBuf::from(module.unwrap_or_default()),
            build_id: match module {
                Some(_) => None,
                None => build_id.map(str::to_owned),
            },
            kind: match module {
                Some(_) => ExecutableKind::KernelModule,
                None => ExecutableKind::Kernel,
            },
            start: 0,
            limit: 0,
            file_offset: 0,
        };
        SymbolizedNativeFrame {
            executable,
            address,
            functions: function.map(|function| vec![without_line(function.name)]),
        }
    }

    fn file(&mut self, executable: &Executable, address: u64) -> SymbolizedNativeFrame {
        let number = executable.number();
        let found = self.files.find_all(number, &[address], || load(executable));
        let functions = match found.into_iter().next() {
            Some(SymbolLookup::Known(frames)) => Ok(frames
                .into_iter()
                .map(|frame| NativeFunction {
                    name: frame.name,
                    file: frame.file,
                    line: frame.line,
                })
                .collect()),
            Some(SymbolLookup::Unknown(reason)) => Err(match reason {
                NoSymbolReason::NoSymbols => UnsymbolizedReason::NoSymbols,
                NoSymbolReason::BeforeFirst | NoSymbolReason::Gap => UnsymbolizedReason::NoSymbol,
                NoSymbolReason::Unreadable | NoSymbolReason::Malformed => {
                    UnsymbolizedReason::Unreadable
                }
            }),
            None => Err(UnsymbolizedReason::Unreadable),
        };
        SymbolizedNativeFrame {
            executable: model_executable(executable),
            address,
            functions,
        }
    }

    fn anonymous(&mut self, pid: u32, address: u64) -> SymbolizedNativeFrame {
        let map = self.perf_maps.entry(pid).or_default();
        let function = map.find(address).or_else(|reason| {
            // A process that has ended adds nothing to its map.
            let process = Process::open(pid).map_err(|_| reason)?;
            map.refresh(&process);
            map.find(address)
        });
        SymbolizedNativeFrame {
            executable: profile::Executable {
                path: PathBuf::new(),
                build_id: None,
                kind: ExecutableKind::Anonymous,
                start: 0,
                limit: 0,
                file_offset: 0,
            },
            address,
            functions: function.map(|name| vec![without_line(name)]).map_err(
                |reason| match reason {
                    PerfMapMiss::NoMap => UnsymbolizedReason::NoMap,
                    PerfMapMiss::NotInMap | PerfMapMiss::TooLarge => UnsymbolizedReason::NotInMap,
                },
            ),
        }
    }
}

/// A function with only its name.
fn without_line(name: String) -> NativeFunction {
    NativeFunction {
        name,
        file: None,
        line: None,
    }
}

/// Reads the symbols of a file.
fn load(executable: &Executable) -> ElfSymbols {
    let bytes = executable.bytes();
    let Some(elf) = bytes.and_then(|bytes| Elf::read(Arc::clone(bytes)).ok()) else {
        return ElfSymbols::none(NoSymbolReason::Unreadable);
    };
    // Debug files are searched in the mount namespace of the process while it runs, else on the host.
    let process = Process::open(executable.first_user()).ok();
    let debug_files = match &process {
        Some(process) => DebugFiles::of(process, executable.path()),
        None => DebugFiles::on_host(executable.path()),
    };
    ElfSymbols::load(elf, Some(debug_files), &SymbolLimits::default())
}

/// The model's description of an executable.
fn model_executable(executable: &Executable) -> profile::Executable {
    let code = executable.segments().and_then(|segments| {
        let code = segments.code().next()?;
        let offset = segments.file_offset(code.start, 1)?;
        Some((code, offset))
    });
    let (code, file_offset) = code.unwrap_or((0..0, 0));
    profile::Executable {
        path: executable.path().to_owned(),
        build_id: executable.build_id().map(str::to_owned),
        kind: if executable.is_vdso() {
            ExecutableKind::Vdso
        } else {
            ExecutableKind::File
        },
        start: code.start,
        limit: code.end,
        file_offset,
    }
}
