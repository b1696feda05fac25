//! The symbols of the code objects of the sampled process: a table per processor in front of the
//! map `CODE_OBJECTS`.

use agent_common::{
    cache_age::CacheAge,
    counter::Counter,
    layout::Layout,
    maps::{CachedCode, CodeKey},
    memory::{UserAddr, UserMemory},
    python::{CodeSymbol, Revalidation, SymbolLookup, is_strict},
    scratch::Scratch,
};

use crate::{
    maps::{CODE_OBJECTS, count},
    values::{CodeCache, CodeCacheEntry, Sampler},
};

/// The code objects of one process at one time.
#[derive(Clone, Copy)]
pub(crate) struct ProcessCode {
    /// The process.
    pub(crate) tgid: u32,
    /// The time of the sample, in nanoseconds of the monotonic clock.
    pub(crate) now_ns: u64,
    /// See `Control::resend_before_ns`.
    resend_before_ns: u64,
    /// See [`is_strict`].
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
            is_strict: is_strict(now_ns, sampler.new_code_ns.get()),
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

    /// Whether the agent has the record of a cached code object.
    ///
    /// # Safety
    ///
    /// `cached` must be readable.
    #[inline(always)]
    pub(crate) unsafe fn is_sent(self, cached: *const CachedCode) -> bool {
        // SAFETY: the caller's.
        unsafe { (*cached).age.since_ns >= self.resend_before_ns }
    }

    /// The cached symbol of `code`, not revalidated.
    #[inline(always)]
    pub(crate) fn cached(self, code: UserAddr) -> Option<CodeSymbol> {
        let cached = CODE_OBJECTS.get_ptr(self.key(code))?;
        // SAFETY: values of the map stay readable while the program runs.
        Some(unsafe { (*cached).code_symbol() })
    }

    /// The cached symbol of `code`, revalidated if that is due.
    #[inline(always)]
    fn revalidated<M: UserMemory>(
        self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
    ) -> Option<(CodeSymbol, CacheAge)> {
        let cached = CODE_OBJECTS.get_ptr_mut(self.key(code))?;
        // SAFETY: values of the map stay readable and writable while the program runs; another
        // processor may write the same time of revalidation, which does no harm.
        unsafe {
            if !self.is_sent(cached) {
                return None;
            }
            let is_strict = self.is_strict;
            match (*cached).revalidate(memory, scratch, layout, code, self.now_ns, is_strict) {
                Revalidation::NotDue => {}
                Revalidation::Valid => count(Counter::CODE_REVALIDATIONS),
                Revalidation::Replaced => {
                    count(Counter::CODE_REVALIDATIONS);
                    count(Counter::CODE_REUSED);
                    return None;
                }
            }
            Some(((*cached).code_symbol(), (*cached).age))
        }
    }
}

/// The code objects of one process, with the table of this processor.
pub(crate) struct CachedSymbols<'a> {
    /// The code objects.
    pub(crate) process: ProcessCode,
    /// The table.
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
        let (symbol, age) = process.revalidated(memory, scratch, layout, code)?;
        *entry = CodeCacheEntry {
            code: code.0,
            symbol: symbol.hash,
            due_ns: age.due_ns(),
            tgid: process.tgid,
            first_traceable_bytes: symbol.first_traceable_bytes,
        };
        Some(symbol)
    }
}
