//! The clock ticked: is it for us, and what does the thread run?

use agent_common::{
    counter::Counter,
    limits::{MAX_FRAMES, MAX_KERNEL_FRAMES, MAX_NATIVE_VISITED, MAX_THREADS, MAX_VISITED},
    maps::KERNEL_THREADS,
    python::MAX_ATTRIBUTES,
    record::{NativeUnwindStatus, ProcessEventKind, PythonUnwindStatus},
};
use aya_ebpf::{
    EbpfContext as _,
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_get_stack, bpf_ktime_get_ns},
    },
    macros::perf_event,
    programs::PerfEventContext,
};

use crate::{
    current, emit, log,
    maps::{CONTROL, PROCESSES, WHOLE_HOST, WITH_NATIVE, count},
    steps::{self, NativeOutcome, Outcome},
    task::Task,
};

/// Attached to the clock of every processor.
#[perf_event]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]
pub(crate) fn on_cpu(context: PerfEventContext) -> u32 {
    if begin_sample().is_some() {
        let mut end = read_stack();
        let stack = emit_stack();
        let mut native_status = NativeUnwindStatus::NOT_WALKED;
        let mut native_stack = 0;
        if WITH_NATIVE.load() != 0 {
            let kernel_bytes = kernel_stack(&context);
            native_status = NativeUnwindStatus(read_native_stack(kernel_bytes) as u16);
            native_stack = steps::send_native();
        }
        emit::absent_page();
        let is_whole = is_whole(end, native_status);
        if !is_whole && stack == 0 && Task::current().is_exiting() {
            // Its memory is being given back, and its frames with it.
            end = u32::from(PythonUnwindStatus::NO_PYTHON.0);
            native_status = NativeUnwindStatus::KERNEL_ONLY;
        } else if !is_whole {
            log::log_ends(end, u32::from(native_status.0));
        }
        name_thread(end);
        emit::sample(
            stack,
            PythonUnwindStatus(end as u16),
            native_stack,
            native_status,
        );
    }
    0
}

/// Whether nothing is missing in a stack.
#[inline(always)]
fn is_whole(end: u32, native_status: NativeUnwindStatus) -> bool {
    let end = PythonUnwindStatus(end as u16);
    let has_python = end == PythonUnwindStatus::COMPLETE
        || end == PythonUnwindStatus::NO_PYTHON
        || end == PythonUnwindStatus::NO_THREAD_STATE
        || end == PythonUnwindStatus::NO_FRAME;
    has_python
        && (native_status == NativeUnwindStatus::COMPLETE
            || native_status == NativeUnwindStatus::KERNEL_ONLY
            || native_status == NativeUnwindStatus::NOT_WALKED)
}

/// Copies the addresses of the kernel's frames, if the tick interrupted the kernel; gives their
/// bytes.
#[inline(always)]
fn kernel_stack(context: &PerfEventContext) -> u32 {
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
    // Negative where the thread was in its own code.
    u32::try_from(bytes).unwrap_or(0)
}

/// Walks the thread's native frames and gives the [`NativeUnwindStatus`]; `kernel_bytes` bytes of addresses
/// of the kernel's frames come before.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn read_native_stack(kernel_bytes: u32) -> u32 {
    let mut outcome = NativeOutcome(steps::begin_native(kernel_bytes));
    let mut visited = 0;
    while outcome == NativeOutcome::NEXT && visited < MAX_NATIVE_VISITED {
        visited += steps::NATIVE_FRAMES_PER_STEP;
        outcome = NativeOutcome(steps::walk_native_frames());
    }
    let end = if outcome == NativeOutcome::NEXT {
        NativeUnwindStatus::TOO_DEEP
    } else {
        outcome.end()
    };
    u32::from(end.0)
}

/// Decides whether the tick is for us and notes whom it interrupted.
#[inline(always)]
fn begin_sample() -> Option<()> {
    // SAFETY: the helper takes no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let pid_tgid = bpf_get_current_pid_tgid();
    let task = Task::current();
    let mut tgid = (pid_tgid >> 32) as u32;
    let mut process = PROCESSES.get_ptr_mut(tgid);
    // A processor that idles runs the process 0.
    if process.is_none() && tgid != 0 && WHOLE_HOST.load() != 0 {
        if task.is_kernel_thread() {
            tgid = KERNEL_THREADS;
            process = PROCESSES.get_ptr_mut(tgid);
        } else if task.has_memory() {
            count(Counter::UNTRACKED_SAMPLES);
        }
    }
    let process = process?;
    // SAFETY: values of the map stay readable while the program runs.
    if unsafe { (*process).is_excluded } != 0 {
        return None;
    }
    let sampler = current::sampler()?;
    count(Counter::SAMPLES);
    sampler.time_ns.set(now_ns);
    // SAFETY: likewise.
    let control = CONTROL.get(0)?;
    sampler.resend_before_ns.set(control.resend_before_ns);
    sampler.tgid.set(tgid);
    sampler.tid.set(pid_tgid as u32);
    // SAFETY: values of the map stay readable and writable while the program runs; another
    // processor may write the same number of pages, or that of a moment before.
    unsafe {
        sampler.layout.set((*process).layout);
        sampler.interpreters_head.set((*process).interpreters_head);
        sampler.gil_holder.set((*process).gil_holder);
        sampler.new_code_ns.set((*process).new_code_ns);
        let distance = (*process).thread_pointer_distance;
        sampler
            .thread_id
            .set(task.thread_pointer().wrapping_sub(distance));
        sampler.mappings_epoch.set((*process).mappings_epoch);
        sampler.first_mapping.set((*process).first_mapping);
        sampler.mapping_count.set((*process).mapping_count);
        if (*process).interpreters_head == 0 || WITH_NATIVE.load() != 0 {
            let pages = task.executable_pages();
            if pages != (*process).executable_pages {
                (*process).executable_pages = pages;
                emit::process_event(ProcessEventKind::MAPPED, tgid, 0);
            }
        }
    }
    let periods =
        sampler
            .before
            .periods(now_ns, control.period_ns, pid_tgid as u32, task.switches());
    sampler.weight.set(periods);
    sampler.nth_state.set(0);
    sampler.is_second_walk.set(0);
    sampler.holds_gil.set(0);
    sampler.walk.clear();
    sampler.last_fault.clear();
    Some(())
}

/// Walks the thread's Python frames and gives the [`PythonUnwindStatus`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn read_stack() -> u32 {
    u32::from(try_read_stack().0)
}

#[inline(always)]
fn try_read_stack() -> PythonUnwindStatus {
    let is_python = current::sampler().is_some_and(|sampler| sampler.interpreters_head.get() != 0);
    if !is_python {
        return PythonUnwindStatus::NO_PYTHON;
    }
    let outcome = Outcome(find_state());
    if outcome != Outcome::DONE {
        return outcome.end();
    }
    let mut outcome = Outcome(steps::begin_walk());
    if outcome != Outcome::NEXT {
        outcome = Outcome(steps::continue_walk(u32::from(outcome.end().0)));
    }
    let mut visited = 0;
    while outcome == Outcome::NEXT && visited < MAX_VISITED {
        visited += steps::FRAMES_PER_STEP;
        outcome = Outcome(steps::walk_frames());
    }
    if outcome == Outcome::NEXT {
        PythonUnwindStatus::TOO_DEEP
    } else {
        outcome.end()
    }
}

/// Brings the thread's state into the slot: the one that is remembered, or else is found.
///
/// Its loop has one condition at one place: Linux 5.10 takes no loop that is entered in its midst.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_state() -> u32 {
    try_find_state().0
}

#[inline(always)]
fn try_find_state() -> Outcome {
    let cached = Outcome(steps::load_cached_state());
    if cached != Outcome::NEXT {
        return cached;
    }
    count(Counter::THREAD_SEARCHES);
    let mut outcome = Outcome(steps::begin_search());
    let mut visited = 0;
    while outcome == Outcome::NEXT && visited < MAX_THREADS {
        visited += steps::THREADS_PER_STEP;
        outcome = Outcome(steps::find_thread());
    }
    if outcome == Outcome::NEXT {
        return Outcome::ended(PythonUnwindStatus::TOO_MANY_THREADS);
    }
    if outcome != Outcome::DONE {
        return outcome;
    }
    let found = Outcome(steps::load_cached_state());
    if found == Outcome::NEXT {
        // It was gone a moment later.
        return Outcome::ended(PythonUnwindStatus::THREAD_FAULT);
    }
    found
}

/// Sends the frames that were found, and what is new of their code objects; gives the stack's
/// hash, 0 for none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn emit_stack() -> u64 {
    // No reference to the sampler is kept over a step, which makes one of its own.
    let Some(walk) = current::sampler().map(|sampler| &sampler.walk) else {
        return 0;
    };
    let frames = u32::from(walk.stack.shape().frame_count);
    if frames == 0 {
        return 0;
    }
    if walk.stack.has_unresolved() {
        emit_code_objects(frames);
    }
    hash_all_frames(frames);
    steps::send_stack()
}

/// Describes those of the frames whose code objects are new.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn emit_code_objects(frames: u32) -> u32 {
    let mut nth = 0;
    while nth < MAX_FRAMES as u32 && nth < frames {
        steps::emit_code_object(nth);
        nth += 1;
    }
    nth
}

/// Hashes the frames, and gives those that were described their symbol.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn hash_all_frames(frames: u32) -> u32 {
    let mut nth = 0;
    while nth < MAX_FRAMES as u32 && nth < frames {
        steps::hash_frames(nth);
        nth += steps::FRAMES_PER_HASH;
    }
    nth
}

/// Sends the thread's name when it is time to look at it and it has changed.
/// `end` is how the walk ended.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn name_thread(end: u32) -> u32 {
    if end == u32::from(PythonUnwindStatus::NO_PYTHON.0) {
        steps::track_thread();
    }
    let mut outcome = Outcome(steps::begin_name(end));
    let mut step = 0;
    while outcome == Outcome::NEXT && step < MAX_ATTRIBUTES {
        outcome = Outcome(steps::find_name());
        step += 1;
    }
    if outcome == Outcome::DONE {
        return steps::send_name();
    }
    0
}
