//! Options of encoding.

use super::function_names::FunctionNames;
use crate::profile::TypeNaming;

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
    /// Whose names of the kind pprof has.
    pub type_naming: TypeNaming,
}
