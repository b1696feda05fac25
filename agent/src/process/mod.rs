//! What a running process is: its name, its executable, its mappings, its files, what it belongs
//! to and how it was started.
//!
//! Invariants: everything is read through one open directory `/proc/PID`, so that an id that is
//! used again never mixes two processes; a program that the process starts later is noticed; no
//! path leads out of the process's own root; nothing but a regular file is ever opened for
//! reading; nothing is read without a bound.

pub mod cgroup;
mod command_line;
mod environment;
mod error;
mod fault_in;
mod files;
pub mod maps;
mod memory;
mod path;
mod procfs;
mod tree;

pub use error::{Error, OpenError};
pub use fault_in::fault_in;
pub use files::{FileIdentity, open_on_host};
pub use memory::Memory;
pub use path::file_name;
pub use procfs::Process;
pub use tree::{Descendant, descendants};
