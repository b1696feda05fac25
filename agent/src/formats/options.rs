//! Options of encoding.

use super::{format::Format, function_names::FunctionNames};
use crate::profile::{LineNumbers, TypeNaming};

/// Options of encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Whether the root of folded stacks and flame graphs is the thread; in pprof it is a label.
    pub threads: bool,
    /// Whether samples of pprof have no labels: samples with equal stacks are merged across threads and
    /// processes.
    pub without_labels: bool,
    /// How Python functions are named.
    pub function_names: FunctionNames,
    /// Whether internals of the interpreter are shown.
    pub internals: Internals,
    /// Which lines frames have.
    pub line_numbers: LineNumbers,
    /// Whether names of frames have the whole path of a file in every format.
    pub full_file_names: bool,
    /// Whose names of the kind pprof has.
    pub type_naming: TypeNaming,
}

/// Whether frames are shown by which an interpreter runs, and by which it runs functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Internals {
    /// In formats that programs read; not in flame graphs and tables, which people read.
    #[default]
    ByFormat,
    /// Everywhere.
    Shown,
    /// Nowhere.
    Hidden,
}

impl Internals {
    /// Whether a format has them.
    #[must_use]
    pub fn are_in(self, format: Format) -> bool {
        match self {
            Self::ByFormat => !format.is_flame_graph(),
            Self::Shown => true,
            Self::Hidden => false,
        }
    }

    /// Whether tables have them.
    #[must_use]
    pub fn are_in_tables(self) -> bool {
        self == Self::Shown
    }
}
