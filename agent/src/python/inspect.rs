//! Whether an ELF file contains CPython, which version, and where.
//!
//! Facts about a file, not about a process: they hold for every process that maps it.

use goblin::elf::header::EM_X86_64;

use super::{
    clues::{Literals, Named},
    debug_offsets::{self, DebugOffsets, Rejection},
    version::Version,
    versions::{SUPPORTED, Series, series_of},
};
use crate::elf::{Elf, Error, Source};
use agent_common::layout::{GilStyle, Layout};

/// Most bytes of constants that are searched for the version.
const MAX_CONSTANTS: u64 = 64 << 20;

/// Only builds with `Py_REF_DEBUG` have this function.
const DEBUG_FUNCTION: &str = "_Py_NegativeRefcount";

/// Only Python 2 has this function.
const PYTHON_2_FUNCTION: &str = "PyString_FromString";

/// How much work a file is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Exported symbols and sections only: for the many libraries of a process.
    Exported,
    /// All symbols: for executables and for what is named after Python.
    All,
}

/// What was found in a file.
#[derive(Clone, Debug)]
pub enum Finding {
    /// No CPython.
    NotPython,
    /// CPython that can be profiled.
    Supported(Build),
    /// CPython that cannot.
    Unsupported(Unsupported),
}

/// An interpreter in a file.
#[derive(Clone, Debug)]
pub struct Build {
    /// Its version.
    pub version: Version,
    /// Address of the pointer to the newest interpreter state, before the load bias is added.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL, likewise; [`None`] where
    /// the thread states themselves say it.
    pub gil_holder: Option<u64>,
    /// Where its fields are.
    pub layout: Layout,
    /// How that is known.
    pub layout_source: LayoutSource,
}

/// How a layout is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutSource {
    /// From the interpreter's own `_Py_DebugOffsets`.
    DebugOffsets,
    /// From the table of a version that has no `_Py_DebugOffsets`.
    Table,
    /// From the table, because `_Py_DebugOffsets` could not be used.
    TableInstead(Rejection),
}

/// An interpreter that cannot be profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Its version, as far as it is known.
    pub version: Option<Version>,
    /// What is wrong with it.
    pub reason: Reason,
}

/// Why an interpreter cannot be profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no layout for its version, or the version could not be learned.
    Version,
    /// It has no global lock, which makes other layouts.
    FreeThreaded,
    /// It was built for debugging, which makes other layouts.
    Debug,
    /// It was made before its layouts were final.
    Preview,
    /// `_PyRuntime` has another size than in the version whose name the file has.
    RuntimeSize {
        /// Its size.
        bytes: u64,
    },
}

/// Looks for CPython in a file; `name` is its file name.
///
/// # Errors
///
/// When a part of it that is needed cannot be read.
pub fn inspect<S: Source>(elf: &Elf<S>, name: &str, effort: Effort) -> Result<Finding, Error> {
    let image = Image { elf, effort };
    let Some(runtime) = image.runtime()? else {
        return image.inspect_without_runtime(name);
    };
    let start = image.start_of(&runtime)?;
    let debug_offsets = DebugOffsets::new(&start);
    let named = image.named(name)?;

    let exact = image.exact_version(debug_offsets)?;
    let version = match exact {
        Some(version) => Some(version),
        None => image.guess_version(named, runtime.bytes)?,
    };
    let unsupported = |reason| Ok(Finding::Unsupported(Unsupported { version, reason }));
    let is_free_threaded = named.is_some_and(|named| named.is_free_threaded)
        || debug_offsets.is_some_and(|offsets| offsets.is_free_threaded());
    let Some(known) = version else {
        return unsupported(Reason::Version);
    };
    let Some(series) = series_of(known) else {
        return unsupported(Reason::Version);
    };
    if known.is_before_candidate() {
        return unsupported(Reason::Preview);
    }
    let is_debug =
        named.is_some_and(|named| named.is_debug) || image.symbol(DEBUG_FUNCTION)?.is_some();
    if is_debug {
        return unsupported(Reason::Debug);
    }
    // A name is a claim; the size of the structure that all addresses start from confirms it.
    if exact.is_none() && !series.runtime_bytes.contains(&runtime.bytes) {
        let bytes = runtime.bytes;
        return unsupported(Reason::RuntimeSize { bytes });
    }
    let table = if is_free_threaded {
        series.free_threaded.as_ref()
    } else {
        Some(&series.layout)
    };
    let Some(table) = table else {
        return unsupported(Reason::FreeThreaded);
    };
    let (layout, layout_source) = choose_layout(series, known, table, debug_offsets);
    Ok(Finding::Supported(Build {
        version: known,
        interpreters_head: runtime.field(layout.interpreter.runtime_head),
        gil_holder: (layout.interpreter.gil_style == GilStyle::LAST_HOLDER)
            .then(|| runtime.field(layout.interpreter.runtime_gil_holder)),
        layout,
        layout_source,
    }))
}

/// What the interpreter says about itself where that is sound, else the table.
fn choose_layout(
    series: &Series,
    version: Version,
    table: &Layout,
    debug_offsets: Option<DebugOffsets>,
) -> (Layout, LayoutSource) {
    let Some(positions) = &series.debug_offsets else {
        return (*table, LayoutSource::Table);
    };
    let layout = debug_offsets
        .ok_or(Rejection::Absent)
        .and_then(|offsets| offsets.layout(version, positions, table));
    match layout {
        Ok(layout) => (layout, LayoutSource::DebugOffsets),
        Err(rejection) => (*table, LayoutSource::TableInstead(rejection)),
    }
}

/// A place in the file.
struct Place {
    address: u64,
    bytes: u64,
}

impl Place {
    /// The address of a field.
    fn field(&self, offset: u16) -> u64 {
        self.address.wrapping_add(offset.into())
    }
}

/// A file that is looked into with limited effort.
struct Image<'a, S> {
    elf: &'a Elf<S>,
    effort: Effort,
}

impl<S: Source> Image<'_, S> {
    fn symbol(&self, name: &str) -> Result<Option<Place>, Error> {
        let symbol = match self.effort {
            Effort::Exported => self.elf.exported_symbol(name)?,
            Effort::All => self.elf.symbol(name)?,
        };
        Ok(symbol.map(|symbol| Place {
            address: symbol.address,
            bytes: symbol.bytes,
        }))
    }

    /// `_PyRuntime`: the section of this name is exactly that, and even a program that exports
    /// nothing and was stripped has it, from 3.10 on.
    fn runtime(&self) -> Result<Option<Place>, Error> {
        if let Some(section) = self.elf.section(".PyRuntime") {
            return Ok(Some(Place {
                address: section.address,
                bytes: section.bytes,
            }));
        }
        self.symbol("_PyRuntime")
    }

    /// The start of `_PyRuntime` in the file; empty where the file does not hold it.
    fn start_of(&self, runtime: &Place) -> Result<Vec<u8>, Error> {
        let most = debug_offsets::MAX_BYTES;
        let bytes = usize::try_from(runtime.bytes).map_or(most, |bytes| bytes.min(most));
        let mut start = vec![0; bytes];
        if !self.elf.initial_bytes(runtime.address, &mut start)? {
            start.clear();
        }
        Ok(start)
    }

    /// What the library's own name says, or that of its file.
    fn named(&self, file_name: &str) -> Result<Option<Named>, Error> {
        let soname = self.elf.soname()?;
        Ok(soname
            .and_then(|soname| Named::parse(&soname))
            .or_else(|| Named::parse(file_name)))
    }

    /// The version as the interpreter has it in its data, from 3.11 on.
    fn exact_version(&self, debug_offsets: Option<DebugOffsets>) -> Result<Option<Version>, Error> {
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

    /// The version by other signs: the name of the file, else the size of `_PyRuntime`, else the
    /// only version that is written somewhere in the file; and its last number from there.
    fn guess_version(
        &self,
        named: Option<Named>,
        runtime_bytes: u64,
    ) -> Result<Option<Version>, Error> {
        let literals = self.literals()?;
        let series = named
            .map(|named| named.version)
            .or_else(|| self.version_of_size(runtime_bytes));
        Ok(match series {
            Some(series) => literals
                .only(|version| version.is_same_series(series))
                .or(Some(series)),
            None => literals.only(|version| version.major == 3 && version.minor >= 7),
        })
    }

    /// The series in which `_PyRuntime` has this size, if there is only one.
    fn version_of_size(&self, bytes: u64) -> Option<Version> {
        // Elsewhere the sizes of neighbouring series coincide.
        if self.elf.machine() != EM_X86_64 {
            return None;
        }
        let series = SUPPORTED
            .iter()
            .find(|series| series.runtime_bytes.first() == Some(&bytes))?;
        Some(Version::of_series(3, series.minor))
    }

    fn literals(&self) -> Result<Literals, Error> {
        let mut literals = Literals::default();
        self.elf
            .scan_section(".rodata", Literals::OVERLAP, MAX_CONSTANTS, |piece| {
                literals.look(piece);
            })?;
        Ok(literals)
    }

    /// CPython up to 3.6 has no `_PyRuntime`, but a variable of its own for the running thread.
    fn inspect_without_runtime(&self, file_name: &str) -> Result<Finding, Error> {
        if self.symbol("_PyThreadState_Current")?.is_none() {
            return Ok(Finding::NotPython);
        }
        let major = if self.symbol(PYTHON_2_FUNCTION)?.is_some() {
            2
        } else {
            3
        };
        let named = self
            .named(file_name)?
            .map(|named| named.version)
            .filter(|version| version.major == major);
        let fits = |version: Version| {
            named.map_or(version.major == major, |named| {
                version.is_same_series(named)
            })
        };
        let version = self.literals()?.only(fits).or(named);
        Ok(Finding::Unsupported(Unsupported {
            version,
            reason: Reason::Version,
        }))
    }
}
