//! CPython: whether a process runs it, which version, where its structures are, and how what the
//! kernel half sends of it is to be read.
//!
//! Invariants: detection reads no more of the memory of a process than whether an interpreter is
//! initialised, all else is read in `outside/`; versions are known in `versions/` alone.

mod clues;
pub mod debug_offsets;
pub mod detect;
pub mod dwarf;
pub mod error;
pub mod evaluation_loop;
mod files;
mod getter;
mod image;
pub mod inspect;
mod jumps;
mod layout_sizes;
pub mod layouts;
pub mod line_table;
pub mod remote;
pub mod text;
mod thread_pointer;
pub mod threading;
pub mod version;
pub mod versions;

pub use detect::{Detector, Interpreter};
pub use error::Error;
pub use version::Version;
