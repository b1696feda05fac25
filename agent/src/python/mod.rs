//! CPython: whether a process runs it, which version, where its structures are, and how what the
//! kernel half sends of it is to be read.
//!
//! Invariants: detection reads no more of the memory of a process than whether an interpreter is
//! initialised, all else is read in `outside/`; versions are known in `versions/` alone.

pub mod debug_offsets;
pub mod detect;
pub mod dwarf;
pub mod error;
pub mod evaluation_loop;
mod file_cache;
mod getter;
pub mod inspect;
mod interpreter_file;
mod jumps;
mod layout_sizes;
pub mod layouts;
pub mod line_table;
pub mod remote;
pub mod text;
mod thread_pointer;
pub mod threading;
pub mod version;
mod version_hints;
pub mod versions;

pub use detect::{Detector, Interpreter};
pub use error::Error;
pub use version::Version;
