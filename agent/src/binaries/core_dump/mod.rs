//! Core dumps: the memory and the threads of a process that has ended, from the file that the kernel, gdb's `gcore` or
//! `coredumpctl dump` has written.
//!
//! ```text
//! headers    which memory is where in the file            PT_LOAD
//! notes      threads, signal, name, mapped files          PT_NOTE: NT_PRSTATUS, NT_PRPSINFO, NT_SIGINFO, NT_AUXV, NT_FILE
//! mapped     memory that is not in it, from those files
//! arguments  the command line
//! dump       all of it as memory
//! ```
//!
//! Invariants: the bytes are untrusted: sizes, counts and loops are bounded, ranges may overlap and the file may end
//! anywhere; only what is asked for is read. A mapped file is read in place of memory only if it is an ELF file that is
//! what the process had mapped, as far as the core dump says.

mod arguments;
mod dump;
mod error;
mod headers;
mod mapped;
mod notes;
mod status;

pub use dump::CoreDump;
pub use notes::CoreThread;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
