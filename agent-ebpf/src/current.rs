//! The map values of the current processor.
//!
//! Invariant: no reference is held across a call of a step, which creates its own.

use agent_common::{
    layout::{Layout, RunStyle},
    limits::{CACHED_LOCATIONS, HOST_THREAD_CACHES, PROGRAM_THREAD_CACHES},
    python::CodeObjectRecord,
    record::StartedWait,
    stack_budget::StackBudget,
};

use aya_ebpf::helpers::bpf_get_smp_processor_id;

use crate::{
    maps::{
        ADDRESS_SEARCH, CODE_CACHE, CODE_OBJECT_RECORD, IN_PROBE, LAYOUTS, LOCATIONS,
        NATIVE_SAMPLER, SAMPLER, SLOTS, STACK_BUDGETS, STARTED_WAIT, SWITCHES, THREAD_CACHES,
        THREAD_NAME, URGENT, WAKES, WHOLE_HOST, WITH_PROBES,
    },
    values::{
        AddressSearch, CachedLocation, CodeCache, NativeSampler, Sampler, Slots, Switches,
        ThreadCache, ThreadNameRecord, Wakes,
    },
};

/// Insert only what is not there: `BPF_NOEXIST`.
const BPF_NOEXIST: u64 = 1;

/// The values of the sample that a trigger takes which nothing interrupts.
const OF_EVENTS: u32 = 0;

/// Those of the sample that a probe takes.
const OF_PROBES: u32 = 1;

/// Which of the values of this processor are those of the current sample.
#[inline(always)]
fn slot() -> u32 {
    if WITH_PROBES.load() == 0 {
        return OF_EVENTS;
    }
    match slots() {
        Some(slots) if slots.in_event.get() == 0 => OF_PROBES,
        _ => OF_EVENTS,
    }
}

#[inline(always)]
fn slots() -> Option<&'static mut Slots> {
    let slots = SLOTS.get_ptr_mut(0)?;
    // SAFETY: the value lives as long as the map and belongs to this processor; what interrupts the program
    // leaves it as it was.
    Some(unsafe { &mut *slots })
}

/// Begins a sample of a trigger, which no probe interrupts. Each call needs one of [`end_event`].
#[inline(always)]
pub(crate) fn begin_event() {
    if WITH_PROBES.load() != 0
        && let Some(slots) = slots()
    {
        slots.in_event.set(slots.in_event.get().wrapping_add(1));
    }
}

/// Ends a sample of a trigger.
#[inline(always)]
pub(crate) fn end_event() {
    if WITH_PROBES.load() != 0
        && let Some(slots) = slots()
    {
        slots.in_event.set(slots.in_event.get().wrapping_sub(1));
    }
}

/// Whether the current sample is that of a probe, which other threads may interrupt.
#[inline(always)]
pub(crate) fn is_of_probe() -> bool {
    slot() == OF_PROBES
}

/// Begins what a probe does; [`false`] where another thread does so on this processor, and has been interrupted.
/// Each call that returns [`true`] needs one of [`end_probe`].
#[inline(always)]
pub(crate) fn begin_probe() -> bool {
    IN_PROBE.insert(processor(), 0, BPF_NOEXIST).is_ok()
}

/// Ends what a probe does.
#[inline(always)]
pub(crate) fn end_probe() {
    // It is there, as the probe stays on its processor.
    let _ = IN_PROBE.remove(processor());
}

#[inline(always)]
fn processor() -> u32 {
    // SAFETY: the helper takes no arguments.
    unsafe { bpf_get_smp_processor_id() }
}

/// The place of a code address among those that this processor has looked up.
#[inline(always)]
pub(crate) fn cached_location(index: u32) -> Option<*mut CachedLocation> {
    LOCATIONS.get_ptr_mut(slot() * CACHED_LOCATIONS + index)
}

/// The current sample.
#[inline(always)]
pub(crate) fn sampler() -> Option<&'static mut Sampler> {
    let sampler = SAMPLER.get_ptr_mut(slot())?;
    // SAFETY: the value lives as long as the map and belongs to this processor; steps
    // run one after the other and do not hold it.
    Some(unsafe { &mut *sampler })
}

/// The native part of the current sample.
#[inline(always)]
pub(crate) fn native() -> Option<&'static mut NativeSampler> {
    let native = NATIVE_SAMPLER.get_ptr_mut(slot())?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *native })
}

/// The searches for a code address.
#[inline(always)]
pub(crate) fn address_search() -> Option<&'static mut AddressSearch> {
    let search = ADDRESS_SEARCH.get_ptr_mut(slot())?;
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

/// What this processor may copy of stacks.
#[inline(always)]
pub(crate) fn stack_budget() -> Option<&'static mut StackBudget> {
    let budget = STACK_BUDGETS.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`; a program that interrupts another one may spend a little more.
    Some(unsafe { &mut *budget })
}

/// The context switches of this processor.
#[inline(always)]
pub(crate) fn switches() -> Option<&'static mut Switches> {
    let switches = SWITCHES.get_ptr_mut(0)?;
    // SAFETY: as for `sampler`; nothing interrupts the program on context switches.
    Some(unsafe { &mut *switches })
}

/// The record of the sampled wait that begins on this processor.
#[inline(always)]
pub(crate) fn started_wait() -> Option<&'static mut StartedWait> {
    let record = STARTED_WAIT.get_ptr_mut(0)?;
    // SAFETY: as for `switches`.
    Some(unsafe { &mut *record })
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
    let code_cache = CODE_CACHE.get_ptr_mut(slot())?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *code_cache })
}

/// The record of the code object that is being read.
#[inline(always)]
pub(crate) fn code_object_record() -> Option<&'static mut CodeObjectRecord> {
    let record = CODE_OBJECT_RECORD.get_ptr_mut(slot())?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *record })
}

/// The record of the thread name that is being read.
#[inline(always)]
pub(crate) fn thread_name() -> Option<&'static mut ThreadNameRecord> {
    let name = THREAD_NAME.get_ptr_mut(slot())?;
    // SAFETY: as for `sampler`.
    Some(unsafe { &mut *name })
}

/// The layout of the sampled process's interpreter.
#[inline(always)]
pub(crate) fn layout(sampler: &Sampler) -> Option<&'static Layout> {
    LAYOUTS.get(sampler.layout.get())
}

/// How the sampled process's evaluation loops mark their runs; as without marks where it runs no interpreter.
#[inline(always)]
pub(crate) fn run_style(sampler: &Sampler) -> Option<RunStyle> {
    if sampler.interpreters_head.get() == 0 {
        return Some(RunStyle::EACH);
    }
    layout(sampler).map(|layout| layout.frame.run_style)
}
