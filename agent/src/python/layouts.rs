//! Which of the sources of a layout is used: what the interpreter says of itself, the table of
//! its version, or its debugging information.
//!
//! Invariant: a source that cannot be right is passed over with the reason, never used in part.

use agent_common::layout::Layout;
use thiserror::Error;

use super::{
    debug_offsets::{self, DebugOffsets},
    dwarf,
    version::Version,
    versions::VersionSeries,
};

/// The sources that may be used; all of them unless a test wants to know what one says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutSources {
    /// The interpreter's own `_Py_DebugOffsets`.
    pub debug_offsets: bool,
    /// The table of its version.
    pub table: bool,
    /// Its debugging information.
    pub dwarf: bool,
}

impl LayoutSources {
    /// None of them.
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

/// How a layout is known, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutSource {
    /// From the interpreter's own `_Py_DebugOffsets`.
    DebugOffsets,
    /// From the table of its version.
    Table,
    /// From its debugging information.
    Dwarf,
}

/// A source that was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectedSource {
    /// Which.
    pub source: LayoutSource,
    /// Why.
    pub reason: RejectionReason,
}

/// Why a source was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RejectionReason {
    /// It was not asked for.
    #[error("it was not to be used")]
    SwitchedOff,
    /// The debug offsets are not good.
    #[error(transparent)]
    DebugOffsets(#[from] debug_offsets::DebugOffsetsError),
    /// There is no table for the version.
    #[error("there is no table for this version")]
    NoTable,
    /// The tables are for releases.
    #[error("the tables are for builds for release, and this is one for debugging")]
    Debug,
    /// `_PyRuntime` has another size than in the releases of the version.
    #[error("_PyRuntime has {bytes} bytes, unlike that of any release of this version")]
    RuntimeSize {
        /// Its size.
        bytes: u64,
    },
    /// The debugging information is not good.
    #[error(transparent)]
    Dwarf(#[from] dwarf::Error),
}

/// What is known of an interpreter before its layout is.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayoutInputs<'a> {
    pub(super) version: Version,
    /// The series that it belongs to, or that comes nearest.
    pub(super) series: &'static VersionSeries,
    /// The table of the series for this kind of build, and whether it is meant for the version.
    pub(super) table: &'static Layout,
    pub(super) has_table: bool,
    pub(super) is_debug: bool,
    /// Whether the interpreter itself says its version.
    pub(super) is_exact: bool,
    pub(super) runtime_bytes: Option<u64>,
    pub(super) debug_offsets: Option<DebugOffsets<'a>>,
}

/// A layout that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChosenLayout {
    pub(super) layout: Layout,
    pub(super) source: LayoutSource,
    pub(super) rejected_sources: Vec<RejectedSource>,
}

/// Chooses the layout; `dwarf` says what the debugging information gives, and is only asked when
/// nothing better is there.
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
    // A release that is newer than the table may have a larger `_PyRuntime`; what layouts are
    // about does not move within a series.
    let is_mere_size = matches!(doubt, Some(RejectionReason::RuntimeSize { .. }));
    if is_mere_size && inputs.is_exact {
        rejected_sources.retain(|it| it.source != LayoutSource::Table);
        return Ok(ChosenLayout {
            rejected_sources,
            ..by_table()
        });
    }
    Err(rejected_sources)
}

/// What the interpreter says of itself.
fn by_debug_offsets(
    inputs: &LayoutInputs,
    sources: LayoutSources,
) -> Result<Layout, RejectionReason> {
    if !sources.debug_offsets {
        return Err(RejectionReason::SwitchedOff);
    }
    if !inputs.has_table {
        // Where it has what is only known of versions that have a table too.
        return Err(RejectionReason::NoTable);
    }
    let positions = inputs.series.debug_offsets.as_ref();
    let (Some(positions), Some(offsets)) = (positions, inputs.debug_offsets) else {
        return Err(debug_offsets::DebugOffsetsError::Absent.into());
    };
    Ok(offsets.layout(inputs.version, positions, inputs.table)?)
}

/// Why the table should not be used.
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
    // A name is a claim; the size of the structure that all addresses start from confirms it.
    let is_known = inputs.series.runtime_bytes.contains(&bytes);
    (!is_known).then_some(RejectionReason::RuntimeSize { bytes })
}
