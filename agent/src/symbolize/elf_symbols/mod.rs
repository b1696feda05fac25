//! Symbols of an ELF file: addresses → functions, files and lines.
//!
//! Invariants: the file is untrusted: nothing in it causes a panic, unbounded recursion or more memory
//! than [`SymbolLimits`] allow; an address without a symbol is data, with the reason. No file is
//! mapped: truncating a mapped file would kill the agent with SIGBUS.

mod cache;
mod dwarf;
mod go;
mod lookup;
mod symbols;
mod table;

#[cfg(feature = "testing")]
pub use self::symbols::DebugInfoStatus;
pub use self::{
    cache::SymbolCache,
    lookup::{AddressLookup, NoSymbolReason, SymbolFrame, SymbolLookup},
    symbols::{ElfSymbols, SymbolLimits},
};
