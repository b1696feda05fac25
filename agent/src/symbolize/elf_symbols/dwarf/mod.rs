//! Debugging information (DWARF): addresses → functions, inlined functions, files and lines.
//!
//! gimli parses the format. The crate addr2line is not used: it recurses as deep as the file says, so
//! that a file of 100 KB overflows the stack, and it keeps all that it has read.
//!
//! Invariants: the file is untrusted: nothing in it causes a panic or recursion; what is read for one
//! look-up is bounded, and after a look-up that exceeds the bound the debugging information of the
//! file is not used again; what is kept between look-ups is bounded by [`DwarfLimits`].
//!
//! Not supported: split DWARF (`.dwo`); it gives lines, but no inlined functions.

mod budget;
mod debug_info;
mod dwarf_reader;
mod error;
mod files;
mod functions;
mod index;
mod inflated;
mod lines;
mod meter;
mod paged_section;
mod scopes;
mod section_reader;
mod sections;
mod spool;
mod stored_unit;
mod unit;
mod unit_cache;

pub use self::{
    budget::DwarfLimits,
    debug_info::{DwarfInfo, InlineLevel},
    error::DwarfError,
    files::DwarfFiles,
};
