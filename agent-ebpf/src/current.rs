//! The map values of the current processor.
//!
//! Invariant: no reference is held across a call of a step, which creates its own.

use agent_common::{layout::Layout, python::CodeObjectRecord};

use crate::{
    maps::{CODE_CACHE, CODE_OBJECT_RECORD, LAYOUTS, NATIVE_SAMPLER, SAMPLER, THREAD_NAME},
    values::{CodeCache, NativeSampler, Sampler, ThreadNameRecord},
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
