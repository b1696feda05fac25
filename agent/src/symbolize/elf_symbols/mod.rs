//! Addresses in an ELF file → functions, files and lines.
//!
//! Invariants: the file is untrusted: nothing in it makes this panic, recurse without a bound or
//! take more memory than [`SymbolLimits`] say; what is not known is data, with the reason for it. No
//! file is mapped: one that is cut short while it is mapped kills its reader.

mod cache;
mod dwarf;
mod lookup;
mod symbols;
mod table;

pub use self::{
    cache::SymbolCache,
    lookup::{NoSymbolReason, SymbolLookup},
    symbols::{ElfSymbols, SymbolLimits},
};
#[cfg(feature = "testing")]
pub use self::{lookup::SymbolFrame, symbols::DebugInfoStatus};
