//! Whether an ELF file contains CPython, which version, and where.
//!
//! Facts about a file, not about a process: they hold for every process that maps it.

use super::{
    debug_offsets::DebugOffsets,
    dwarf,
    image::{Anchor, Image},
    layouts::{Choice, Known, LayoutSource, PassedOver, Sources, choose},
    version::Version,
    versions::{Series, nearest_series, series_of},
};
use crate::binaries::elf::{Elf, Error, Source};
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
    /// How it was built.
    pub flavour: Flavour,
    /// Address of the pointer to the newest interpreter state, before the load bias is added.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL, likewise; [`None`] where
    /// the thread states themselves say it.
    pub gil_holder: Option<u64>,
    /// Where its fields are.
    pub layout: Layout,
    /// How that is known.
    pub layout_source: LayoutSource,
    /// Better sources that could not be used.
    pub passed_over: Vec<PassedOver>,
}

/// How an interpreter was built, as far as it makes other layouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flavour {
    /// For debugging (`--with-pydebug`).
    pub is_debug: bool,
    /// Without a global lock (`--disable-gil`).
    pub is_free_threaded: bool,
}

/// An interpreter that cannot be profiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Its version, as far as it is known.
    pub version: Option<Version>,
    /// How it was built.
    pub flavour: Flavour,
    /// What is wrong with it.
    pub reason: Reason,
    /// The sources of its layout that could not be used.
    pub passed_over: Vec<PassedOver>,
}

/// Why an interpreter cannot be profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is older than what is supported, or its version could not be learned.
    Version,
    /// It is newer than the tables, and has no debugging information.
    NewVersion,
    /// It was made before its layouts were final, and has no debugging information.
    Preview,
    /// It has no global lock, which versions before 3.13 cannot do.
    FreeThreaded,
    /// It was built for debugging, which makes other layouts, and has no debugging information.
    Debug,
    /// `_PyRuntime` has another size than in the version whose name the file has.
    RuntimeSize {
        /// Its size.
        bytes: u64,
    },
    /// It is not known where its list of interpreters starts.
    Head,
    /// All sources of its layout were switched off.
    SwitchedOff,
}

/// Looks for CPython in a file; `name` is its file name.
///
/// `debug_file` finds the file with its debugging information, when it is needed and not in the
/// file itself.
///
/// # Errors
///
/// When a part of it that is needed cannot be read.
pub fn inspect<S: Source, D: Source>(
    elf: &Elf<S>,
    name: &str,
    effort: Effort,
    sources: Sources,
    debug_file: impl FnOnce(&Elf<S>) -> Option<Elf<D>>,
) -> Result<Finding, Error> {
    let image = Image::new(elf, name, effort)?;
    let Some(anchor) = image.anchor()? else {
        return Ok(Finding::NotPython);
    };
    let start = match anchor {
        Anchor::Runtime(runtime) => image.start_of(runtime)?,
        Anchor::Variables { .. } => Vec::new(),
    };
    let debug_offsets = DebugOffsets::new(&start);
    let exact = image.exact_version(debug_offsets)?;
    let version = match (exact, anchor) {
        (Some(version), _) => Some(version),
        (None, Anchor::Runtime(runtime)) => image.guess_version(runtime)?,
        (None, Anchor::Variables { .. }) => image.guess_old_version()?,
    };
    let flavour = Flavour {
        is_debug: image.is_debug()?,
        is_free_threaded: image.is_named_free_threaded()
            || debug_offsets.is_some_and(|offsets| offsets.is_free_threaded()),
    };
    let unsupported = |reason, passed_over| {
        Ok(Finding::Unsupported(Unsupported {
            version,
            flavour,
            reason,
            passed_over,
        }))
    };
    let Some((version, series)) = version.and_then(|it| Some((it, nearest_series(it)?))) else {
        return unsupported(Reason::Version, Vec::new());
    };
    let Some(table) = table_of(series, flavour) else {
        return unsupported(Reason::FreeThreaded, Vec::new());
    };
    let runtime = match anchor {
        Anchor::Runtime(runtime) => Some(runtime),
        Anchor::Variables { .. } => None,
    };
    // What starts from `_PyRuntime` in one version does not in another.
    if runtime.is_some() != (table.interpreter.runtime_head != ABSENT) {
        return unsupported(Reason::Version, Vec::new());
    }
    let known = Known {
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
            return dwarf::layout(elf, base, known.runtime_bytes);
        }
        let file = debug_file(elf).ok_or(dwarf::Error::Absent)?;
        dwarf::layout(&file, base, known.runtime_bytes)
    };
    let choice = match choose(&known, sources, by_dwarf) {
        Ok(choice) => choice,
        Err(passed_over) => return unsupported(reason_of(&known, sources), passed_over),
    };
    let Some((interpreters_head, gil_holder)) = addresses(anchor, &choice.layout) else {
        return unsupported(Reason::Head, Vec::new());
    };
    let Choice {
        layout,
        source,
        passed_over,
    } = choice;
    Ok(Finding::Supported(Build {
        version,
        flavour,
        interpreters_head,
        gil_holder,
        layout,
        layout_source: source,
        passed_over,
    }))
}

fn table_of(series: &'static Series, flavour: Flavour) -> Option<&'static Layout> {
    if flavour.is_free_threaded {
        series.free_threaded.as_ref()
    } else {
        Some(&series.layout)
    }
}

/// What keeps an interpreter from being supported whose layout no source tells.
fn reason_of(known: &Known, sources: Sources) -> Reason {
    if sources == Sources::NONE {
        Reason::SwitchedOff
    } else if known.version.is_before_candidate() {
        Reason::Preview
    } else if !known.has_table {
        Reason::NewVersion
    } else if known.is_debug {
        Reason::Debug
    } else {
        known
            .runtime_bytes
            .map_or(Reason::SwitchedOff, |bytes| Reason::RuntimeSize { bytes })
    }
}

/// Where the list of interpreters starts, and where it stands who holds the GIL.
fn addresses(anchor: Anchor, layout: &Layout) -> Option<(u64, Option<u64>)> {
    let fields = &layout.interpreter;
    match anchor {
        Anchor::Runtime(runtime) => {
            let gil_holder = (fields.gil_style == GilStyle::LAST_HOLDER)
                .then(|| runtime.field(fields.runtime_gil_holder));
            Some((runtime.field(fields.runtime_head), gil_holder))
        }
        Anchor::Variables {
            interpreters_head,
            gil_holder,
        } => Some((interpreters_head?, Some(gil_holder))),
    }
}
