//! The symbol of a code object: the hash of its contents.

use crate::{
    layout::Layout,
    memory::{UserAddr, UserMemory},
    scratch::Scratch,
};

/// A cache of the symbols of a process's code objects.
pub trait SymbolLookup {
    /// The hash of the code object at `code`, with the bytes of its bytecode that the
    /// interpreter does not show; [`None`] when it has to be read first.
    fn symbol<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
    ) -> Option<CodeSymbol>;
}

/// What a frame takes from its code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSymbol {
    /// Hash of the code object.
    pub hash: u64,
    /// See
    /// [`CodeIdentity::first_traceable_bytes`](crate::maps::CodeIdentity::first_traceable_bytes).
    pub first_traceable_bytes: u32,
}
