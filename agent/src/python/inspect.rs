//! Whether an ELF file contains CPython, which version, and where.
//!
//! Facts about a file, not about a process: they hold for every process that maps it.

use super::{
    debug_offsets::{DebugOffsets, Rejection},
    image::{Anchor, Image, Place},
    version::Version,
    versions::{Series, series_of},
};
use crate::elf::{Elf, Error, Source};
use agent_common::layout::{ABSENT, GilStyle, Layout};

pub use super::image::Effort;

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
    /// It is not known where its list of interpreters starts.
    Head,
}

/// Looks for CPython in a file; `name` is its file name.
///
/// # Errors
///
/// When a part of it that is needed cannot be read.
pub fn inspect<S: Source>(elf: &Elf<S>, name: &str, effort: Effort) -> Result<Finding, Error> {
    let image = Image::new(elf, name, effort)?;
    match image.anchor()? {
        None => Ok(Finding::NotPython),
        Some(Anchor::Runtime(runtime)) => inspect_runtime(&image, runtime),
        Some(Anchor::Variables {
            interpreters_head,
            gil_holder,
        }) => inspect_variables(&image, interpreters_head, gil_holder),
    }
}

/// CPython from 3.7 on.
fn inspect_runtime<S: Source>(image: &Image<S>, runtime: Place) -> Result<Finding, Error> {
    let start = image.start_of(runtime)?;
    let debug_offsets = DebugOffsets::new(&start);
    let exact = image.exact_version(debug_offsets)?;
    let version = match exact {
        Some(version) => Some(version),
        None => image.guess_version(runtime)?,
    };
    let unsupported = |reason| Ok(Finding::Unsupported(Unsupported { version, reason }));
    let is_free_threaded = image.is_named_free_threaded()
        || debug_offsets.is_some_and(|offsets| offsets.is_free_threaded());
    let Some(known) = version else {
        return unsupported(Reason::Version);
    };
    let Some(series) =
        series_of(known).filter(|series| series.layout.interpreter.runtime_head != ABSENT)
    else {
        return unsupported(Reason::Version);
    };
    if known.is_before_candidate() {
        return unsupported(Reason::Preview);
    }
    if image.is_debug()? {
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

/// CPython up to 3.6.
fn inspect_variables<S: Source>(
    image: &Image<S>,
    interpreters_head: Option<u64>,
    gil_holder: u64,
) -> Result<Finding, Error> {
    let version = image.guess_old_version()?;
    let unsupported = |reason| Ok(Finding::Unsupported(Unsupported { version, reason }));
    let Some((known, series)) = version.and_then(|version| Some((version, series_of(version)?)))
    else {
        return unsupported(Reason::Version);
    };
    if series.layout.interpreter.runtime_head != ABSENT {
        return unsupported(Reason::Version);
    }
    if image.is_debug()? {
        return unsupported(Reason::Debug);
    }
    let Some(interpreters_head) = interpreters_head else {
        return unsupported(Reason::Head);
    };
    Ok(Finding::Supported(Build {
        version: known,
        interpreters_head,
        gil_holder: Some(gil_holder),
        layout: series.layout,
        layout_source: LayoutSource::Table,
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
