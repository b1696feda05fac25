//! ELF files: symbols, sections, soname and build ID, segments.
//!
//! Invariants: the bytes are untrusted: no value in them causes a panic, an unbounded loop or more
//! than a few megabytes of memory; only what is requested is read. What the loader needs is found
//! without section headers: `strip` keeps them, but a file can lack them.

mod contents;
mod debug_files;
mod dynamic;
mod dynamic_entries;
mod embedded;
mod error;
mod file;
mod functions;
mod go;
mod loaded;
mod notes;
mod numbers;
mod pages;
mod plt;
mod relocations;
mod scan;
mod segments;
mod source;
mod symbols;
mod usdt;

pub use debug_files::DebugFiles;
pub use error::Error;
pub use file::Elf;
pub(super) use file::{CONTEXT, HEADER_BYTES, SECTION_BYTES, SEGMENT_BYTES};
pub use functions::{Binding, Function, Which, is_mapping_symbol};
pub use go::{GoFunction, GoLine, GoTable, StackSize};
pub use notes::build_id_in;
pub use plt::PltStub;
pub use segments::{Placement, Segments};
pub use source::{Shared, Source};
pub use symbols::{Symbol, SymbolTable};

#[cfg(test)]
mod tests;
