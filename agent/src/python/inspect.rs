//! Whether an ELF file contains CPython, which version, and where.
//!
//! The result depends on the file only and holds for every process that maps it.

use super::{
    debug_offsets::DebugOffsets,
    dwarf,
    gil::GilLocation,
    interpreter_file::{InterpreterFile, StateLocation},
    layouts::{ChosenLayout, LayoutInputs, LayoutSource, LayoutSources, RejectedSource, choose},
    version::Version,
    versions::{VersionSeries, nearest_series, series_of},
};
use crate::binaries::{
    elf::{Elf, Error, Source},
    probe_points::ProbePoint,
};
use agent_common::layout::{ABSENT, GilStyle, Layout};

pub use super::interpreter_file::SymbolScope;

/// The result for a file.
#[derive(Clone, Debug)]
pub enum Inspection {
    /// No CPython.
    NotPython,
    /// A supported CPython.
    Supported(Box<InterpreterBuild>),
    /// An unsupported CPython.
    Unsupported(UnsupportedInterpreter),
}

/// An interpreter in a file.
#[derive(Clone, Debug)]
pub struct InterpreterBuild {
    /// Its version.
    pub version: Version,
    /// How it was built.
    pub flavour: Flavour,
    /// Address of the pointer to the newest interpreter state, before the load bias is added.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL, before the load bias is
    /// added; [`None`] where the thread states have a flag for it.
    pub gil_holder: Option<u64>,
    /// The words on which threads wait for the GIL, before the load bias is added.
    pub gil: GilLocation,
    /// Where in the file the interpreter is about to note a frame that an exception leaves, as an offset in
    /// bytes; [`None`] where it has no symbol.
    pub traceback: Option<ProbePoint>,
    /// The layout of its structures.
    pub layout: Layout,
    /// Where the layout comes from.
    pub layout_source: LayoutSource,
    /// Preferred sources that could not be used.
    pub rejected_sources: Vec<RejectedSource>,
}

/// Build options of an interpreter that change its layouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flavour {
    /// Debug build (`--with-pydebug`).
    pub is_debug: bool,
    /// Free-threaded build (`--disable-gil`).
    pub is_free_threaded: bool,
}

/// An interpreter that is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedInterpreter {
    /// Its version; [`None`] where unknown.
    pub version: Option<Version>,
    /// How it was built.
    pub flavour: Flavour,
    /// Why it is not supported.
    pub reason: UnsupportedReason,
    /// The sources of its layout that could not be used.
    pub rejected_sources: Vec<RejectedSource>,
}

/// Why an interpreter is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsupportedReason {
    /// Its version is too old or could not be determined.
    Version,
    /// It is newer than all tables and has no debugging information.
    NewVersion,
    /// It is an alpha or beta release, whose layouts are not final, and has no debugging
    /// information.
    Preview,
    /// It is a free-threaded build of a version that has no layouts for one.
    FreeThreaded,
    /// It is a debug build, which has other layouts, and has no debugging information.
    Debug,
    /// `_PyRuntime` differs in size from all releases of the version.
    RuntimeSize {
        /// Its size in bytes.
        bytes: u64,
    },
    /// The head of its list of interpreters could not be located.
    Head,
    /// All sources of its layout are disabled.
    SwitchedOff,
}

/// Looks for CPython in a file; `name` is its file name.
///
/// `debug_file` finds the separate file with debugging information; it is called when that is
/// needed and not in the file itself.
///
/// # Errors
///
/// When a required part of the file cannot be read.
pub fn inspect<S: Source, D: Source>(
    elf: &Elf<S>,
    name: &str,
    scope: SymbolScope,
    sources: LayoutSources,
    debug_file: impl FnOnce(&Elf<S>) -> Option<Elf<D>>,
) -> Result<Inspection, Error> {
    let file = InterpreterFile::new(elf, name, scope)?;
    let Some(location) = file.state_location()? else {
        return Ok(Inspection::NotPython);
    };
    let start = match location {
        StateLocation::Runtime(runtime) => file.start_of(runtime)?,
        StateLocation::Globals { .. } => Vec::new(),
    };
    let debug_offsets = DebugOffsets::new(&start);
    let exact = file.exact_version(debug_offsets)?;
    let version = match (exact, location) {
        (Some(version), _) => Some(version),
        (None, StateLocation::Runtime(runtime)) => file.guess_version(runtime)?,
        (None, StateLocation::Globals { .. }) => file.guess_old_version()?,
    };
    let flavour = Flavour {
        is_debug: file.is_debug()?,
        is_free_threaded: file.is_named_free_threaded()
            || debug_offsets.is_some_and(|offsets| offsets.is_free_threaded()),
    };
    let unsupported = |reason, rejected_sources| {
        Ok(Inspection::Unsupported(UnsupportedInterpreter {
            version,
            flavour,
            reason,
            rejected_sources,
        }))
    };
    let Some((version, series)) = version.and_then(|it| Some((it, nearest_series(it)?))) else {
        return unsupported(UnsupportedReason::Version, Vec::new());
    };
    let Some(table) = table_of(series, flavour) else {
        return unsupported(UnsupportedReason::FreeThreaded, Vec::new());
    };
    let runtime = match location {
        StateLocation::Runtime(runtime) => Some(runtime),
        StateLocation::Globals { .. } => None,
    };
    // Whether the state is in `_PyRuntime` depends on the version.
    if runtime.is_some() != (table.interpreter.runtime_head != ABSENT) {
        return unsupported(UnsupportedReason::Version, Vec::new());
    }
    let inputs = LayoutInputs {
        version,
        series,
        table,
        has_table: series_of(version).is_some() && !version.is_before_candidate(),
        is_debug: flavour.is_debug,
        is_exact: exact.is_some(),
        runtime_bytes: runtime.map(|runtime| runtime.bytes),
        debug_offsets,
    };
    let by_dwarf = |base: &Layout| {
        if elf.has_debug_info() {
            return dwarf::layout(elf, base, inputs.runtime_bytes);
        }
        let debug_file = debug_file(elf).ok_or(dwarf::Error::Absent)?;
        dwarf::layout(&debug_file, base, inputs.runtime_bytes)
    };
    let choice = match choose(&inputs, sources, by_dwarf) {
        Ok(choice) => choice,
        Err(rejected_sources) => return unsupported(reason_of(&inputs, sources), rejected_sources),
    };
    let Some(addresses) = Addresses::of(location, &choice.layout, flavour) else {
        return unsupported(UnsupportedReason::Head, Vec::new());
    };
    let ChosenLayout {
        layout,
        source,
        rejected_sources,
    } = choice;
    Ok(Inspection::Supported(Box::new(InterpreterBuild {
        version,
        flavour,
        interpreters_head: addresses.interpreters_head,
        gil_holder: addresses.gil_holder,
        gil: addresses.gil,
        traceback: file.traceback_point()?,
        layout,
        layout_source: source,
        rejected_sources,
    })))
}

fn table_of(series: &'static VersionSeries, flavour: Flavour) -> Option<&'static Layout> {
    if flavour.is_free_threaded {
        series.free_threaded.as_ref()
    } else {
        Some(&series.layout)
    }
}

/// Why an interpreter is not supported when no source gives its layout.
fn reason_of(inputs: &LayoutInputs, sources: LayoutSources) -> UnsupportedReason {
    if sources == LayoutSources::NONE {
        UnsupportedReason::SwitchedOff
    } else if inputs.version.is_before_candidate() {
        UnsupportedReason::Preview
    } else if !inputs.has_table {
        UnsupportedReason::NewVersion
    } else if inputs.is_debug {
        UnsupportedReason::Debug
    } else {
        inputs
            .runtime_bytes
            .map_or(UnsupportedReason::SwitchedOff, |bytes| {
                UnsupportedReason::RuntimeSize { bytes }
            })
    }
}

/// The addresses of an interpreter's state.
struct Addresses {
    /// See [`InterpreterBuild::interpreters_head`].
    interpreters_head: u64,
    /// See [`InterpreterBuild::gil_holder`].
    gil_holder: Option<u64>,
    /// See [`InterpreterBuild::gil`].
    gil: GilLocation,
}

impl Addresses {
    /// [`None`] when the head of the list of interpreters could not be determined.
    fn of(location: StateLocation, layout: &Layout, flavour: Flavour) -> Option<Self> {
        let fields = &layout.interpreter;
        match location {
            StateLocation::Runtime(runtime) => {
                let interpreters_head = runtime.field(fields.runtime_head);
                let gil_holder = (fields.gil_style == GilStyle::LAST_HOLDER)
                    .then(|| runtime.field(fields.runtime_gil_holder));
                let gil = match gil_holder {
                    Some(last_holder) => GilLocation::in_runtime(last_holder),
                    None => GilLocation::of_interpreters(
                        interpreters_head,
                        fields,
                        flavour.is_free_threaded,
                    ),
                };
                Some(Self {
                    interpreters_head,
                    gil_holder,
                    gil,
                })
            }
            StateLocation::Globals {
                interpreters_head,
                gil_holder,
                gil,
            } => Some(Self {
                interpreters_head: interpreters_head?,
                gil_holder: Some(gil_holder),
                gil,
            }),
        }
    }
}
