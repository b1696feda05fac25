//! Files that processes map: ELF, unwind tables, executables.

pub mod elf;
pub mod executables;
pub mod probe_points;
pub mod unwind;
