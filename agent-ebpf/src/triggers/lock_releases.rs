//! Ends of waits for locks: samples the thread that wakes one which waits.
//!
//! Passes over the threads find out who waits for a lock, and for how long; who ends the wait is known only at
//! that moment. Of all threads that are woken only those are looked at of which the agent has noted that they
//! wait for a lock, and only if their wake-up is that of the system call in which the current thread is: an
//! interrupt, such as that of a timer, may come in the middle of any call.
//!
//! The kernel holds a lock of the woken thread, with interrupts disabled: nothing here wakes a thread at once (the ring
//! buffer does so from an interrupt of its own), and no other trigger interrupts this one. It can itself come in the
//! middle of the sample of a page fault, if an interrupt wakes a thread that waits for the same word which the
//! faulting thread is about to wake: that sample is then of a release, and measures nothing.

use agent_common::{counter::Counter, record::ProfileKind};
use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};

use crate::{
    current,
    maps::{LOCK_WAITS, count},
    registers, sample,
    task::Task,
    values::WaitEnd,
};

/// Attached to `sched_waking(task)`.
#[raw_tracepoint]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_waking(context: RawTracePointContext) -> u32 {
    current::begin_event();
    if ends_wait(context.arg(0)) != 0 {
        // The agent adds how long the other one has waited.
        if let Some((sampler, _)) = sample::begin(Counter::SAMPLES) {
            sampler.measures(ProfileKind::LOCK_RELEASE, 0, 0);
            sample::take_release();
        } else {
            count(Counter::UNKNOWN_LOCK_RELEASES);
        }
    }
    current::end_event();
    0
}

/// 1 if the current thread ends a noted wait of the thread at this address, which is then in the sampler. A global
/// function, as is what it calls, so that nothing of them is on the stack while a sample is taken.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn ends_wait(task: u64) -> u32 {
    let Some(end) = wait_end(Task::at(task)) else {
        return 0;
    };
    let Some(sampler) = current::sampler() else {
        return 0;
    };
    sampler.wait_end.set(end);
    1
}

/// What the current thread ends, if it ends a noted wait of a thread.
#[inline(always)]
fn wait_end(task: Task) -> Option<WaitEnd> {
    let waiter = task.tid();
    let wait = LOCK_WAITS.get_ptr(waiter)?;
    // SAFETY: values of the map stay readable while the program runs.
    let wait = unsafe { *wait };
    if task.switches() != wait.switches || task.start_time() != wait.start_time_ns {
        return None;
    }
    // The wait is over.
    let _ = LOCK_WAITS.remove(waiter);
    if wakes(wait.word) == 0 {
        count(Counter::UNKNOWN_LOCK_RELEASES);
        return None;
    }
    Some(WaitEnd {
        start_time_ns: wait.start_time_ns,
        switches: wait.switches,
        waiter,
        reserved: 0,
    })
}

/// 1 if the current thread is in a system call that wakes those who wait for this word.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn wakes(word: u64) -> u32 {
    registers::system_call_with_arguments().wakes(word).into()
}
