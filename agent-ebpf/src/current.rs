//! The values of maps that belong to the processor that runs.
//!
//! Invariant: no reference is kept over a call of a step, which makes one of its own.

use agent_common::{layout::Layout, python::CodeObjectRecord};

use crate::{
    maps::{CODE_CACHE, CODE_OBJECT_RECORD, LAYOUTS, NATIVE_SAMPLER, SAMPLER, THREAD_NAME},
    values::{CodeCache, NativeSampler, Sampler, ThreadNameRecord},
};

/// The sample in the making.
#[inline(always)]
pub(crate) fn sampler() -> Option<&'static mut Sampler> {
    let sampler = SAMPLER.get_ptr_mut(0)?;
    // SAFETY: the value lives as long as the map and belongs to this processor; steps
    // run one after the other and do not keep it.
    Some(unsafe { &mut *sampler })
}

/// The native part of the sample in the making.
#[inline(always)]
pub(crate) fn native() -> Option<&'static mut NativeSampler> {
    let native = NATIVE_SAMPLER.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *native })
}

/// The code objects that were looked up lately.
#[inline(always)]
pub(crate) fn code_cache() -> Option<&'static mut CodeCache> {
    let code_cache = CODE_CACHE.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *code_cache })
}

/// The record of a code object in the making.
#[inline(always)]
pub(crate) fn description() -> Option<&'static mut CodeObjectRecord> {
    let description = CODE_OBJECT_RECORD.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *description })
}

/// The record of a thread's name in the making.
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
