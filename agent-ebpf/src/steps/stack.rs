//! The steps that hash and send the Python stack.

use core::mem::offset_of;

use agent_common::{
    counter::Counter,
    hash::Hash,
    limits::MAX_FRAMES,
    python::PythonStack,
    record::{Frame, StackHead},
};

use crate::{
    code_objects::ProcessCode,
    current, emit,
    maps::{HASH_SEED, SENT_STACKS, count, is_sent},
    steps::code_object::resolve,
};

/// Frames that one call of [`resolve_frames`] resolves.
pub(crate) const FRAMES_PER_RESOLVE: u32 = 8;

/// Finds the symbols of frames, from the one with `first` others nearer the root on, and hashes the
/// frames. Called for all frames, root first: those nearest the root are the least likely to have
/// changed since the last sample of the thread.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn resolve_frames(first: u32) -> u32 {
    u32::from(try_resolve_frames(first).is_some())
}

#[inline(always)]
fn try_resolve_frames(first: u32) -> Option<()> {
    let mut step = 0;
    while step < FRAMES_PER_RESOLVE {
        let from_root = first.wrapping_add(step);
        let sampler = current::sampler()?;
        let shape = sampler.walk.stack.shape();
        if from_root == 0 {
            let seed = Hash::new(HASH_SEED.load());
            sampler.hash.set(seed.word(u64::from(shape.left_out)));
            if shape.left_out != 0 {
                count(Counter::TRUNCATED);
            }
        }
        let frames = u32::from(shape.frame_count);
        if from_root >= frames {
            break;
        }
        let nth = (frames - 1 - from_root) as usize;
        let mut symbol = None;
        if let Some(code) = sampler.walk.stack.unresolved_from_leaf(nth, shape) {
            let (entry, is_whole) = current::thread_cache(sampler.tid.get())?
                .code(from_root)
                .get();
            if is_whole {
                symbol = ProcessCode::of(sampler).fresh(code, entry);
            }
            if symbol.is_none() && resolve(code.0, from_root) != 0 {
                symbol = Some(current::sampler()?.resolved.get());
            }
        }
        let sampler = current::sampler()?;
        let hash = sampler.hash.get();
        let stack = &mut sampler.walk.stack;
        let (hash, unresolved) = stack.hash_frame(nth, shape, hash, |_| symbol);
        sampler.hash.set(hash);
        if unresolved {
            count(Counter::UNRESOLVED_FRAMES);
        }
        step += 1;
    }
    Some(())
}

/// Sends the stack that was hashed unless it was sent before; returns its hash.
#[inline(always)]
pub(crate) fn send_stack() -> u64 {
    let Some(sampler) = current::sampler() else {
        return 0;
    };
    let stack = sampler.hash.get().finish();
    let resend_before_ns = sampler.resend_before_ns.get();
    let Some(cache) = current::thread_cache(sampler.tid.get()) else {
        return 0;
    };
    if cache.stacks.has(stack, resend_before_ns) {
        return stack;
    }
    let mut is_sent = is_sent(&SENT_STACKS, stack, resend_before_ns);
    if !is_sent {
        if send(&mut sampler.walk.stack, stack) {
            count(Counter::STACKS);
            let _ = SENT_STACKS.insert(stack, sampler.time_ns.get(), 0);
            is_sent = true;
        } else {
            count(Counter::LOST_STACKS);
        }
    }
    if is_sent {
        cache.stacks.add(stack, resend_before_ns);
    }
    stack
}

/// Sends the record of a stack; [`false`] when the ring buffer is full.
#[inline(always)]
fn send(stack: &mut PythonStack, hash: u64) -> bool {
    const MAX_BYTES: usize = size_of::<StackHead>() + MAX_FRAMES * size_of::<Frame>();
    let bytes = stack.finish_record(stack.shape(), hash);
    let record = (&raw const *stack).cast::<u8>();
    // SAFETY: the head is followed by `MAX_FRAMES` frames, all within the walk.
    bytes <= MAX_BYTES && unsafe { emit::send(record.add(offset_of!(PythonStack, head)), bytes) }
}
