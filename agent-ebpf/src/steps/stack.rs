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
};

/// Frames that one call of [`hash_frames`] hashes.
pub(crate) const FRAMES_PER_HASH: u32 = 8;

/// Hashes frames from the `nth` on, and sets the symbols of those whose code objects were read.
/// Called for all frames in order.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn hash_frames(nth: u32) -> u32 {
    u32::from(try_hash_frames(nth).is_some())
}

#[inline(always)]
fn try_hash_frames(first: u32) -> Option<()> {
    let sampler = current::sampler()?;
    let code_objects = ProcessCode::of(sampler);
    let shape = sampler.walk.stack.shape();
    if first == 0 {
        let seed = Hash::new(HASH_SEED.load());
        sampler.hash.set(seed.word(u64::from(shape.left_out)));
        if shape.left_out != 0 {
            count(Counter::TRUNCATED);
        }
    }
    let mut step = 0;
    while step < FRAMES_PER_HASH {
        let nth = first.wrapping_add(step);
        if nth >= u32::from(shape.frame_count) {
            break;
        }
        let (hash, unresolved) =
            sampler
                .walk
                .stack
                .hash_frame(nth as usize, shape, sampler.hash.get(), |code| {
                    code_objects.cached(code)
                });
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
    if !is_sent(&SENT_STACKS, stack, sampler.resend_before_ns.get()) {
        if send(&mut sampler.walk.stack, stack) {
            count(Counter::STACKS);
            let _ = SENT_STACKS.insert(stack, sampler.time_ns.get(), 0);
        } else {
            count(Counter::LOST_STACKS);
        }
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
