//! One sample of the current thread: its stacks, its name, and the record that ends it.
//!
//! Invariant: a sample ends with exactly one record.

use agent_common::{
    counter::Counter,
    limits::{LONG_SEARCH_NS, MAX_FRAMES, MAX_KERNEL_FRAMES},
    maps::{Control, KERNEL_THREADS, ProcessState},
    native::{NativeOutcome, UnwindNative},
    python::{FindState, MAX_ATTRIBUTES, PythonOutcome, UnwindPython},
    record::{NativeUnwindStatus, ProcessEventKind, ProfileKind, PythonUnwindStatus},
};
use aya_ebpf::{
    EbpfContext,
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_get_stack, bpf_ktime_get_ns},
    },
    programs::PerfEventContext,
};

use crate::{
    current, emit, log,
    maps::{CONTROL, PROCESS_STATES, PROCESSES, WHOLE_HOST, WITH_NATIVE, WITH_PAGES, count},
    registers, steps,
    task::Task,
    values::{SampledStacks, Sampler},
};

/// Prepares a sample of the current thread in [`current::sampler`], if its process is profiled.
///
/// It counts as one of `samples`. The trigger then sets what it [measures](Sampler::measures), and [takes](take) it.
#[inline(always)]
pub(crate) fn begin(samples: Counter) -> Option<(&'static mut Sampler, &'static Control)> {
    prepare(|| {
        count(samples);
        current::begin_event();
    })
}

/// The same for a probe, which then may [take](take_raise) it.
#[inline(always)]
pub(crate) fn begin_in_probe() -> Option<(&'static mut Sampler, &'static Control)> {
    prepare(|| {})
}

/// Calls `enter` when the process is one that is profiled.
#[inline(always)]
fn prepare(enter: impl FnOnce()) -> Option<(&'static mut Sampler, &'static Control)> {
    // SAFETY: the helper takes no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let pid_tgid = bpf_get_current_pid_tgid();
    let task = Task::current();
    let mut tgid = (pid_tgid >> 32) as u32;
    let mut process = PROCESSES.get_ptr(tgid);
    // An idle processor runs process 0.
    if process.is_none() && tgid != 0 && WHOLE_HOST.load() != 0 {
        if task.is_kernel_thread() {
            tgid = KERNEL_THREADS;
            process = PROCESSES.get_ptr(tgid);
        } else if task.has_memory() {
            count(Counter::UNTRACKED_SAMPLES);
        }
    }
    // SAFETY: values of the map stay readable while the program runs.
    let process = unsafe { &*process? };
    let state = state_of(tgid)?;
    // What is known about the program before is void.
    let is_known = process.program == state.program;
    if is_known && process.is_excluded != 0 {
        return None;
    }
    let control = CONTROL.get(0)?;
    enter();
    let sampler = current::sampler()?;
    sampler.time_ns.set(now_ns);
    sampler.resend_before_ns.set(control.resend_before_ns);
    sampler.tgid.set(tgid);
    sampler.tid.set(pid_tgid as u32);
    sampler.new_code_ns.set(state.new_code_ns);
    sampler.reused_ns.set(state.reused_ns);
    sampler.described_bytes.set(0);
    sampler.search_began_ns.set(0);
    sampler.may_search.set(u32::from(state.may_search(now_ns)));
    sampler.layout.set(process.layout);
    sampler.gil_holder.set(process.gil_holder);
    sampler.tasks.set(process.tasks);
    sampler.task.task = 0;
    sampler.first_mapping.set(process.first_mapping);
    let mut known = 0;
    if is_known {
        known = u64::MAX;
    }
    let distance = process.thread_pointer_distance & known;
    let thread_id = task.thread_pointer().wrapping_sub(distance);
    sampler.thread_id.set(thread_id);
    sampler
        .interpreters_head
        .set(process.interpreters_head & known);
    sampler.mappings_epoch.set(process.mappings_epoch & known);
    sampler
        .mapping_count
        .set(process.mapping_count & known as u32);
    if sampler.interpreters_head.get() == 0 || WITH_NATIVE.load() != 0 {
        let pages = task.executable_pages();
        // Without room for the event the next sample sends it.
        if pages != state.executable_pages && emit::process_event(ProcessEventKind::MAPPED, tgid, 0)
        {
            state.executable_pages = pages;
            state.mapped_ns = now_ns;
        }
    }
    sampler.position.clear();
    sampler.walk.clear();
    sampler.last_fault.clear();
    Some((sampler, control))
}

/// The state of a process that is profiled.
#[inline(always)]
fn state_of(tgid: u32) -> Option<&'static mut ProcessState> {
    let mut state = PROCESS_STATES.get_ptr_mut(tgid);
    if state.is_none() {
        // The agent has added the process.
        let _ = PROCESS_STATES.insert(tgid, ProcessState::NEW, 0);
        state = PROCESS_STATES.get_ptr_mut(tgid);
    }
    // SAFETY: values of the map stay readable and writable while the program runs; another
    // processor may write the same values, or older ones, which does no harm.
    Some(unsafe { &mut *state? })
}

/// Takes a sample of the current thread for the event of a counter, if its process is profiled: it
/// stands for all events since the sample before.
#[inline(always)]
pub(crate) fn take_event(context: &PerfEventContext, kind: ProfileKind) {
    // SAFETY: the kernel translates reads of this field of the context.
    let events = unsafe { (*context.ctx).sample_period };
    if begin_event(kind.0.into(), events) != 0 {
        take(context);
    }
}

/// Prepares such a sample; returns 0 where the process is not profiled. A global function, so that what it needs is
/// not on the stack while frames are walked.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_event(kind: u32, events: u64) -> u32 {
    let Some((sampler, _)) = begin(Counter::SAMPLES) else {
        return 0;
    };
    sampler.measures(ProfileKind(kind as _), 1, events);
    1
}

/// Takes the sample that a trigger has prepared with [`begin`].
#[inline(always)]
pub(crate) fn take(context: &PerfEventContext) {
    let stacks = read_stacks(|| {
        let has_registers = copy_registers(context);
        let kernel_bytes = if has_registers == 0 {
            copy_kernel_stack(context)
        } else {
            0
        };
        (kernel_bytes, has_registers)
    });
    if WITH_PAGES.load() != 0 && is_of_growth() {
        emit_page(stacks.stack, stacks.native_stack, stacks.statuses());
    } else {
        emit_sample(stacks.stack, stacks.native_stack, stacks.statuses());
    }
    current::end_event();
}

#[inline(always)]
fn is_of_growth() -> bool {
    let kind = current::sampler().map(|sampler| sampler.kind.get());
    kind == Some(ProfileKind::GROWTH.0.into())
}

/// Sends the sample of a thread that makes its process grow; as [`emit_release`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn emit_page(stack: u64, native_stack: u64, statuses: u32) -> u32 {
    emit::new_page(&SampledStacks::new(stack, native_stack, statuses));
    0
}

/// Takes the sample that a trigger has prepared with [`begin`], of a thread in a system call with which it ends the
/// wait of another one. The kernel's frames, which are those of the call, are left out.
#[inline(always)]
pub(crate) fn take_release() {
    let stacks = read_stacks(|| (0, 0));
    emit_release(stacks.stack, stacks.native_stack, stacks.statuses());
    current::end_event();
}

/// Takes the sample that a probe has prepared with [`begin_in_probe`], of a thread that raises an exception.
#[inline(always)]
pub(crate) fn take_raise() {
    count(Counter::RAISES);
    let stacks = read_stacks(|| (0, 0));
    emit_raise(stacks.stack, stacks.native_stack, stacks.statuses());
}

/// Takes the sample that a probe has prepared with [`begin_in_probe`], of a thread that asks for memory.
#[inline(always)]
pub(crate) fn take_allocation() {
    let stacks = read_stacks(|| (0, 0));
    emit_sample(stacks.stack, stacks.native_stack, stacks.statuses());
}

/// Sends a sample that has nothing of its own; as [`emit_release`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn emit_sample(stack: u64, native_stack: u64, statuses: u32) -> u32 {
    emit::sample(&SampledStacks::new(stack, native_stack, statuses));
    0
}

/// Sends the sample of a thread that raises an exception; as [`emit_release`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn emit_raise(stack: u64, native_stack: u64, statuses: u32) -> u32 {
    emit::raise(&SampledStacks::new(stack, native_stack, statuses));
    0
}

/// Sends the sample of a thread that ends the wait of another one. A global function, so that the record is not on the
/// stack while the frames are walked.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn emit_release(stack: u64, native_stack: u64, statuses: u32) -> u32 {
    emit::lock_release(&SampledStacks::new(stack, native_stack, statuses));
    0
}

/// Reads the stacks of the sampled thread, and sends them and what they refer to. `begin_native` copies the kernel's
/// frames and the registers with which the thread was interrupted in its own code, and returns the bytes of the
/// frames, and 1 for registers.
#[inline(always)]
pub(crate) fn read_stacks(begin_native: impl FnOnce() -> (u32, u32)) -> SampledStacks {
    let mut status = PythonUnwindStatus(read_stack() as u16);
    let stack = emit_stack();
    if stack != 0 {
        steps::name_task();
    }
    let mut native_status = NativeUnwindStatus::NOT_WALKED;
    let mut native_stack = 0;
    if WITH_NATIVE.load() != 0 {
        let (kernel_bytes, has_registers) = begin_native();
        native_status = NativeUnwindStatus(read_native_stack(kernel_bytes, has_registers) as u16);
        native_stack = if steps::is_unfinished(native_status) {
            steps::send_unfinished(u32::from(native_status.0))
        } else {
            steps::send_native()
        };
    }
    emit::absent_page();
    let is_complete = status.is_complete() && native_status.is_complete();
    if !is_complete && stack == 0 && Task::current().is_exiting() {
        // The kernel is freeing its memory, and its frames with it.
        status = PythonUnwindStatus::NO_PYTHON;
        native_status = NativeUnwindStatus::KERNEL_ONLY;
    } else if !is_complete {
        log::incomplete_stack(u32::from(status.0), u32::from(native_status.0));
    }
    name_thread(u32::from(status.0));
    SampledStacks {
        stack,
        status,
        native_stack,
        native_status,
    }
}

/// Copies the registers of a thread that was interrupted in its own code; 0 when it was in the
/// kernel.
#[inline(always)]
fn copy_registers(context: &PerfEventContext) -> u32 {
    let is_copied = current::native().is_some_and(|native| {
        registers::copy_interrupted(context.as_ptr().cast(), &mut native.registers)
    });
    u32::from(is_copied)
}

/// Copies the addresses of the kernel's frames; returns their bytes.
#[inline(always)]
fn copy_kernel_stack(context: &PerfEventContext) -> u32 {
    const MAX_BYTES: u32 = MAX_KERNEL_FRAMES as u32 * 8;
    let Some(native) = current::native() else {
        return 0;
    };
    // SAFETY: the array has room for so many bytes.
    let bytes = unsafe {
        bpf_get_stack(
            context.as_ptr(),
            (&raw mut native.kernel).cast(),
            MAX_BYTES,
            0,
        )
    };
    // Negative where there are none.
    u32::try_from(bytes).unwrap_or(0)
}

/// Calls of a step by one function. The verifier follows every call of a loop, but a function only
/// once: two loops of which one is in a function of its own cost it the sum of their lengths, not
/// the product.
const CALLS: u32 = 64;

/// The steps of the sampled thread: each is a global function.
struct Steps;

impl FindState for Steps {
    const STATES_PER_STEP: u32 = CALLS * steps::STATES_PER_STEP;

    #[inline(always)]
    fn load_cached_state(&mut self) -> PythonOutcome {
        PythonOutcome(steps::load_cached_state())
    }

    #[inline(always)]
    fn begin_search(&mut self) -> PythonOutcome {
        PythonOutcome(steps::begin_search())
    }

    #[inline(always)]
    fn search(&mut self) -> PythonOutcome {
        PythonOutcome(search_more_states())
    }
}

impl UnwindPython for Steps {
    const FRAMES_PER_STEP: u32 = CALLS * steps::FRAMES_PER_STEP;

    #[inline(always)]
    fn load_state(&mut self) -> PythonOutcome {
        PythonOutcome(find_state())
    }

    #[inline(always)]
    fn begin_walk(&mut self) -> PythonOutcome {
        PythonOutcome(steps::begin_walk())
    }

    #[inline(always)]
    fn walk_frames(&mut self) -> PythonOutcome {
        PythonOutcome(walk_more_frames())
    }

    #[inline(always)]
    fn continue_walk(&mut self, status: PythonUnwindStatus) -> PythonOutcome {
        PythonOutcome(steps::continue_walk(u32::from(status.0)))
    }
}

/// The steps of the native frames, below `kernel_bytes` bytes of addresses of the kernel's frames.
struct NativeSteps {
    kernel_bytes: u32,
    /// 1 when the sample has the registers already.
    has_registers: u32,
}

impl UnwindNative for NativeSteps {
    const FRAMES_PER_STEP: u32 = steps::NATIVE_FRAMES_PER_STEP;

    #[inline(always)]
    fn begin(&mut self) -> NativeOutcome {
        NativeOutcome(steps::begin_native(self.kernel_bytes, self.has_registers))
    }

    #[inline(always)]
    fn walk_frames(&mut self) -> NativeOutcome {
        NativeOutcome(steps::walk_native_frames())
    }
}

/// Unwinds the thread's Python frames; returns the [`PythonUnwindStatus`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn read_stack() -> u32 {
    let is_python = current::sampler().is_some_and(|sampler| sampler.interpreters_head.get() != 0);
    let status = if is_python {
        Steps.unwind()
    } else {
        PythonUnwindStatus::NO_PYTHON
    };
    u32::from(status.0)
}

/// Visits as many frames as one step may.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_more_frames() -> u32 {
    repeat(steps::walk_frames)
}

/// Visits as many thread states as one step may.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn search_more_states() -> u32 {
    repeat(steps::search_states)
}

/// Repeats a step until its outcome is another one than that there is more.
#[inline(always)]
fn repeat(step: extern "C" fn() -> u32) -> u32 {
    let mut outcome = PythonOutcome::NEXT.0;
    let mut calls = 0;
    while outcome == PythonOutcome::NEXT.0 && calls < CALLS {
        outcome = step();
        calls += 1;
    }
    outcome
}

/// Loads the thread's state into the slot; returns the [`PythonOutcome`].
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn find_state() -> u32 {
    let outcome = Steps.find_state();
    note_search();
    outcome.0
}

/// Notes how long the search for the state has taken, if there was one and that is long.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn note_search() -> u32 {
    u32::from(try_note_search().is_some())
}

#[inline(always)]
fn try_note_search() -> Option<()> {
    let sampler = current::sampler()?;
    let began_ns = sampler.search_began_ns.get();
    if began_ns == 0 {
        return None;
    }
    // SAFETY: the helper takes no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let took_ns = now_ns.wrapping_sub(began_ns);
    if took_ns >= LONG_SEARCH_NS {
        state_of(sampler.tgid.get())?.note_search(took_ns, now_ns);
    }
    Some(())
}

/// Unwinds the thread's native frames; returns the [`NativeUnwindStatus`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn read_native_stack(kernel_bytes: u32, has_registers: u32) -> u32 {
    let mut steps = NativeSteps {
        kernel_bytes,
        has_registers,
    };
    u32::from(steps.unwind().0)
}

/// Sends the Python stack and the code objects that are new; returns the hash of the stack, 0 for
/// none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn emit_stack() -> u64 {
    let Some(walk) = current::sampler().map(|sampler| &sampler.walk) else {
        return 0;
    };
    let frames = u32::from(walk.stack.shape().frame_count);
    if frames == 0 {
        return 0;
    }
    let mut nth = 0;
    while nth < MAX_FRAMES as u32 && nth < frames {
        steps::resolve_frames(nth);
        nth += steps::FRAMES_PER_RESOLVE;
    }
    steps::send_stack()
}

/// Sends the thread's name when a check is due and it has changed; `status` is that of the Python
/// frames.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn name_thread(status: u32) -> u32 {
    if status == u32::from(PythonUnwindStatus::NO_PYTHON.0) {
        steps::track_thread();
    }
    let mut outcome = PythonOutcome(steps::begin_name(status));
    let mut step = 0;
    while outcome == PythonOutcome::NEXT && step < MAX_ATTRIBUTES {
        outcome = PythonOutcome(steps::find_name());
        step += 1;
    }
    if outcome == PythonOutcome::DONE {
        return steps::send_name();
    }
    0
}
