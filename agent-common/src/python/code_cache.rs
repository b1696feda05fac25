//! When a cached code object has to be compared with the one at its address.

use crate::{
    cache_age::{CacheAge, MAX_AGE_NS},
    layout::Layout,
    maps::{CachedCode, CodeIdentity},
    memory::{UserAddr, UserMemory},
    scratch::Scratch,
};

use super::{code_object::read_identity, symbol::CodeSymbol};

/// Whether a cached code object is still at its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revalidation {
    /// It is recent enough; nothing was read.
    NotDue,
    /// It is, or its address cannot be read now, which does not make it invalid.
    Valid,
    /// Another one is there.
    Replaced,
}

/// Whether every cached code object has to be revalidated at each sample: for as long as an entry
/// may stay unchecked after a new code object was seen in the process, since that may have taken
/// the place of any other one.
#[inline(always)]
#[must_use]
pub const fn is_strict(now_ns: u64, new_code_ns: u64) -> bool {
    now_ns.wrapping_sub(new_code_ns) < MAX_AGE_NS
}

impl CachedCode {
    /// A code object that was just read.
    #[inline(always)]
    #[must_use]
    pub const fn new(hash: u64, identity: CodeIdentity, now_ns: u64) -> Self {
        Self {
            symbol: hash,
            identity,
            age: CacheAge::new(now_ns),
        }
    }

    /// Its symbol.
    #[inline(always)]
    #[must_use]
    pub const fn code_symbol(&self) -> CodeSymbol {
        CodeSymbol {
            hash: self.symbol,
            first_traceable_bytes: self.identity.first_traceable_bytes,
        }
    }

    /// Compares it with the code object at `code`, if that is due.
    #[inline(always)]
    pub fn revalidate<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
        now_ns: u64,
        is_strict: bool,
    ) -> Revalidation {
        if !is_strict && !self.age.is_due(now_ns) {
            return Revalidation::NotDue;
        }
        if let Ok(identity) = read_identity(memory, scratch, layout, code) {
            if identity != self.identity {
                return Revalidation::Replaced;
            }
            self.age.revalidated_ns = now_ns;
        }
        Revalidation::Valid
    }
}
