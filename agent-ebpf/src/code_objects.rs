//! What is known of the code objects of the sampled process.

use agent_common::memory::UserMemory;
use agent_common::{
    code::{self, CodeKey, Known},
    counter::Counter,
    layout::Layout,
    memory::UserAddr,
    scratch::Scratch,
    walk::{CodeObjects, Symbol},
};

use crate::maps::{CODE_OBJECTS, count};

/// The code objects of one process, at one time.
#[derive(Clone, Copy)]
pub(crate) struct OfProcess {
    /// The process.
    pub(crate) tgid: u32,
    /// Now, in nanoseconds of the monotonic clock.
    pub(crate) now_ns: u64,
}

impl OfProcess {
    /// The key of the code object at `code`.
    #[inline(always)]
    pub(crate) fn key(self, code: UserAddr) -> CodeKey {
        CodeKey {
            address: code.0,
            tgid: self.tgid,
            reserved: 0,
        }
    }

    /// The symbol of `code` as it is remembered, without a proof.
    #[inline(always)]
    pub(crate) fn remembered(self, code: UserAddr) -> Option<Symbol> {
        let known = CODE_OBJECTS.get_ptr(self.key(code))?;
        // SAFETY: values of the map stay readable while the program runs.
        Some(unsafe { symbol_of(known) })
    }
}

/// # Safety
///
/// `known` must be readable.
#[inline(always)]
unsafe fn symbol_of(known: *const Known) -> Symbol {
    // SAFETY: the caller's.
    unsafe {
        Symbol {
            hash: (*known).symbol,
            first_traceable_bytes: (*known).head.first_traceable_bytes,
        }
    }
}

impl CodeObjects for OfProcess {
    #[inline(always)]
    fn symbol<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
    ) -> Option<Symbol> {
        let key = self.key(code);
        let known = CODE_OBJECTS.get_ptr_mut(key)?;
        // SAFETY: values of the map stay readable and writable while the program runs; another
        // processor may write the same proof at the same time, which does no harm.
        unsafe {
            if (*known).trust.is_due(self.now_ns) {
                count(Counter::CODE_PROOFS);
                // A head that cannot be read now says nothing against what is known.
                if let Ok(head) = code::read_head(memory, scratch, layout, code) {
                    if head != (*known).head {
                        count(Counter::CODE_REUSED);
                        return None;
                    }
                    (*known).trust.proved_ns = self.now_ns;
                }
            }
            Some(symbol_of(known))
        }
    }
}
