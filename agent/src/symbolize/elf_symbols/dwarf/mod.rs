//! Addresses → functions, also inlined ones, files and lines, from debugging information.
//!
//! gimli understands the format. What is looked for and what is kept of it is decided here, not by
//! addr2line, which recurses as deep as the file says, so that 100 KB of it end the process, and
//! keeps all that it has read.
//!
//! Invariants: the file is untrusted: nothing in it makes this panic or recurse; what is read for
//! one address is bounded, and a file for which that was not enough is not asked again; between
//! look-ups not much more is kept than was asked for.
//!
//! Not understood: split DWARF (`.dwo`), of which lines are known, but not what was inlined.

mod budget;
mod bytes;
mod debug_info;
mod dwarf_reader;
mod error;
mod files;
mod functions;
mod index;
mod lines;
mod scopes;
mod sections;
mod unit;
mod unit_cache;

pub use self::{
    budget::DwarfLimits,
    debug_info::{DwarfInfo, InlineLevel},
    error::DwarfError,
    files::DwarfFiles,
};
