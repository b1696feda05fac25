//! The symbols of the code objects of the sampled process: the map `CODE_OBJECTS`, and what may be
//! used without it.

use agent_common::{
    cache_age::CacheAge,
    counter::Counter,
    layout::Layout,
    maps::{CachedCode, CodeKey},
    memory::{UserAddr, UserMemory},
    python::{CodeSymbol, Revalidation, SymbolLookup, trusted_since},
    scratch::Scratch,
};

use crate::{
    current,
    maps::{CODE_OBJECTS, PROCESS_STATES, count},
    values::{CodeCacheEntry, Sampler, VALID_UNIT_NS},
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
    /// See [`trusted_since`].
    trusted_since_ns: u64,
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
            trusted_since_ns: trusted_since(
                now_ns,
                sampler.new_code_ns.get(),
                sampler.reused_ns.get(),
            ),
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

    /// The symbol of `code` in an entry that may be used without a revalidation.
    #[inline(always)]
    pub(crate) fn fresh(self, code: UserAddr, entry: &CodeCacheEntry) -> Option<CodeSymbol> {
        let is_fresh = entry.code == code.0
            && entry.tgid == self.tgid
            && entry.revalidated_ns >= self.trusted_since_ns
            && self.now_ns <= entry.due_ns();
        is_fresh.then_some(CodeSymbol {
            hash: entry.symbol,
            first_traceable_bytes: u32::from(entry.first_traceable_bytes),
        })
    }

    /// The entry of a symbol; one that is never used where the prologue of the code object is as long
    /// as no compiler makes one.
    #[inline(always)]
    pub(crate) fn entry(self, code: UserAddr, symbol: CodeSymbol, age: CacheAge) -> CodeCacheEntry {
        let first_traceable_bytes = u16::try_from(symbol.first_traceable_bytes);
        CodeCacheEntry {
            code: first_traceable_bytes.map_or(0, |_| code.0),
            symbol: symbol.hash,
            revalidated_ns: age.revalidated_ns,
            tgid: self.tgid,
            first_traceable_bytes: first_traceable_bytes.unwrap_or_default(),
            valid_units: (age.valid_ns() / VALID_UNIT_NS) as u16,
        }
    }

    /// The cached symbol of `code`, revalidated if that is due.
    #[inline(always)]
    pub(crate) fn revalidated<M: UserMemory>(
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
            match (*cached).revalidate(
                memory,
                scratch,
                layout,
                code,
                self.now_ns,
                self.trusted_since_ns,
            ) {
                Revalidation::NotDue => {}
                Revalidation::Valid => count(Counter::CODE_REVALIDATIONS),
                Revalidation::Replaced => {
                    count(Counter::CODE_REVALIDATIONS);
                    count(Counter::CODE_REUSED);
                    note_reuse(self.tgid, self.now_ns);
                    return None;
                }
            }
            Some(((*cached).code_symbol(), (*cached).age))
        }
    }
}

/// Notes that a code object of the process has taken the place of another one.
#[inline(always)]
fn note_reuse(tgid: u32, now_ns: u64) {
    if let Some(sampler) = current::sampler() {
        sampler.reused_ns.set(now_ns);
    }
    if let Some(state) = PROCESS_STATES.get_ptr_mut(tgid) {
        // SAFETY: values of the map stay writable while the program runs; two processors may
        // write at the same time, and either time is right.
        unsafe { (*state).reused_ns = now_ns };
    }
}

/// Finds no symbol: the frames are resolved together, after the walk.
pub(crate) struct ResolvedLater;

impl SymbolLookup for ResolvedLater {
    #[inline(always)]
    fn symbol<M: UserMemory>(
        &mut self,
        _memory: &M,
        _scratch: &mut Scratch,
        _layout: &Layout,
        _code: UserAddr,
    ) -> Option<CodeSymbol> {
        None
    }
}
