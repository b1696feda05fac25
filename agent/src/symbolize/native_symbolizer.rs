//! Native and kernel frames → functions and lines, from the symbols of files, the kernel's symbols
//! and, for JIT code, perf maps and what compilers register in their processes.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Instant};

use agent_common::{
    maps::Mapping,
    record::{NativeFrame, NativeKind},
};

use super::{
    budget::CpuShares,
    file_symbolizer::{FileSymbolizer, LookupTotals},
    haste::Haste,
    jit_symbolizer::JitSymbolizer,
    kernel::{KallsymsError, KernelSymbols},
    live_kernel::LiveKernel,
    perf_map::PerfMapMiss,
    symbolized::{NativeFunction, SymbolizedNativeFrame},
};
use crate::{
    binaries::executables::{Executable, Executables},
    profile::{self, ExecutableKind, UnsymbolizedReason},
    workers::Workers,
};

/// The kernel among the numbers of executables, of which it is none.
const KERNEL: u32 = Mapping::ANONYMOUS;

/// Symbolizes native and kernel frames; caches symbols and results across windows.
pub struct NativeSymbolizer {
    files: FileSymbolizer,
    kernel: LiveKernel,
    jit: JitSymbolizer,
    /// Executables as profiles have them, by number; of the kernel itself 0. For one profile.
    models: HashMap<u32, Arc<profile::Executable>>,
    haste: Haste,
}

impl NativeSymbolizer {
    /// Keeps about `symbol_bytes` bytes of the symbols of files, and of results. Files are read by
    /// `workers`.
    pub fn new(symbol_bytes: usize, workers: Workers) -> Self {
        let haste = Haste::default();
        Self {
            files: FileSymbolizer::new(symbol_bytes, workers.clone(), haste.clone()),
            kernel: LiveKernel::new(),
            jit: JitSymbolizer::new(workers, haste.clone()),
            models: HashMap::new(),
            haste,
        }
    }

    /// Limits the CPU time of look-ups from now on. Names do not count; what is left out is looked up
    /// later.
    pub fn limit_cpu(&mut self, shares: CpuShares) {
        self.files.limit_cpu(shares);
    }

    /// Leaves out the names of kernel functions, which are not read then.
    pub fn leave_out_kernel(&mut self) {
        self.kernel.leave_out();
    }

    /// Whether a profile is wanted at once, from any thread.
    #[must_use]
    pub fn haste(&self) -> Haste {
        self.haste.clone()
    }

    /// Counts of look-ups.
    #[must_use]
    pub fn totals(&self) -> LookupTotals {
        let totals = self.files.totals();
        LookupTotals {
            given_up: totals.given_up + self.jit.given_up(),
            ..totals
        }
    }

    /// Evicts the names of JIT code of processes that have ended.
    pub fn remove_processes(&mut self, ended: &[u32]) {
        self.jit.remove_processes(ended);
    }

    /// Notes the JIT code of a stack, so that its names are read while its process runs.
    pub fn note_stack(&mut self, frames: &[NativeFrame]) {
        for frame in frames {
            if frame.kind == NativeKind::ANONYMOUS {
                self.jit.note(frame.id_or_count, frame.address);
            }
        }
    }

    /// Has the names of JIT code read that are missing, and takes over those that were read; does not wait for them.
    pub fn read_jit_names(&mut self) {
        self.jit.advance(Instant::now());
    }

    /// Drops the symbols of files that `executables` has closed, and closes them too.
    pub fn release_files(&mut self, executables: &Executables) {
        self.files.release_files(executables);
    }

    /// Drops the symbols of files, which can be read again, and keeps the results.
    pub fn release_memory(&mut self) {
        self.files.release_memory();
    }

    /// Looks up frames, each with the id of a process that has it, so that [`Self::symbolize`] finds
    /// their results in the cache.
    ///
    /// Files are read by workers; one that takes too long is in quarantine, and has no symbols until it
    /// is tried again.
    pub fn prepare(&mut self, executables: &Executables, frames: &[(u32, NativeFrame)]) {
        self.jit.begin_window();
        self.kernel.begin_window(Instant::now());
        self.models.clear();
        self.files.prepare(executables, frames);
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
                let executable = executables.get(frame.id_or_count)?;
                Some(self.file(executables, &executable, frame))
            }
            NativeKind::ANONYMOUS => Some(self.anonymous(frame.id_or_count, frame.address)),
            _ => None,
        }
    }

    fn kernel(&mut self, address: u64) -> SymbolizedNativeFrame {
        let symbols = self.kernel.symbols_for(address);
        let function = match symbols {
            Ok(symbols) => symbols.find(address).ok_or(UnsymbolizedReason::NoSymbol),
            Err(KallsymsError::AddressesHidden) => Err(UnsymbolizedReason::KptrRestricted),
            Err(_) => Err(UnsymbolizedReason::KallsymsUnreadable),
        };
        let module = function.as_ref().ok().and_then(|function| function.module);
        let build_id = symbols.as_ref().ok().and_then(KernelSymbols::build_id);
        let kernel = |kind, path: &str, build_id: Option<&str>| {
            Arc::new(profile::Executable {
                path: path.into(),
                build_id: build_id.map(str::to_owned),
                kind,
                start: 0,
                limit: 0,
                file_offset: 0,
            })
        };
        let executable = match module {
            Some(module) => kernel(ExecutableKind::KernelModule, module, None),
            None => Arc::clone(
                (self.models.entry(KERNEL))
                    .or_insert_with(|| kernel(ExecutableKind::Kernel, "", build_id)),
            ),
        };
        SymbolizedNativeFrame {
            executable,
            address,
            functions: function.map(|function| without_line(&function.name)),
        }
    }

    fn file(
        &mut self,
        executables: &Executables,
        executable: &Executable,
        frame: &NativeFrame,
    ) -> SymbolizedNativeFrame {
        let result = self
            .files
            .find(executables, executable.number(), frame.address);
        let model = self.models.entry(executable.number());
        let model = model.or_insert_with(|| Arc::new(model_executable(executable)));
        SymbolizedNativeFrame {
            executable: Arc::clone(model),
            address: frame.address,
            functions: result.map_or(Err(UnsymbolizedReason::Unreadable), |result| {
                result.functions.clone()
            }),
        }
    }

    fn anonymous(&mut self, pid: u32, address: u64) -> SymbolizedNativeFrame {
        let function = self.jit.symbolize(pid, address);
        SymbolizedNativeFrame {
            executable: Arc::new(profile::Executable {
                path: PathBuf::new(),
                build_id: None,
                kind: ExecutableKind::Anonymous,
                start: 0,
                limit: 0,
                file_offset: 0,
            }),
            address,
            functions: function
                .map(|name| without_line(&name))
                .map_err(|reason| match reason {
                    PerfMapMiss::NoMap => UnsymbolizedReason::NoMap,
                    PerfMapMiss::NotInMap | PerfMapMiss::TooLarge => UnsymbolizedReason::NotInMap,
                }),
        }
    }
}

/// A function with only its name.
fn without_line(name: &str) -> Arc<[NativeFunction]> {
    [NativeFunction {
        name: name.into(),
        file: None,
        line: None,
    }]
    .into()
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
