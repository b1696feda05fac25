//! Files that processes map: ELF, unwind tables, executables; and core dumps of processes.

pub mod core_dump;
pub mod elf;
pub mod executables;
pub mod jumps;
pub mod probe_arguments;
pub mod probe_points;
pub mod unwind;
