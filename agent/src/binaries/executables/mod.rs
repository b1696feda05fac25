//! Executable files, each with a number, and the processes that map them.
//!
//! A file is identified by device and inode, so that all processes that map it share its number, its
//! unwind table and its symbols. Numbers are not reused: stacks that the BPF programs have sent keep
//! their meaning.
//!
//! Invariants: a file is opened once, when it is first seen, and at most 2,048 are open; unwind
//! tables take at most 40 MiB in the kernel; tables of files that no process maps are unloaded first.

mod bytes;
mod executable;
mod registry;
mod tables;
mod vdso;

pub use bytes::Bytes;
pub use executable::Executable;
pub use registry::{Executables, MappedExecutables};
pub use tables::{Compilation, CompileJob, TableSet, TableUpdate};
