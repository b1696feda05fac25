//! Encodes profiles and reads them again: one module per format.
//!
//! Invariants: the same profile gives the same bytes; no name makes a file malformed; nothing here does
//! I/O of its own.

mod callgrind;
mod chart;
mod chrome;
mod cpuprofile;
mod encode;
mod firefox;
mod folded;
mod format;
mod frame_text;
mod function_names;
#[cfg(test)]
mod golden;
mod json;
mod jsonl;
pub mod losses;
mod options;
mod perf_script;
mod pprof;
mod python_module;
mod shown_frame;
mod speedscope;
mod svg;
mod thread_stacks;

#[cfg(feature = "testing")]
pub use self::pprof::schema as pprof_schema;
pub use self::{
    encode::encode,
    format::Format,
    function_names::{FunctionNames, ShownNames},
    options::{EncodeOptions, Internals},
    pprof::{PprofFile, PprofHeader, PprofProfile, PprofReadError},
    python_module::module as python_module,
    thread_stacks::thread_title,
};
