//! CPython: detects it in a process, determines its version and the layout of its structures,
//! reads stacks remotely, and decodes names and line tables.
//!
//! Invariants: detection reads only one word of a process's memory (whether an interpreter state
//! exists), all else is read in `remote/`; knowledge about single versions is in `versions/` only.

pub mod asyncio;
pub mod coroutines;
pub mod debug_offsets;
mod detect;
pub mod dwarf;
pub mod error;
pub mod evaluation_loop;
mod file_cache;
mod getter;
pub mod gil;
mod greenlets;
pub mod inspect;
mod interpreter;
mod interpreter_file;
mod layout_sizes;
pub mod layouts;
pub mod line_table;
mod marked_code;
mod program;
pub mod remote;
pub mod text;
mod thread_pointer;
pub mod threading;
pub mod variables;
pub mod version;
mod version_hints;
pub mod versions;

pub use detect::Detector;
pub use error::Error;
pub use interpreter::{Interpreter, ProbeSite};
pub use marked_code::marked_code;
pub(crate) use remote::is_lock_module;
pub use version::Version;
