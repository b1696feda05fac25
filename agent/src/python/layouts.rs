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
    versions::Series,
};

/// The sources that may be used; all of them unless a test wants to know what one says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// The interpreter's own `_Py_DebugOffsets`.
    pub debug_offsets: bool,
    /// The table of its version.
    pub table: bool,
    /// Its debugging information.
    pub dwarf: bool,
}

impl Sources {
    /// None of them.
    pub const NONE: Self = Self {
        debug_offsets: false,
        table: false,
        dwarf: false,
    };
}

impl Default for Sources {
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
pub struct PassedOver {
    /// Which.
    pub source: LayoutSource,
    /// Why.
    pub why: Rejection,
}

/// Why a source was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// It was not asked for.
    #[error("it was not to be used")]
    SwitchedOff,
    /// The debug offsets are not good.
    #[error(transparent)]
    DebugOffsets(#[from] debug_offsets::Rejection),
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
pub(super) struct Known<'a> {
    pub(super) version: Version,
    /// The series that it belongs to, or that comes nearest.
    pub(super) series: &'static Series,
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
pub(super) struct Choice {
    pub(super) layout: Layout,
    pub(super) source: LayoutSource,
    pub(super) passed_over: Vec<PassedOver>,
}

/// Chooses the layout; `dwarf` says what the debugging information gives, and is only asked when
/// nothing better is there.
pub(super) fn choose(
    known: &Known,
    sources: Sources,
    dwarf: impl FnOnce(&Layout) -> Result<Layout, dwarf::Error>,
) -> Result<Choice, Vec<PassedOver>> {
    let mut passed_over = Vec::new();
    let mut pass_over = |source, why| passed_over.push(PassedOver { source, why });
    if known.series.debug_offsets.is_some() {
        match by_debug_offsets(known, sources) {
            Ok(layout) => {
                let source = LayoutSource::DebugOffsets;
                return Ok(Choice {
                    layout,
                    source,
                    passed_over,
                });
            }
            Err(why) => pass_over(LayoutSource::DebugOffsets, why),
        }
    }
    let by_table = || Choice {
        layout: *known.table,
        source: LayoutSource::Table,
        passed_over: Vec::new(),
    };
    let doubt = doubt_about_table(known, sources);
    match doubt {
        None => {
            return Ok(Choice {
                passed_over,
                ..by_table()
            });
        }
        Some(why) => pass_over(LayoutSource::Table, why),
    }
    let by_dwarf = if sources.dwarf {
        dwarf(known.table).map_err(Rejection::Dwarf)
    } else {
        Err(Rejection::SwitchedOff)
    };
    match by_dwarf {
        Ok(layout) => {
            return Ok(Choice {
                layout,
                source: LayoutSource::Dwarf,
                passed_over,
            });
        }
        Err(why) => pass_over(LayoutSource::Dwarf, why),
    }
    // A release that is newer than the table may have a larger `_PyRuntime`; what layouts are
    // about does not move within a series.
    let is_mere_size = matches!(doubt, Some(Rejection::RuntimeSize { .. }));
    if is_mere_size && known.is_exact {
        passed_over.retain(|it| it.source != LayoutSource::Table);
        return Ok(Choice {
            passed_over,
            ..by_table()
        });
    }
    Err(passed_over)
}

/// What the interpreter says of itself.
fn by_debug_offsets(known: &Known, sources: Sources) -> Result<Layout, Rejection> {
    if !sources.debug_offsets {
        return Err(Rejection::SwitchedOff);
    }
    if !known.has_table {
        // Where it has what is only known of versions that have a table too.
        return Err(Rejection::NoTable);
    }
    let positions = known.series.debug_offsets.as_ref();
    let (Some(positions), Some(offsets)) = (positions, known.debug_offsets) else {
        return Err(debug_offsets::Rejection::Absent.into());
    };
    Ok(offsets.layout(known.version, positions, known.table)?)
}

/// Why the table should not be used.
fn doubt_about_table(known: &Known, sources: Sources) -> Option<Rejection> {
    if !sources.table {
        return Some(Rejection::SwitchedOff);
    }
    if !known.has_table {
        return Some(Rejection::NoTable);
    }
    if known.is_debug {
        return Some(Rejection::Debug);
    }
    let bytes = known.runtime_bytes?;
    // A name is a claim; the size of the structure that all addresses start from confirms it.
    let is_known = known.series.runtime_bytes.contains(&bytes);
    (!is_known).then_some(Rejection::RuntimeSize { bytes })
}
