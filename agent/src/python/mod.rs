//! CPython: whether a process runs it, which version, where its structures are, and how what the
//! kernel half sends of it is to be read.
//!
//! Invariants: the memory of the process is not read, only its ELF files are; versions are
//! known in `versions/` alone.

mod clues;
pub mod debug_offsets;
pub mod detect;
pub mod error;
mod getter;
mod image;
pub mod inspect;
pub mod line_table;
pub mod text;
pub mod version;
pub mod versions;

pub use detect::{Interpreter, detect};
pub use error::Error;
pub use version::Version;
