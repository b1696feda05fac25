//! The map values of the current processor.
//!
//! Invariant: no reference is held across a call of a step, which creates its own.

use agent_common::{
    layout::Layout,
    limits::{HOST_THREAD_CACHES, PROGRAM_THREAD_CACHES},
    python::CodeObjectRecord,
};

use crate::{
    maps::{
        ADDRESS_SEARCH, CODE_CACHE, CODE_OBJECT_RECORD, LAYOUTS, NATIVE_SAMPLER, SAMPLER,
        THREAD_CACHES, THREAD_NAME, URGENT, WAKES, WHOLE_HOST,
    },
    values::{
        AddressSearch, CodeCache, NativeSampler, Sampler, ThreadCache, ThreadNameRecord, Wakes,
    },
};

/// The current sample.
#[inline(always)]
pub(crate) fn sampler() -> Option<&'static mut Sampler> {
    let sampler = SAMPLER.get_ptr_mut(0)?;
    // SAFETY: the value lives as long as the map and belongs to this processor; steps
    // run one after the other and do not hold it.
    Some(unsafe { &mut *sampler })
}

/// The native part of the current sample.
#[inline(always)]
pub(crate) fn native() -> Option<&'static mut NativeSampler> {
    let native = NATIVE_SAMPLER.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *native })
}

/// The searches for a code address.
#[inline(always)]
pub(crate) fn address_search() -> Option<&'static mut AddressSearch> {
    let search = ADDRESS_SEARCH.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *search })
}

/// What the samples of the thread `tid` have in common.
#[inline(always)]
pub(crate) fn thread_cache(tid: u32) -> Option<&'static mut ThreadCache> {
    let caches = if WHOLE_HOST.load() != 0 {
        HOST_THREAD_CACHES
    } else {
        PROGRAM_THREAD_CACHES
    };
    let cache = THREAD_CACHES.get_ptr_mut(tid & (caches - 1))?;
    // SAFETY: the value lives as long as the map. Another processor may write it at the same time;
    // what is read is used only if its check sum is right.
    Some(unsafe { &mut *cache })
}

/// When this processor wakes the agent.
#[inline(always)]
pub(crate) fn wakes() -> Option<&'static mut Wakes> {
    let wakes = WAKES.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *wakes })
}

/// Whether a processor is to wake the agent.
#[inline(always)]
pub(crate) fn is_urgent() -> bool {
    // SAFETY: values of the map stay readable while the program runs; another processor may write it.
    URGENT
        .get_ptr(0)
        .is_some_and(|urgent| unsafe { urgent.read_volatile() } != 0)
}

/// Sets whether a processor is to wake the agent.
#[inline(always)]
pub(crate) fn set_urgent(is_urgent: bool) {
    if let Some(urgent) = URGENT.get_ptr_mut(0) {
        // SAFETY: values of the map stay writable while the program runs; of two processors that write at
        // the same time, one wakes the agent now and the other later.
        unsafe { urgent.write_volatile(u32::from(is_urgent)) };
    }
}

/// The table in front of `CODE_OBJECTS`.
#[inline(always)]
pub(crate) fn code_cache() -> Option<&'static mut CodeCache> {
    let code_cache = CODE_CACHE.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *code_cache })
}

/// The record of the code object that is being read.
#[inline(always)]
pub(crate) fn code_object_record() -> Option<&'static mut CodeObjectRecord> {
    let record = CODE_OBJECT_RECORD.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *record })
}

/// The record of the thread name that is being read.
#[inline(always)]
pub(crate) fn thread_name() -> Option<&'static mut ThreadNameRecord> {
    let name = THREAD_NAME.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *name })
}

/// The layout of the sampled process's interpreter.
#[inline(always)]
pub(crate) fn layout(sampler: &Sampler) -> Option<&'static Layout> {
    LAYOUTS.get(sampler.layout.get())
}
