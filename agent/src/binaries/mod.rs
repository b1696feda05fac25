//! The files that processes map: ELF, unwind tables, symbols.

pub mod elf;
pub mod executables;
pub mod unwind;
