//! What is known of the code objects of the sampled process.

use agent_common::{
    cache_age::{CacheAge, MAX_AGE_NS},
    counter::Counter,
    layout::Layout,
    maps::{CachedCode, CodeKey},
    memory::{UserAddr, UserMemory},
    python::{CodeSymbol, SymbolLookup, read_identity},
    scratch::Scratch,
};

use crate::{
    maps::{CODE_OBJECTS, count},
    values::{CodeCache, CodeCacheEntry, Sampler},
};

/// The code objects of one process, at one time.
#[derive(Clone, Copy)]
pub(crate) struct ProcessCode {
    /// The process.
    pub(crate) tgid: u32,
    /// Now, in nanoseconds of the monotonic clock.
    pub(crate) now_ns: u64,
    /// See `Control::resend_before_ns`.
    resend_before_ns: u64,
    /// Whether to believe nothing without a proof, see [`agent_common::cache_age`].
    pub(crate) is_strict: bool,
}

impl ProcessCode {
    /// The code objects of the sampled process.
    #[inline(always)]
    pub(crate) fn of(sampler: &Sampler) -> Self {
        let now_ns = sampler.time_ns.get();
        Self {
            tgid: sampler.tgid.get(),
            now_ns,
            resend_before_ns: sampler.resend_before_ns.get(),
            is_strict: now_ns.wrapping_sub(sampler.new_code_ns.get()) < MAX_AGE_NS,
        }
    }

    /// The key of the code object at `code`.
    #[inline(always)]
    pub(crate) fn key(self, code: UserAddr) -> CodeKey {
        CodeKey {
            address: code.0,
            tgid: self.tgid,
            reserved: 0,
        }
    }

    /// Whether the user half knows what is remembered of a code object.
    ///
    /// # Safety
    ///
    /// `known` must be readable.
    #[inline(always)]
    pub(crate) unsafe fn is_sent(self, known: *const CachedCode) -> bool {
        // SAFETY: the caller's.
        unsafe { (*known).trust.since_ns >= self.resend_before_ns }
    }

    /// The symbol of `code` as it is remembered, without a proof.
    #[inline(always)]
    pub(crate) fn cached(self, code: UserAddr) -> Option<CodeSymbol> {
        let known = CODE_OBJECTS.get_ptr(self.key(code))?;
        // SAFETY: values of the map stay readable while the program runs.
        Some(unsafe { symbol_of(known) })
    }

    /// The symbol of `code` as it is remembered in the map, proved if that is due.
    #[inline(always)]
    fn proved<M: UserMemory>(
        self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
    ) -> Option<(CodeSymbol, CacheAge)> {
        let known = CODE_OBJECTS.get_ptr_mut(self.key(code))?;
        // SAFETY: values of the map stay readable and writable while the program runs; another
        // processor may write the same proof at the same time, which does no harm.
        unsafe {
            if !self.is_sent(known) {
                return None;
            }
            if self.is_strict || (*known).trust.is_due(self.now_ns) {
                count(Counter::CODE_REVALIDATIONS);
                // A head that cannot be read now says nothing against what is known.
                if let Ok(head) = read_identity(memory, scratch, layout, code) {
                    if head != (*known).head {
                        count(Counter::CODE_REUSED);
                        return None;
                    }
                    (*known).trust.revalidated_ns = self.now_ns;
                }
            }
            Some((symbol_of(known), (*known).trust))
        }
    }
}

/// # Safety
///
/// `known` must be readable.
#[inline(always)]
unsafe fn symbol_of(known: *const CachedCode) -> CodeSymbol {
    // SAFETY: the caller's.
    unsafe {
        CodeSymbol {
            hash: (*known).symbol,
            first_traceable_bytes: (*known).head.first_traceable_bytes,
        }
    }
}

/// The code objects of one process and what this processor remembers of them.
pub(crate) struct CachedSymbols<'a> {
    /// The code objects.
    pub(crate) process: ProcessCode,
    /// The memo.
    pub(crate) code_cache: &'a mut CodeCache,
}

impl SymbolLookup for CachedSymbols<'_> {
    #[inline(always)]
    fn symbol<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
    ) -> Option<CodeSymbol> {
        let process = self.process;
        let entry = self.code_cache.entry(code);
        if !process.is_strict
            && entry.code == code.0
            && entry.tgid == process.tgid
            && process.now_ns <= entry.due_ns
        {
            return Some(CodeSymbol {
                hash: entry.symbol,
                first_traceable_bytes: entry.first_traceable_bytes,
            });
        }
        let (symbol, trust) = process.proved(memory, scratch, layout, code)?;
        *entry = CodeCacheEntry {
            code: code.0,
            symbol: symbol.hash,
            due_ns: trust.due_ns(),
            tgid: process.tgid,
            first_traceable_bytes: symbol.first_traceable_bytes,
        };
        Some(symbol)
    }
}
