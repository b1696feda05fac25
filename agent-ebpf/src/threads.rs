//! The tracked thread of the current sample: the map `THREADS`, and a copy with what else the
//! samples of the thread have in common.

use agent_common::maps::TrackedThread;

use crate::{
    current,
    maps::THREADS,
    values::{Sampler, copy},
};

/// Loads the current thread into [`Sampler::thread`]; [`false`] when it is not tracked.
#[inline(always)]
pub(crate) fn load(sampler: &mut Sampler) -> bool {
    let (process, thread_id) = (sampler.tgid.get(), sampler.thread_id.get());
    let tid = sampler.tid.get();
    // Until it is loaded.
    sampler.thread.tid = 0;
    let Some(cache) = current::thread_cache(tid) else {
        return false;
    };
    let (cached, is_whole) = cache.thread.get();
    if cached.tid == u64::from(tid) && cached.thread.is_of(process, thread_id) && is_whole {
        copy(cached, &mut sampler.thread);
        return true;
    }
    let Some(tracked) = THREADS.get_ptr(tid) else {
        return false;
    };
    // SAFETY: values of the map stay readable while the program runs.
    let tracked = unsafe { &*tracked };
    if !tracked.is_of(process, thread_id) {
        return false;
    }
    sampler.thread.thread = *tracked;
    sampler.thread.tid = tid.into();
    cache.thread.set(&sampler.thread);
    true
}

/// Stores [`Sampler::thread`] as the current thread.
///
/// The map evicts by itself; an update that fails means a search at the next sample.
#[inline(always)]
pub(crate) fn store(sampler: &mut Sampler) {
    let tid = sampler.tid.get();
    sampler.thread.tid = tid.into();
    sampler.thread.thread.thread_id = sampler.thread_id.get();
    sampler.thread.thread.tgid = sampler.tgid.get();
    let thread: &TrackedThread = &sampler.thread.thread;
    let _ = THREADS.insert(tid, thread, 0);
    if let Some(cache) = current::thread_cache(tid) {
        cache.thread.set(&sampler.thread);
    }
}
