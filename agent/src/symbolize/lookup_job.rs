//! Look-ups of addresses in one file, which can run on any thread.
//!
//! Invariant: a job refers to nothing that others wait for. One that never returns, because a read of
//! a file on a dead network or of a FUSE file does not, takes its thread and its file with it, and
//! nothing else.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{
    budget::Allowance,
    elf_symbols::{AddressLookup, ElfSymbols, NoSymbolReason, SymbolLimits},
};
use crate::{
    binaries::{
        elf::{DebugFiles, Elf},
        executables::{Bytes, Executable},
    },
    process::Process,
};

/// Look-ups of addresses in one file.
#[derive(Debug)]
pub struct LookupJob {
    pub(super) executable: u32,
    /// [`None`] where its symbols are to be read.
    pub(super) symbols: Option<Box<ElfSymbols>>,
    /// Whether to read them with debugging information.
    pub(super) wants_debug_info: bool,
    pub(super) file: SymbolizedFile,
    /// Sorted.
    pub(super) addresses: Vec<u64>,
}

/// The file of a job.
#[derive(Debug)]
pub(super) struct SymbolizedFile {
    bytes: Option<Arc<Bytes>>,
    path: PathBuf,
    /// A process in whose root its debug files may be, if there is one.
    process: Option<u32>,
}

/// The results of a job.
#[derive(Debug)]
pub struct LookupResults {
    pub(super) symbols: Box<ElfSymbols>,
    pub(super) found: Vec<(u64, AddressLookup)>,
    /// CPU time that it took.
    pub(super) used: Duration,
}

impl LookupJob {
    /// The number of the file.
    #[must_use]
    pub fn executable(&self) -> u32 {
        self.executable
    }

    /// Its file, for people.
    pub(super) fn name(&self) -> String {
        self.file.path.to_string_lossy().into_owned()
    }

    /// About how much CPU time it takes before anything but names can be looked up; [`None`] where nothing of the
    /// file is known yet.
    pub(super) fn opening_time(&self) -> Option<Duration> {
        self.symbols.as_ref().map(|symbols| symbols.opening_time())
    }

    /// Looks up the addresses.
    #[must_use]
    pub fn run(self, allowance: Allowance) -> LookupResults {
        let budget = allowance.start();
        let limits = SymbolLimits {
            inlines: self.wants_debug_info,
            ..SymbolLimits::default()
        };
        let load = || Box::new(self.file.load(&limits));
        let mut symbols = self.symbols.unwrap_or_else(load);
        let found = symbols.find_within(&self.addresses, &budget);
        LookupResults {
            symbols,
            found: self.addresses.into_iter().zip(found).collect(),
            used: budget.used(),
        }
    }
}

impl SymbolizedFile {
    pub(super) fn new(executable: &Executable) -> Self {
        Self {
            bytes: executable.bytes().map(Arc::clone),
            path: executable.path().to_owned(),
            process: executable.first_user(),
        }
    }

    /// Reads the symbols.
    fn load(&self, limits: &SymbolLimits) -> ElfSymbols {
        let bytes = self.bytes.as_ref();
        let Some(elf) = bytes.and_then(|bytes| Elf::read(Arc::clone(bytes)).ok()) else {
            return ElfSymbols::none(NoSymbolReason::Unreadable);
        };
        // Debug files are searched in the mount namespace of the process while it runs, else on the
        // host.
        let process = self.process.and_then(|pid| Process::open(pid).ok());
        let debug_files = match &process {
            Some(process) => DebugFiles::of(process, &self.path),
            None => DebugFiles::on_host(&self.path),
        };
        ElfSymbols::load(elf, Some(debug_files), limits)
    }
}
