//! The steps that walk the native frames of the sampled thread.

use core::mem::offset_of;

use agent_common::{
    counter::Counter,
    limits::MAX_KERNEL_FRAMES,
    maps::KERNEL_THREADS,
    native::{MAX_ENTRIES, NativeOutcome, NativeStack, PythonFrames},
    record::{NativeFrame, NativeStackHead, NativeUnwindStatus},
    volatile::masked,
};

use crate::{
    code_locations::CurrentCode,
    current, emit,
    maps::{HASH_SEED, SENT_NATIVE_STACKS, count, is_sent},
    memory::CurrentMemory,
    registers,
};

/// Frames that one call of [`walk_native_frames`] visits.
pub(crate) const NATIVE_FRAMES_PER_STEP: u32 = 2;

/// Starts a walk, below `kernel_bytes` bytes of addresses of kernel frames, at the registers that
/// the sample has if `has_registers` is not 0.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn begin_native(kernel_bytes: u32, has_registers: u32) -> u32 {
    try_begin_native(kernel_bytes, has_registers != 0)
        .unwrap_or(NativeOutcome::ended(NativeUnwindStatus::NO_REGISTERS))
        .0
}

#[inline(always)]
fn try_begin_native(kernel_bytes: u32, has_registers: bool) -> Option<NativeOutcome> {
    let native = current::native()?;
    native.walk.clear(HASH_SEED.load());
    let frames = kernel_bytes / 8;
    let mut nth = 0;
    while nth < MAX_KERNEL_FRAMES as u32 && nth < frames {
        let address = native.kernel[(nth & MAX_KERNEL_FRAMES as u32) as usize];
        native.walk.stack.push_kernel_frame(address);
        nth += 1;
    }
    let sampler = current::sampler()?;
    let tid = sampler.tid.get();
    if sampler.tgid.get() == KERNEL_THREADS {
        return Some(NativeOutcome::ended(NativeUnwindStatus::KERNEL_ONLY));
    }
    let has_registers = has_registers || registers::read(&mut native.registers);
    if !has_registers || !native.registers.are_of_64_bits() {
        return Some(NativeOutcome::ended(NativeUnwindStatus::NO_REGISTERS));
    }
    let stack_start = current::thread_cache(tid)?.stack_start;
    native.walk.expect_stack_start(stack_start);
    native.registers.begin(&mut native.walk);
    Some(NativeOutcome::NEXT)
}

/// Visits [`NATIVE_FRAMES_PER_STEP`] frames.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn walk_native_frames() -> u32 {
    try_walk_native_frames()
        .unwrap_or(NativeOutcome::ended(NativeUnwindStatus::FAULT))
        .0
}

#[inline(always)]
fn try_walk_native_frames() -> Option<NativeOutcome> {
    let sampler = current::sampler()?;
    let native = current::native()?;
    let memory = CurrentMemory::of(sampler);
    let style = current::run_style(sampler)?;
    let mut code = CurrentCode::of(sampler);
    let python = PythonFrames {
        runs: &sampler.walk.runs,
        depth: sampler.walk.stack.depth(),
        style,
    };
    let step = native.walk.walk_frames(
        &memory,
        &mut sampler.scratch,
        python,
        &mut code,
        NATIVE_FRAMES_PER_STEP,
    );
    Some(step.into())
}

/// Sends the native stack unless it was sent before; returns its hash, 0 for none.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn send_native() -> u64 {
    let (Some(native), Some(sampler)) = (current::native(), current::sampler()) else {
        return 0;
    };
    native.walk.stack.push_pending_run();
    let stack = native.walk.stack.hash();
    let stack_start = native.walk.stack_pointer();
    let resend_before_ns = sampler.resend_before_ns.get();
    let Some(cache) = current::thread_cache(sampler.tid.get()) else {
        return 0;
    };
    cache.stack_start = stack_start;
    if stack == 0 || cache.native_stacks.has(stack, resend_before_ns) {
        return stack;
    }
    let mut is_sent = is_sent(&SENT_NATIVE_STACKS, stack, resend_before_ns);
    if !is_sent {
        if send(&mut native.walk.stack) {
            count(Counter::NATIVE_STACKS);
            let _ = SENT_NATIVE_STACKS.insert(stack, sampler.time_ns.get(), 0);
            is_sent = true;
        } else {
            count(Counter::LOST_NATIVE_STACKS);
        }
    }
    if is_sent {
        cache.native_stacks.add(stack, resend_before_ns);
    }
    stack
}

/// Sends the native stack of a walk that is to be continued, as one that no other sample has; returns its hash.
#[inline(always)]
pub(super) fn send_unique(sample: [u64; 2]) -> Option<u64> {
    let native = current::native()?;
    native.walk.stack.push_pending_run();
    let stack = native.walk.stack.finish_unique_record(sample);
    if !send_finished(&native.walk.stack) {
        count(Counter::LOST_NATIVE_STACKS);
        return None;
    }
    count(Counter::NATIVE_STACKS);
    Some(stack)
}

/// Sends the record of a native stack; [`false`] when the ring buffer is full.
#[inline(always)]
fn send(stack: &mut NativeStack) -> bool {
    stack.finish_record();
    send_finished(stack)
}

/// The same of one whose head is filled in.
#[inline(always)]
fn send_finished(stack: &NativeStack) -> bool {
    const MAX_BYTES: usize = size_of::<NativeStackHead>() + MAX_ENTRIES * size_of::<NativeFrame>();
    // Hidden from the compiler, which would drop the check below that the verifier needs.
    let bytes = masked(stack.head.header.bytes, u32::MAX) as usize;
    let record = (&raw const *stack).cast::<u8>();
    // SAFETY: the head is followed by `MAX_ENTRIES` frames, all within the walk.
    bytes <= MAX_BYTES && unsafe { emit::send(record.add(offset_of!(NativeStack, head)), bytes) }
}
