//! A file that may contain CPython: where its state is, and which version it is.

use goblin::elf::header::EM_X86_64;

use super::{
    debug_offsets::{self, DebugOffsets},
    getter,
    gil::{GilLocation, WordRange},
    version::Version,
    version_hints::{FileNameHints, VersionLiterals},
    versions::SUPPORTED,
};
use crate::binaries::{
    elf::{Elf, Error, Source},
    probe_points::{ProbePoint, ProbedFunction},
};

/// Most bytes of constants that are searched for the version.
const MAX_CONSTANTS: u64 = 64 << 20;

/// Most bytes of data that are searched for `_PyRuntime`.
const MAX_DATA: u64 = 64 << 20;

/// Only builds with `Py_REF_DEBUG` have this function.
const DEBUG_FUNCTION: &str = "_Py_NegativeRefcount";

/// Only Python 2 has this function.
const PYTHON_2_FUNCTION: &str = "PyString_FromString";

/// The function that the interpreter calls for each frame that an exception leaves.
const TRACEBACK_FUNCTION: &str = "PyTraceBack_Here";

/// The static variables on which threads wait for the GIL (3.6).
const GIL_VARIABLES: [&str; 4] = ["gil_cond", "gil_mutex", "switch_cond", "switch_mutex"];

/// Most bytes of one of them: those of a condition variable.
const MAX_GIL_VARIABLE: u64 = 48;

/// Which symbols of a file are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymbolScope {
    /// Exported symbols only: for the many libraries of a process.
    Exported,
    /// All symbols: for executables and for libraries with the name of Python.
    All,
}

/// A variable or section of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Its address before the load bias is added.
    pub(super) address: u64,
    /// Its size in bytes.
    pub(super) bytes: u64,
}

impl Extent {
    /// The address of the field at `offset`.
    pub(super) fn field(self, offset: u16) -> u64 {
        self.address.wrapping_add(offset.into())
    }
}

/// Where a file has the state of the interpreter.
#[derive(Clone, Copy, Debug)]
pub(super) enum StateLocation {
    /// `_PyRuntime`, from 3.7 on.
    Runtime(Extent),
    /// Separate global variables, up to 3.6.
    Globals {
        /// The address of `interp_head`; [`None`] where it could not be determined.
        interpreters_head: Option<u64>,
        /// The address of `_PyThreadState_Current`.
        gil_holder: u64,
        /// The words on which threads wait for the GIL.
        gil: GilLocation,
    },
}

/// A file that may contain CPython.
pub(super) struct InterpreterFile<'a, S> {
    elf: &'a Elf<S>,
    scope: SymbolScope,
    named: Option<FileNameHints>,
}

impl<'a, S: Source> InterpreterFile<'a, S> {
    /// Wraps a file with the name `name`; its `DT_SONAME` takes precedence.
    pub(super) fn new(elf: &'a Elf<S>, name: &str, scope: SymbolScope) -> Result<Self, Error> {
        let soname = elf.soname()?;
        let named = soname
            .and_then(|soname| FileNameHints::parse(&soname))
            .or_else(|| FileNameHints::parse(name));
        Ok(Self { elf, scope, named })
    }

    /// Where the interpreter's state is; [`None`] when the file contains no CPython.
    pub(super) fn state_location(&self) -> Result<Option<StateLocation>, Error> {
        if let Some(runtime) = self.runtime()? {
            return Ok(Some(StateLocation::Runtime(runtime)));
        }
        let Some(gil_holder) = self.symbol("_PyThreadState_Current")? else {
            return Ok(None);
        };
        Ok(Some(StateLocation::Globals {
            interpreters_head: self.interpreters_head()?,
            gil_holder: gil_holder.address,
            gil: self.gil_variables()?,
        }))
    }

    /// `_PyRuntime`. From 3.10 on it is alone in the section `.PyRuntime`, which a stripped program
    /// without exports has too. Without section headers it is found by its first bytes, from 3.13
    /// on.
    fn runtime(&self) -> Result<Option<Extent>, Error> {
        if let Some(section) = self.elf.section(".PyRuntime") {
            return Ok(Some(Extent {
                address: section.address,
                bytes: section.bytes,
            }));
        }
        if let Some(runtime) = self.symbol("_PyRuntime")? {
            return Ok(Some(runtime));
        }
        if self.elf.has_sections() {
            return Ok(None);
        }
        self.runtime_by_cookie()
    }

    /// `_PyRuntime` by the debug offsets at its start; only when all of them are valid, since the
    /// cookie also occurs in programs that read the debug offsets of other processes.
    fn runtime_by_cookie(&self) -> Result<Option<Extent>, Error> {
        let found = self.elf.find_in_data(debug_offsets::COOKIE, MAX_DATA)?;
        for address in found {
            let mut start = [0; debug_offsets::MAX_BYTES];
            if self.elf.initial_bytes(address, &mut start)?
                && let Some(bytes) = DebugOffsets::new(&start).and_then(|it| it.runtime_bytes())
            {
                return Ok(Some(Extent { address, bytes }));
            }
        }
        Ok(None)
    }

    /// The static variable `interp_head`, by the code of its getter, else by its symbol.
    fn interpreters_head(&self) -> Result<Option<u64>, Error> {
        let by_code = self.variable_of("PyInterpreterState_Head", getter::returned_variable)?;
        Ok(match by_code {
            Some(address) => Some(address),
            None => self.symbol("interp_head")?.map(|place| place.address),
        })
    }

    /// The static variables of the GIL, by their symbols; that of 2.7 also by the code of a function that
    /// uses it.
    fn gil_variables(&self) -> Result<GilLocation, Error> {
        if self.symbol(PYTHON_2_FUNCTION)?.is_some() {
            let by_code = self.variable_of("PyEval_ReleaseLock", getter::passed_variable)?;
            let lock = match by_code {
                Some(address) => Some(address),
                None => self.symbol("interpreter_lock")?.map(|place| place.address),
            };
            return Ok(lock.map_or(GilLocation::Unknown, GilLocation::Lock));
        }
        let mut ranges = [WordRange::default(); GIL_VARIABLES.len()];
        for (range, name) in ranges.iter_mut().zip(GIL_VARIABLES) {
            if let Some(place) = self.symbol(name)? {
                *range = WordRange {
                    start: place.address,
                    bytes: place.bytes.min(MAX_GIL_VARIABLE),
                };
            }
        }
        let is_known = ranges.iter().any(|range| range.bytes != 0);
        Ok(if is_known {
            GilLocation::Variables(ranges)
        } else {
            GilLocation::Unknown
        })
    }

    /// The function which the interpreter calls for each frame that an exception leaves; [`None`] where it has no
    /// symbol.
    pub(super) fn traceback_point(&self) -> Result<Option<ProbePoint>, Error> {
        match self.symbol(TRACEBACK_FUNCTION)? {
            Some(function) => ProbePoint::at(self.elf, ProbedFunction::Traceback, function.address),
            None => Ok(None),
        }
    }

    /// The variable that `decode` finds in the code of the function `name`.
    fn variable_of(
        &self,
        name: &str,
        decode: fn(u16, u64, &[u8]) -> Option<u64>,
    ) -> Result<Option<u64>, Error> {
        let Some(function) = self.symbol(name)? else {
            return Ok(None);
        };
        let mut code = [0; getter::CODE_BYTES];
        let is_there = self.elf.initial_bytes(function.address, &mut code)?;
        Ok(is_there
            .then(|| decode(self.elf.machine(), function.address, &code))
            .flatten())
    }

    fn symbol(&self, name: &str) -> Result<Option<Extent>, Error> {
        let symbol = match self.scope {
            SymbolScope::Exported => self.elf.exported_symbol(name)?,
            SymbolScope::All => self.elf.symbol(name)?,
        };
        Ok(symbol.map(|symbol| Extent {
            address: symbol.address,
            bytes: symbol.bytes,
        }))
    }

    /// The first bytes of `_PyRuntime` in the file; empty where they are not in the file.
    pub(super) fn start_of(&self, runtime: Extent) -> Result<Vec<u8>, Error> {
        let most = debug_offsets::MAX_BYTES;
        let bytes = usize::try_from(runtime.bytes).map_or(most, |bytes| bytes.min(most));
        let mut start = vec![0; bytes];
        if !self.elf.initial_bytes(runtime.address, &mut start)? {
            start.clear();
        }
        Ok(start)
    }

    /// Whether it was built with `--with-pydebug`.
    pub(super) fn is_debug(&self) -> Result<bool, Error> {
        Ok(
            self.named.is_some_and(|named| named.is_debug)
                || self.symbol(DEBUG_FUNCTION)?.is_some(),
        )
    }

    /// Whether its name is one of a free-threaded build.
    pub(super) fn is_named_free_threaded(&self) -> bool {
        self.named.is_some_and(|named| named.is_free_threaded)
    }

    /// The version in the data of the interpreter, from 3.11 on.
    pub(super) fn exact_version(
        &self,
        debug_offsets: Option<DebugOffsets>,
    ) -> Result<Option<Version>, Error> {
        if let Some(place) = self.symbol("Py_Version")? {
            let mut hex = [0; 8];
            if self.elf.initial_bytes(place.address, &mut hex)?
                && let Some(version) = Version::from_hex(u64::from_le_bytes(hex))
            {
                return Ok(Some(version));
            }
        }
        Ok(debug_offsets.and_then(|offsets| Version::from_hex(offsets.version_hex())))
    }

    /// The version by hints: by the name of the file, else by the size of `_PyRuntime`, else by
    /// the only version literal in the file. The micro number is always that of the literal.
    pub(super) fn guess_version(&self, runtime: Extent) -> Result<Option<Version>, Error> {
        let literals = self.literals()?;
        let series = self
            .named
            .map(|named| named.version)
            .or_else(|| self.version_of_size(runtime.bytes));
        Ok(match series {
            Some(series) => literals
                .only(|version| version.is_same_series(series))
                .or(Some(series)),
            None => literals.only(|version| version.major == 3 && version.minor >= 7),
        })
    }

    /// The version of an interpreter without `_PyRuntime`, by its name and version literals.
    pub(super) fn guess_old_version(&self) -> Result<Option<Version>, Error> {
        let major = if self.symbol(PYTHON_2_FUNCTION)?.is_some() {
            2
        } else {
            3
        };
        let named = self
            .named
            .map(|named| named.version)
            .filter(|version| version.major == major);
        let fits = |version: Version| {
            named.map_or(version.major == major, |named| {
                version.is_same_series(named)
            })
        };
        Ok(self.literals()?.only(fits).or(named))
    }

    /// The series in which `_PyRuntime` has this size, if there is only one.
    fn version_of_size(&self, bytes: u64) -> Option<Version> {
        // On other machines adjacent series have equal sizes.
        if self.elf.machine() != EM_X86_64 {
            return None;
        }
        SUPPORTED
            .iter()
            .find(|series| series.runtime_bytes.first() == Some(&bytes))
            .map(super::versions::VersionSeries::version)
    }

    fn literals(&self) -> Result<VersionLiterals, Error> {
        let mut literals = VersionLiterals::default();
        let scan = |piece: &[u8]| literals.scan(piece);
        if self.elf.has_sections() {
            self.elf
                .scan_section(".rodata", VersionLiterals::OVERLAP, MAX_CONSTANTS, scan)?;
        } else {
            self.elf
                .scan_constants(VersionLiterals::OVERLAP, MAX_CONSTANTS, scan)?;
        }
        Ok(literals)
    }
}
