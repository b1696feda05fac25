//! Context switches: how long the threads of profiled processes wait, exactly, and where, of some of the waits.
//!
//! Everything is known when a thread leaves a processor: since when it has had it is the time of the last switch of that
//! processor, and for how long it waited for it before the kernel has added to its account by then. So a switch costs
//! the threads of other processes two look-ups.
//!
//! Some of the switches are sampled, with a probability that does not depend on how long the thread will be away, which is
//! not known yet: its stack is read in its own context, and when it is back, the time follows. The agent has the first
//! [`SHORT_WAIT_NS`](agent_common::limits::SHORT_WAIT_NS) of each wait from here, and the rest from passes over the
//! threads; and all of the time in which threads waited for a processor.
//!
//! The kernel holds a lock of the processor, with interrupts disabled: nothing here wakes a thread at once, and no other
//! trigger interrupts this one. It can itself come in the middle of a probe or of a pass, which have values of their own.

use agent_common::{
    counter::Counter,
    limits::{
        MAX_COUNTED_PROBE_NS, MAX_COUNTED_SWITCH_NS, MAX_THREAD_WAITS, SHORT_WAIT_NS,
        SWITCHES_PER_COUNT,
    },
    maps::{SwitchedThread, WaitClass},
    record::ProfileKind,
    thinning::Thinning,
};
use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, generated::bpf_ktime_get_ns},
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};

use crate::{
    current, emit,
    maps::{
        MAX_PROCESSOR_WAITS, PROCESSES, SWITCHED_THREADS, WAIT_CLASSES, add, count, kernel_offset,
    },
    registers, sample, steps,
    task::Task,
    values::{SampledStacks, Switches},
};

/// The bits of a state that say what a thread waits for, without `TASK_WAKEKILL` and `TASK_FREEZABLE`.
const WAITS: u32 = !(0x100 | 0x2000);

/// `TASK_DEAD`: it does not come back.
const DEAD: u32 = 0x80;

/// `TASK_UNINTERRUPTIBLE`.
const UNINTERRUPTIBLE: u32 = 2;

/// Attached to `sched_switch(preempt, previous, next, previous_state)`.
#[raw_tracepoint]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_switch(context: RawTracePointContext) -> u32 {
    let is_preempted: u64 = context.arg(0);
    let state = match kernel_offset(|layout| &layout.switch_state) {
        0 => Task::current().state(),
        1 => state_of(context.arg(1)),
        _ => state_of(context.arg(3)),
    };
    if leave(is_preempted as u32 & 1, state) != 0 {
        if begin_wait() != 0 {
            take_wait();
        }
        end_sample();
    }
    0
}

/// The state in an argument of the tracepoint, whose upper half is undefined.
#[inline(always)]
fn state_of(argument: u64) -> u32 {
    argument as u32
}

/// The context switches of this processor.
#[inline(always)]
fn switches() -> Option<&'static mut Switches> {
    current::switches()
}

/// Accounts for the current thread, which leaves its processor; 1 where what it does until it is back is to be sampled. A global
/// function, so that nothing of it is on the stack while a sample is taken.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn leave(is_preempted: u32, state: u32) -> u32 {
    u32::from(try_leave(is_preempted, state).is_some())
}

#[inline(always)]
fn try_leave(is_preempted: u32, state: u32) -> Option<()> {
    let now_ns = now_ns();
    let switches = switches()?;
    let arrived_ns = switches.last_ns;
    switches.last_ns = now_ns;
    let pid_tgid = bpf_get_current_pid_tgid();
    // An idle processor runs process 0.
    if pid_tgid == 0 {
        return None;
    }
    let is_sampled = account(pid_tgid, is_preempted, state, arrived_ns, switches)?;
    switches.uncounted = switches.uncounted.wrapping_add(1);
    if is_sampled {
        // It is timed when its sample has been taken.
        return Some(());
    }
    if switches.uncounted >= SWITCHES_PER_COUNT {
        count_switches(switches);
    }
    None
}

/// Counts the switches since the last call, as long as this one.
#[inline(always)]
fn count_switches(switches: &mut Switches) {
    let took_ns = now_ns()
        .wrapping_sub(switches.last_ns)
        .min(MAX_COUNTED_SWITCH_NS);
    let number = u64::from(switches.uncounted);
    add(Counter::SWITCHES, number);
    add(Counter::SWITCH_NS, took_ns.wrapping_mul(number));
    add(Counter::WAITS, switches.uncounted_waits.into());
    (switches.uncounted, switches.uncounted_waits) = (0, 0);
}

/// Notes that the sample of a wait has been taken, and for how long.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn end_sample() -> u32 {
    if let Some(switches) = switches() {
        let took_ns = now_ns().wrapping_sub(switches.last_ns);
        add(Counter::SWITCH_NS, took_ns.min(MAX_COUNTED_PROBE_NS));
    }
    0
}

/// Accounts for what the thread did until it was given the processor, and notes that it leaves it: whether what it does
/// until it is back is to be sampled. [`None`] where its process is not profiled, or no longer.
#[inline(always)]
fn account(
    pid_tgid: u64,
    is_preempted: u32,
    state: u32,
    arrived_ns: u64,
    switches: &mut Switches,
) -> Option<bool> {
    let tid = pid_tgid as u32;
    let is_waiting = is_preempted == 0 && state & WAITS != 0;
    let thread = SWITCHED_THREADS.get_ptr_mut(tid);
    // That of a thread which is known was profiled a moment ago.
    if (thread.is_none() || switches.uncounted == 0)
        && PROCESSES.get_ptr((pid_tgid >> 32) as u32).is_none()
    {
        if thread.is_some() {
            let _ = SWITCHED_THREADS.remove(tid);
        }
        return None;
    }
    let run_delay_ns = Task::current().run_delay();
    let Some(thread) = thread else {
        track(tid, is_waiting, state, run_delay_ns, switches.last_ns);
        return Some(false);
    };
    // SAFETY: values of the map stay readable and writable while the program runs; a thread leaves one processor at a
    // time.
    let thread = unsafe { &mut *thread };
    come_back(tid, thread, arrived_ns, run_delay_ns, switches);
    if state & DEAD != 0 {
        let _ = SWITCHED_THREADS.remove(tid);
        return Some(false);
    }
    thread.left_ns = switches.last_ns;
    thread.run_delay_ns = run_delay_ns;
    thread.is_waiting = is_waiting.into();
    thread.weight = 0;
    if is_waiting {
        thread.class = class_of(state);
    }
    let drawn = switches.draw();
    if !thread.sampled.takes(drawn) || !switches.sampled.takes(drawn >> 16) {
        return Some(false);
    }
    let weight = thread
        .sampled
        .weight()
        .wrapping_mul(switches.sampled.weight());
    thread.sampled.count(switches.last_ns, MAX_THREAD_WAITS);
    let most = MAX_PROCESSOR_WAITS.load();
    switches.sampled.count(switches.last_ns, most);
    thread.weight = weight;
    switches.weight = weight;
    switches.state = if is_waiting { state } else { 0 };
    Some(true)
}

/// Traces the context switches of a thread from now on, if there is room.
#[inline(always)]
fn track(tid: u32, is_waiting: bool, state: u32, run_delay_ns: u64, left_ns: u64) {
    if state & DEAD != 0 {
        return;
    }
    let first = SwitchedThread {
        left_ns,
        run_delay_ns,
        short_ns: 0,
        sampled: Thinning::ALL,
        is_waiting: is_waiting.into(),
        weight: 0,
        class: if is_waiting {
            class_of(state)
        } else {
            WaitClass::OTHER
        },
        reserved: 0,
    };
    if SWITCHED_THREADS.insert(tid, first, 0).is_err() {
        count(Counter::UNTRACED_SWITCHES);
    }
}

/// Accounts for what a thread did since it left its last processor until it was given this one.
#[inline(always)]
fn come_back(
    tid: u32,
    thread: &mut SwitchedThread,
    arrived_ns: u64,
    run_delay_ns: u64,
    switches: &mut Switches,
) {
    // Of the first switch of a processor it is not known when its thread got it.
    let away_ns = if arrived_ns > thread.left_ns {
        arrived_ns.wrapping_sub(thread.left_ns)
    } else {
        0
    };
    let mut wait_ns = 0;
    if thread.is_waiting != 0 {
        // It was woken, and waited for the processor.
        let delay_ns = run_delay_ns.wrapping_sub(thread.run_delay_ns);
        wait_ns = if delay_ns < away_ns {
            away_ns.wrapping_sub(delay_ns)
        } else {
            0
        };
        let short_ns = if wait_ns < SHORT_WAIT_NS {
            wait_ns
        } else {
            SHORT_WAIT_NS
        };
        thread.short_ns = thread.short_ns.wrapping_add(short_ns);
        switches.uncounted_waits = switches.uncounted_waits.wrapping_add(1);
        let class = if thread.class.0 < WaitClass::COUNT {
            thread.class.0
        } else {
            WaitClass::OTHER.0
        };
        add(Counter(Counter::WAIT_NS.0.wrapping_add(class)), wait_ns);
    }
    if thread.weight != 0 {
        emit::ended_wait(tid, thread.left_ns, wait_ns, away_ns.wrapping_sub(wait_ns));
    }
}

/// What the current thread waits for.
#[inline(always)]
fn class_of(state: u32) -> WaitClass {
    let Some((number, is_of_64_bits)) = registers::system_call() else {
        return if state & UNINTERRUPTIBLE != 0 {
            WaitClass::PAGE_FAULT
        } else {
            WaitClass::OTHER
        };
    };
    if !is_of_64_bits {
        return WaitClass::OTHER;
    }
    WAIT_CLASSES
        .get(number as u32)
        .copied()
        .unwrap_or(WaitClass::OTHER)
}

/// Prepares the sample of the thread that leaves; returns 0 where its process is not profiled.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_wait() -> u32 {
    u32::from(try_begin_wait().is_some())
}

#[inline(always)]
fn try_begin_wait() -> Option<()> {
    let switches = switches()?;
    let (weight, left_ns) = (switches.weight, switches.last_ns);
    let (sampler, _) = sample::begin(Counter::SAMPLES)?;
    sampler.measures(ProfileKind::WALL, 1, weight.into());
    // By which the record of its end refers to it.
    sampler.time_ns.set(left_ns);
    count(Counter::SAMPLED_WAITS);
    Some(())
}

/// Takes the sample that [`begin_wait`] has prepared. The kernel's frames, which would be those of the scheduler and of
/// this program too, are left out.
#[inline(always)]
fn take_wait() {
    let stacks = sample::read_stacks(|| (0, 0));
    let gil_holder = steps::gil_holder_thread();
    let statuses = stacks.statuses();
    emit_wait(stacks.stack, stacks.native_stack, statuses, gil_holder);
    current::end_event();
}

/// Sends the sample of a thread that leaves its processor. A global function, so that the record is not on the stack while the
/// frames are walked.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn emit_wait(stack: u64, native_stack: u64, statuses: u32, gil_holder: u64) -> u32 {
    let stacks = SampledStacks::new(stack, native_stack, statuses);
    emit::started_wait(&stacks, gil_holder);
    0
}

#[inline(always)]
fn now_ns() -> u64 {
    // SAFETY: the helper takes no arguments.
    unsafe { bpf_ktime_get_ns() }
}
