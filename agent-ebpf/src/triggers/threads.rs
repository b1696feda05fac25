//! Passes over the threads: what each thread of the profiled processes is doing at an instant.
//!
//! [Loops](super::thread_loops) visit the threads of the profiled processes alone. On older kernels the agent reads an
//! iterator over all threads of the kernel, and a thread of a process that is not profiled is passed over. Of a thread
//! whose stack the agent has, since it did not run, a [`RestingVisit`] is recorded, of one that runs, or whose context
//! switches are traced, a [`ThreadVisit`], else all of [`WholeVisit`].
//!
//! Invariants: nothing here runs in a profiled program; a visit is written whole or not at all: the kernel's iterator
//! visits a thread once more for which there was no room, and a loop ends before that.

use core::ffi::c_void;

use agent_common::{
    limits::{MAX_KERNEL_FRAMES, SHORT_WAIT_NS},
    native::Registers,
    visit::{KnownThread, RestingVisit, ThreadDetails, ThreadVisit, WholeVisit},
    volatile::masked,
};
use aya_ebpf::{
    bindings::{seq_file, task_struct},
    helpers::generated::{bpf_get_task_stack, bpf_ktime_get_ns, bpf_seq_write},
};

use crate::{
    maps::{
        CHUNK, KNOWN_THREADS, LAST_VISITED, PROCESS_STATES, PROCESSES, SWITCHED_THREADS, VISIT,
        WITH_NATIVE, WITH_SWITCHES,
    },
    registers,
    task::{Task, TypedTask},
    values::VisitedProcess,
};

/// The context of an iterator over tasks (`struct bpf_iter__task`).
#[repr(C)]
pub(crate) struct TaskVisit {
    metadata: *const Metadata,
    /// Null after the last one.
    task: *mut task_struct,
}

/// `struct bpf_iter_meta`.
#[repr(C)]
pub(crate) struct Metadata {
    output: *mut seq_file,
    /// Another one for each time that the iterator is opened.
    session: u64,
}

/// What is recorded of a thread that rests.
const RESTING_BYTES: u32 = size_of::<RestingVisit>() as u32;

/// The head of a visit, without details.
const HEAD_BYTES: u32 = size_of::<ThreadVisit>() as u32;

/// A visit with details and no kernel frames.
const DETAILED_BYTES: u32 = HEAD_BYTES + size_of::<ThreadDetails>() as u32;

/// Most bytes of kernel frames.
const KERNEL_BYTES: u32 = MAX_KERNEL_FRAMES as u32 * 8;

/// Where visits are written to.
#[derive(Clone, Copy)]
pub(crate) struct Output(*mut seq_file);

impl Output {
    /// That of a program that runs for a task; [`None`] after the last one.
    ///
    /// # Safety
    ///
    /// `context` is that of an iterator over tasks.
    #[inline(always)]
    pub(crate) unsafe fn of(context: *mut TaskVisit) -> Option<Self> {
        // SAFETY: the verifier knows the fields.
        let (metadata, task) = unsafe { ((*context).metadata, (*context).task) };
        if task.is_null() {
            return None;
        }
        // SAFETY: as above.
        Some(Self(unsafe { (*metadata).output }))
    }

    /// Writes the first bytes of a visit.
    #[inline(always)]
    fn write(self, record: &WholeVisit, bytes: u32) {
        // Hidden from the compiler, which would drop the check below that older verifiers need.
        let bytes = masked(bytes, u32::MAX);
        if bytes as usize <= size_of::<WholeVisit>() {
            // SAFETY: the pointer is the kernel's own; the record has so many bytes.
            unsafe { bpf_seq_write(self.0, (&raw const *record).cast::<c_void>(), bytes) };
        }
    }
}

/// Visits each thread of the profiled processes: the first part of a pass.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub(crate) extern "C" fn on_thread(context: *mut TaskVisit) -> i32 {
    // SAFETY: the context that the kernel passes.
    if let Some(output) = unsafe { Output::of(context) } {
        // SAFETY: as above.
        let (metadata, task) = unsafe { ((*context).metadata, TypedTask::at((*context).task)) };
        // SAFETY: the verifier knows the field.
        let session = unsafe { (*metadata).session };
        if is_profiled_in(session, task.tgid()) {
            visit(output, task, task.tid(), task.start_time());
        }
    }
    0
}

/// Visits the threads whose stacks were just read: the second part of a pass.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub(crate) extern "C" fn on_read_thread(context: *mut TaskVisit) -> i32 {
    // SAFETY: the context that the kernel passes.
    if let Some(output) = unsafe { Output::of(context) } {
        // SAFETY: as above.
        visit_again(output, unsafe { TypedTask::at((*context).task) });
    }
    0
}

/// Visits a thread of a profiled process, of which this is the id, and this the time when it was made; returns the
/// bytes that are recorded.
#[inline(always)]
pub(crate) fn visit(output: Output, task: TypedTask, tid: u32, start_time_ns: u64) -> u32 {
    let known = KNOWN_THREADS.get_ptr(tid);
    if known.is_none() && !task.fields().runs_a_program() {
        return 0;
    }
    record(output, task, tid, start_time_ns, known, false).unwrap_or(0)
}

/// Visits a thread if its stack was read in the present chunk; returns the bytes that are recorded.
#[inline(always)]
pub(crate) fn visit_again(output: Output, task: TypedTask) -> u32 {
    let tid = task.tid();
    let known = KNOWN_THREADS.get_ptr(tid);
    // SAFETY: values of the map stay readable while the program runs.
    if known.is_none_or(|known| unsafe { (*known).chunk } != chunk()) {
        return 0;
    }
    record(output, task, tid, task.start_time(), known, true).unwrap_or(0)
}

/// Records a visit, the first one of a pass or another one.
#[inline(always)]
fn record(
    output: Output,
    task: TypedTask,
    tid: u32,
    start_time_ns: u64,
    known: Option<*const KnownThread>,
    again: bool,
) -> Option<u32> {
    let record = VISIT.get_ptr_mut(0)?;
    // SAFETY: a value of this processor, which nothing else writes to meanwhile.
    let record = unsafe { &mut *record };
    record.visit.tgid = task.tgid();
    record.visit.tid = tid;
    record.visit.start_time_ns = start_time_ns;
    // A thread that gives its processor up just now counts as on it.
    let switches = task.switches();
    record.visit.on_cpu = task.on_cpu();
    record.visit.switches = task.switches();
    if record.visit.switches != switches {
        record.visit.on_cpu = 1;
    }
    record.visit.state = task.state();
    // SAFETY: as above.
    let is_known = known.is_some_and(|known| is_same(unsafe { &*known }, &record.visit));
    let rests = record.visit.on_cpu == 0 && record.visit.state != 0;
    record.visit.is_unchanged = u32::from(is_known && rests);
    // Another one may have the id of a thread that was known, or it ends.
    if !again
        && record.visit.is_unchanged == 0
        && known.is_some()
        && !task.fields().runs_a_program()
    {
        return None;
    }
    if !again && record.visit.is_unchanged != 0 && WITH_SWITCHES.load() == 0 {
        record.visit.bytes = RESTING_BYTES;
        output.write(record, RESTING_BYTES);
        return Some(RESTING_BYTES);
    }
    record.visit.processor = task.processor();
    record.visit.padding = 0;
    read_times(task.fields(), &mut record.visit);
    let is_short = trace(&mut record.visit);
    let mut bytes = HEAD_BYTES;
    if record.visit.on_cpu == 0 && !is_known && !is_short {
        bytes = detail(task, record);
    }
    record.visit.bytes = bytes;
    output.write(record, bytes);
    Some(bytes)
}

/// Whether threads of this process are visited, in the pass of which this is the iterator's session.
///
/// Most threads follow another one of their process.
#[inline(always)]
fn is_profiled_in(session: u64, tgid: u32) -> bool {
    let Some(last) = LAST_VISITED.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: a value of this processor, which nothing else writes to meanwhile.
    let last = unsafe { &mut *last };
    if last.session == session && last.tgid == tgid {
        return last.is_profiled != 0;
    }
    let is_profiled = is_profiled(tgid);
    *last = VisitedProcess {
        session,
        tgid,
        is_profiled: is_profiled.into(),
    };
    is_profiled
}

/// Whether threads of this process are visited.
#[inline(always)]
pub(crate) fn is_profiled(tgid: u32) -> bool {
    PROCESSES.get_ptr(tgid).is_some_and(|process| {
        // SAFETY: values of the maps stay readable while the program runs.
        unsafe {
            (*process).is_excluded == 0
                || PROCESS_STATES
                    .get_ptr(tgid)
                    .is_some_and(|state| (*state).program != (*process).program)
        }
    })
}

/// Records what may have changed of a thread since it was visited last. Most threads of a host rest, and their data is in
/// no cache.
#[inline(always)]
fn read_times(task: Task, visit: &mut ThreadVisit) {
    (visit.run_ns, visit.run_delay_ns, visit.thread_pointer) = (0, 0, 0);
    visit.preempted = 0;
    if visit.is_unchanged != 0 {
        return;
    }
    visit.run_ns = task.run_time();
    visit.run_delay_ns = task.run_delay();
    visit.thread_pointer = task.thread_pointer();
    visit.preempted = u32::from(task.is_preempted_by_current());
}

/// Records the traced wait of a thread, if there is one; returns whether it is so short that it is sampled elsewhere.
#[inline(always)]
fn trace(visit: &mut ThreadVisit) -> bool {
    (visit.short_ns, visit.left_ns) = (0, 0);
    visit.is_traced = 0;
    if WITH_SWITCHES.load() == 0 {
        return false;
    }
    let Some(thread) = SWITCHED_THREADS.get_ptr(visit.tid) else {
        return false;
    };
    // SAFETY: values of the map stay readable while the program runs; the thread may leave its processor meanwhile.
    let (short_ns, left_ns, is_waiting) =
        unsafe { ((*thread).short_ns, (*thread).left_ns, (*thread).is_waiting) };
    visit.short_ns = short_ns;
    visit.is_traced = 1;
    if visit.on_cpu != 0 || is_waiting == 0 {
        return false;
    }
    visit.left_ns = left_ns;
    // SAFETY: the helper takes no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    now_ns.saturating_sub(left_ns) < SHORT_WAIT_NS
}

/// Whether the thread did not run since its stack was read.
#[inline(always)]
fn is_same(known: &KnownThread, visit: &ThreadVisit) -> bool {
    known.start_time_ns == visit.start_time_ns && known.switches == visit.switches
}

/// Records the details of a thread; returns the bytes of the visit.
#[inline(always)]
fn detail(task: TypedTask, record: &mut WholeVisit) -> u32 {
    record.details.comm = task.fields().name();
    record.details.rest_ns = task.fields().rest_time();
    let address = task.address();
    // SAFETY: the verifier knows it as a pointer to a `task_struct`.
    if !unsafe { registers::read_of(address, &mut record.details.registers) } {
        record.details.registers = Registers::ZERO;
    }
    if WITH_NATIVE.load() == 0 {
        return DETAILED_BYTES;
    }
    // SAFETY: the array has room for so many bytes; the pointer is as above.
    let kernel =
        unsafe { bpf_get_task_stack(address, (&raw mut record.kernel).cast(), KERNEL_BYTES, 0) };
    match u32::try_from(kernel) {
        Ok(bytes) if bytes <= KERNEL_BYTES => DETAILED_BYTES + bytes,
        _ => DETAILED_BYTES,
    }
}

/// The number of the current chunk.
#[inline(always)]
fn chunk() -> u64 {
    // SAFETY: values of the map stay readable while the program runs.
    CHUNK.get(0).map_or(0, |chunk| unsafe {
        core::ptr::from_ref(chunk).read_volatile()
    })
}
