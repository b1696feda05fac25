//! Chooses the source of a layout: the interpreter's own debug offsets, the built-in table of its
//! version, or its debugging information.
//!
//! Invariant: a source that fails a check is rejected as a whole, with the reason.

use agent_common::layout::Layout;
use thiserror::Error;

use super::{
    debug_offsets::{self, DebugOffsets},
    dwarf,
    version::Version,
    versions::VersionSeries,
};

/// The sources that may be used: all of them, except in tests of single sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutSources {
    /// The interpreter's own `_Py_DebugOffsets`.
    pub debug_offsets: bool,
    /// The built-in table of its version.
    pub table: bool,
    /// Its debugging information.
    pub dwarf: bool,
}

impl LayoutSources {
    /// No source.
    pub const NONE: Self = Self {
        debug_offsets: false,
        table: false,
        dwarf: false,
    };
}

impl Default for LayoutSources {
    fn default() -> Self {
        Self {
            debug_offsets: true,
            table: true,
            dwarf: true,
        }
    }
}

/// Where a layout comes from, the preferred source first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutSource {
    /// The interpreter's own `_Py_DebugOffsets`.
    DebugOffsets,
    /// The built-in table of its version.
    Table,
    /// Its debugging information.
    Dwarf,
}

/// A source that could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectedSource {
    /// The source.
    pub source: LayoutSource,
    /// Why it could not be used.
    pub reason: RejectionReason,
}

/// Why a source of a layout could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RejectionReason {
    /// The source is disabled.
    #[error("this source is disabled")]
    SwitchedOff,
    /// The debug offsets are absent or invalid.
    #[error(transparent)]
    DebugOffsets(#[from] debug_offsets::DebugOffsetsError),
    /// There is no table for the version.
    #[error("there is no table for this version")]
    NoTable,
    /// The tables are for release builds.
    #[error("the tables are for release builds, and this is a debug build")]
    Debug,
    /// `_PyRuntime` differs in size from all releases of the version.
    #[error("_PyRuntime has {bytes} bytes, which no known release of this version has")]
    RuntimeSize {
        /// Its size in bytes.
        bytes: u64,
    },
    /// The debugging information is absent or invalid.
    #[error(transparent)]
    Dwarf(#[from] dwarf::Error),
}

/// What determines the layout of an interpreter.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayoutInputs<'a> {
    pub(super) version: Version,
    /// The series of the version, or the nearest one.
    pub(super) series: &'static VersionSeries,
    /// The table of the series for this kind of build.
    pub(super) table: &'static Layout,
    /// Whether the table is for exactly this version.
    pub(super) has_table: bool,
    pub(super) is_debug: bool,
    /// Whether the version was read from the data of the interpreter, not guessed.
    pub(super) is_exact: bool,
    pub(super) runtime_bytes: Option<u64>,
    pub(super) debug_offsets: Option<DebugOffsets<'a>>,
}

/// The chosen layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChosenLayout {
    pub(super) layout: Layout,
    pub(super) source: LayoutSource,
    pub(super) rejected_sources: Vec<RejectedSource>,
}

/// Chooses the layout. `dwarf` reads it from the debugging information, based on a table, and is
/// only called when no preferred source can be used.
///
/// # Errors
///
/// The rejected sources, when there is no other.
pub(super) fn choose(
    inputs: &LayoutInputs,
    sources: LayoutSources,
    dwarf: impl FnOnce(&Layout) -> Result<Layout, dwarf::Error>,
) -> Result<ChosenLayout, Vec<RejectedSource>> {
    let mut rejected_sources = Vec::new();
    let mut reject = |source, reason| rejected_sources.push(RejectedSource { source, reason });
    if inputs.series.debug_offsets.is_some() {
        match by_debug_offsets(inputs, sources) {
            Ok(layout) => {
                let source = LayoutSource::DebugOffsets;
                return Ok(ChosenLayout {
                    layout,
                    source,
                    rejected_sources,
                });
            }
            Err(reason) => reject(LayoutSource::DebugOffsets, reason),
        }
    }
    let by_table = || ChosenLayout {
        layout: *inputs.table,
        source: LayoutSource::Table,
        rejected_sources: Vec::new(),
    };
    let doubt = doubt_about_table(inputs, sources);
    match doubt {
        None => {
            return Ok(ChosenLayout {
                rejected_sources,
                ..by_table()
            });
        }
        Some(reason) => reject(LayoutSource::Table, reason),
    }
    let by_dwarf = if sources.dwarf {
        dwarf(inputs.table).map_err(RejectionReason::Dwarf)
    } else {
        Err(RejectionReason::SwitchedOff)
    };
    match by_dwarf {
        Ok(layout) => {
            return Ok(ChosenLayout {
                layout,
                source: LayoutSource::Dwarf,
                rejected_sources,
            });
        }
        Err(reason) => reject(LayoutSource::Dwarf, reason),
    }
    // A release newer than the table may have a larger `_PyRuntime`; the fields of layouts keep
    // their offsets within a series.
    let is_size_only = matches!(doubt, Some(RejectionReason::RuntimeSize { .. }));
    if is_size_only && inputs.is_exact {
        rejected_sources.retain(|it| it.source != LayoutSource::Table);
        return Ok(ChosenLayout {
            rejected_sources,
            ..by_table()
        });
    }
    Err(rejected_sources)
}

/// The layout by the debug offsets of the interpreter.
fn by_debug_offsets(
    inputs: &LayoutInputs,
    sources: LayoutSources,
) -> Result<Layout, RejectionReason> {
    if !sources.debug_offsets {
        return Err(RejectionReason::SwitchedOff);
    }
    if !inputs.has_table {
        // Positions in debug offsets exist only for versions with a table.
        return Err(RejectionReason::NoTable);
    }
    let positions = inputs.series.debug_offsets.as_ref();
    let (Some(positions), Some(offsets)) = (positions, inputs.debug_offsets) else {
        return Err(debug_offsets::DebugOffsetsError::Absent.into());
    };
    Ok(offsets.layout(inputs.version, positions, inputs.table)?)
}

/// Why the table cannot be trusted; [`None`] when it can.
fn doubt_about_table(inputs: &LayoutInputs, sources: LayoutSources) -> Option<RejectionReason> {
    if !sources.table {
        return Some(RejectionReason::SwitchedOff);
    }
    if !inputs.has_table {
        return Some(RejectionReason::NoTable);
    }
    if inputs.is_debug {
        return Some(RejectionReason::Debug);
    }
    let bytes = inputs.runtime_bytes?;
    // A version taken from a file name is a claim; the size of `_PyRuntime` confirms it.
    let is_known = inputs.series.runtime_bytes.contains(&bytes);
    (!is_known).then_some(RejectionReason::RuntimeSize { bytes })
}
