//! Executable files, each with a number, and the processes that map them.
//!
//! A file is identified by device and inode, so that all processes that map it share its number, its
//! unwind table and its symbols. Numbers are not reused: stacks that the BPF programs have sent keep
//! their meaning.
//!
//! Invariants: a file is opened when it is first seen, and at most 2,048 are open, of which those that
//! no process maps are closed for new ones, the longest unused first; unwind
//! tables take at most 64 MiB in the kernel; tables of files that no process maps are unloaded first.
//!
//! A file that no process maps any more is kept for a while, with its table and its symbols: most
//! programs run again. Then it is forgotten, and its table's index given to another. No sample refers
//! to it any more by then: only its processes had its number, and what the BPF programs have resolved
//! for them is valid only while their mappings are the same.

mod bytes;
mod entries;
mod executable;
mod mapped_program;
mod registry;
mod tables;
mod vdso;

pub use bytes::Bytes;
pub use entries::ExecutableCounts;
pub use executable::Executable;
#[cfg(test)]
pub use mapped_program::Identity;
pub use mapped_program::MappedProgram;
pub use registry::{Executables, MappedExecutables};
pub use tables::{
    Compilation, CompileJob, NewTable, TableRequest, TableSet, TableUpdate, compile_with_marks,
};
