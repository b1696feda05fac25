//! All that puts frames into words: what the kernel half has sent of code objects, the symbols of
//! files and of the kernel, and the maps of compilers at run time.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use agent_common::record::{Frame, NativeFrame, NativeKind};

use crate::{
    aggregate::{self, Resolve},
    code::{Code, Executable},
    elf::{DebugFiles, Elf},
    process::Process,
    profile::{self, ExecutableKind, NativeFunction, NativeResolved, Resolved, Unnamed},
    symbolize::{
        Symbolizer,
        kernel::{self, KernelSymbols},
        native::{Found, Limits, Reason, SymbolCache, Symbols},
        perf_map::{self, PerfMap},
    },
};

/// Most bytes that the symbols of files take, unless it is said.
const MAX_SYMBOL_BYTES: usize = 64 << 20;

/// Puts frames into words.
pub(super) struct Names<'a> {
    python: &'a mut Symbolizer,
    native: Option<&'a mut NativeNames>,
    code: Option<&'a Code>,
}

impl<'a> Names<'a> {
    pub(super) fn new(
        python: &'a mut Symbolizer,
        native: Option<(&'a mut NativeNames, &'a Code)>,
    ) -> Self {
        let (native, code) = native.unzip();
        Self {
            python,
            native,
            code,
        }
    }
}

impl Resolve for Names<'_> {
    fn python(&mut self, frame: &Frame) -> Option<Resolved> {
        self.python.resolve(frame)
    }

    fn native(&mut self, _tgid: u32, frame: &NativeFrame) -> NativeResolved {
        let resolved = match (&mut self.native, self.code) {
            (Some(native), Some(code)) => native.resolve(code, frame),
            _ => None,
        };
        resolved.unwrap_or_else(|| aggregate::unknown(frame, Unnamed::Unreadable))
    }
}

/// What is known of native and kernel code.
pub(super) struct NativeNames {
    files: SymbolCache,
    /// [`None`] until they are asked for.
    kernel: Option<Result<KernelSymbols, kernel::Error>>,
    /// By process.
    perf_maps: HashMap<u32, PerfMap>,
}

impl Default for NativeNames {
    fn default() -> Self {
        Self::new(MAX_SYMBOL_BYTES)
    }
}

impl NativeNames {
    /// With at most so many bytes of symbols of files.
    pub(super) fn new(symbol_bytes: usize) -> Self {
        Self {
            files: SymbolCache::new(symbol_bytes),
            kernel: None,
            perf_maps: HashMap::new(),
        }
    }

    /// Forgets what is only known of processes that have ended.
    pub(super) fn forget(&mut self, ended: &[u32]) {
        for pid in ended {
            self.perf_maps.remove(pid);
        }
    }

    fn resolve(&mut self, code: &Code, frame: &NativeFrame) -> Option<NativeResolved> {
        match frame.kind {
            NativeKind::KERNEL => Some(self.kernel(frame.address)),
            NativeKind::FILE => Some(self.file(code.get(frame.id_or_count)?, frame.address)),
            NativeKind::ANONYMOUS => Some(self.anonymous(frame.id_or_count, frame.address)),
            _ => None,
        }
    }

    fn kernel(&mut self, address: u64) -> NativeResolved {
        let symbols = &*self.kernel.get_or_insert_with(KernelSymbols::read);
        let function = match symbols {
            Ok(symbols) => symbols.find(address).ok_or(Unnamed::NoSymbol),
            Err(kernel::Error::Hidden) => Err(Unnamed::KernelHidden),
            Err(_) => Err(Unnamed::KernelSilent),
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
        NativeResolved {
            executable,
            address,
            functions: function.map(|function| vec![plain(function.name)]),
        }
    }

    fn file(&mut self, executable: &Executable, address: u64) -> NativeResolved {
        let number = executable.number();
        let found = self.files.find_all(number, &[address], || load(executable));
        let functions = match found.into_iter().next() {
            Some(Found::Known(frames)) => Ok(frames
                .into_iter()
                .map(|frame| NativeFunction {
                    name: frame.name,
                    file: frame.file,
                    line: frame.line,
                })
                .collect()),
            Some(Found::Unknown(reason)) => Err(match reason {
                Reason::NoSymbols => Unnamed::NoSymbols,
                Reason::BeforeFirst | Reason::Gap => Unnamed::NoSymbol,
                Reason::Unreadable | Reason::Malformed => Unnamed::Unreadable,
            }),
            None => Err(Unnamed::Unreadable),
        };
        NativeResolved {
            executable: described(executable),
            address,
            functions,
        }
    }

    fn anonymous(&mut self, pid: u32, address: u64) -> NativeResolved {
        let map = self.perf_maps.entry(pid).or_default();
        let function = map.find(address).or_else(|reason| {
            // A process that has gone adds nothing to its map.
            let process = Process::open(pid).map_err(|_| reason)?;
            map.refresh(&process);
            map.find(address)
        });
        NativeResolved {
            executable: profile::Executable {
                path: PathBuf::new(),
                build_id: None,
                kind: ExecutableKind::Anonymous,
                start: 0,
                limit: 0,
                file_offset: 0,
            },
            address,
            functions: function
                .map(|name| vec![plain(name)])
                .map_err(|reason| match reason {
                    perf_map::Reason::NoMap => Unnamed::NoMap,
                    perf_map::Reason::NotInMap | perf_map::Reason::TooLarge => Unnamed::NotInMap,
                }),
        }
    }
}

/// A function of which only the name is known.
fn plain(name: String) -> NativeFunction {
    NativeFunction {
        name,
        file: None,
        line: None,
    }
}

/// Reads the symbols of a file.
fn load(executable: &Executable) -> Symbols {
    let bytes = executable.bytes();
    let Some(elf) = bytes.and_then(|bytes| Elf::read(Arc::clone(bytes)).ok()) else {
        return Symbols::none(Reason::Unreadable);
    };
    // Debug files are looked for where the process sees them, as long as there is one.
    let process = Process::open(executable.first_user()).ok();
    let debug_files = match &process {
        Some(process) => DebugFiles::of(process, executable.path()),
        None => DebugFiles::on_host(executable.path()),
    };
    Symbols::load(elf, Some(debug_files), &Limits::default())
}

/// The file as profiles have it.
fn described(executable: &Executable) -> profile::Executable {
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
