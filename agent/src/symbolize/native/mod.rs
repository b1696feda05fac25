//! Addresses in an ELF file → functions, files and lines.
//!
//! Invariants: the file is untrusted: nothing in it makes this panic, recurse without a bound or
//! take more memory than [`Limits`] say; what is not known is data, with the reason for it. No
//! file is mapped: one that is cut short while it is mapped kills its reader.

mod cache;
mod dwarf;
mod lookup;
mod symbols;
mod table;

#[cfg(feature = "testing")]
pub use self::{lookup::Frame, symbols::DebugInfo};
pub use self::{
    cache::SymbolCache,
    lookup::{Found, Reason},
    symbols::{Limits, Symbols},
};
