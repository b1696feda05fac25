//! The values of maps that belong to the processor that runs.
//!
//! Invariant: no reference is kept over a call of a step, which makes one of its own.

use agent_common::{layout::Layout, python::Description};

use crate::{
    maps::{DESCRIPTION, LAYOUTS, MEMO, NAMING, NATIVE, SAMPLER},
    values::{Memo, Naming, NativeSampler, Sampler},
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
    let native = NATIVE.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *native })
}

/// The code objects that were looked up lately.
#[inline(always)]
pub(crate) fn memo() -> Option<&'static mut Memo> {
    let memo = MEMO.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *memo })
}

/// The record of a code object in the making.
#[inline(always)]
pub(crate) fn description() -> Option<&'static mut Description> {
    let description = DESCRIPTION.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *description })
}

/// The record of a thread's name in the making.
#[inline(always)]
pub(crate) fn naming() -> Option<&'static mut Naming> {
    let naming = NAMING.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *naming })
}

/// The layout of the sampled process's interpreter.
#[inline(always)]
pub(crate) fn layout(sampler: &Sampler) -> Option<&'static Layout> {
    LAYOUTS.get(sampler.layout.get())
}
