//! Passes over the threads where a program can loop over tasks by itself (Linux 6.8 and later).
//!
//! The kernel's iterator takes two thirds of the time of a visit: it finds each thread by its id, and keeps a
//! reference. Here it visits one thread of the agent's own, and the program that runs for it loops over all others.
//!
//! Invariants: one run visits so few threads that others wait less than a millisecond for its processor, and records no
//! more than there is room for; the next one goes on where it has ended. A run of its own lists the processes of the
//! host.

use agent_common::visit::{Pass, WholeVisit};

use super::threads::{Output, TaskVisit, is_profiled, visit, visit_again};
use crate::{
    kernel_functions::{for_each_number, for_each_process, for_each_thread_from, with_task},
    maps::{NOTED_THREADS, PASS, VISITED_PROCESSES},
    task::TypedTask,
};

/// With so many bytes a run ends: what is left of the kernel's buffer has room for one more visit.
const ROOM: u32 = (32 << 10) - size_of::<WholeVisit>() as u32 - 1;

/// Visits some threads of the profiled processes.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub(crate) extern "C" fn on_pass(context: *mut TaskVisit) -> i32 {
    // SAFETY: the context that the kernel passes.
    unsafe { run(context, visit_some) };
    0
}

/// Visits some of the noted threads.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub(crate) extern "C" fn on_noted(context: *mut TaskVisit) -> i32 {
    // SAFETY: the context that the kernel passes.
    unsafe { run(context, visit_noted) };
    0
}

/// Makes a part of the present pass.
///
/// # Safety
///
/// `context` is that of an iterator over tasks.
#[inline(always)]
unsafe fn run(context: *mut TaskVisit, part: impl FnOnce(Output, &mut Pass)) {
    // SAFETY: the caller's.
    if let Some(output) = unsafe { Output::of(context) }
        && let Some(pass) = PASS.get_ptr_mut(0)
    {
        // SAFETY: one pass at a time uses the value.
        let pass = unsafe { &mut *pass };
        pass.bytes.set(0);
        pass.visits.set(0);
        part(output, pass);
    }
}

#[inline(always)]
fn visit_some(output: Output, pass: &mut Pass) {
    if pass.is_listed.get() == 0 {
        list(pass);
        return;
    }
    for_each_number(pass.position.get(), pass.end.get(), |position| {
        let Some(tgid) = VISITED_PROCESSES.get(position) else {
            return false;
        };
        visit_process(output, pass, *tgid);
        if is_full(pass) {
            return false;
        }
        count(pass, 0);
        pass.position.set(position + 1);
        pass.last_tid.set(0);
        pass.latest_start_ns.set(0);
        !is_full(pass)
    });
}

/// Visits the threads of a process: all, or those after the one that was visited last.
#[inline(always)]
fn visit_process(output: Output, pass: &mut Pass, tgid: u32) {
    let (last_tid, last_start_ns) = (pass.last_tid.get(), pass.last_start_ns.get());
    pass.from_tid.set(last_tid);
    pass.after_ns.set(0);
    let is_last = |task: TypedTask| task.tgid() == tgid && task.start_time() == last_start_ns;
    let mut first = last_tid;
    if last_tid == 0 || !with_task(last_tid, is_last) {
        // There is none, or it has ended. Threads are in the order in which they were made, but for those that are made
        // at the same time: of these one may be left out.
        pass.from_tid.set(0);
        pass.after_ns.set(pass.latest_start_ns.get());
        first = tgid;
    }
    let is_found = with_task(first, |task| {
        let is_of_process = task.tgid() == tgid;
        if is_of_process {
            visit_threads(output, pass, task);
        }
        is_of_process
    });
    if !is_found && pass.from_tid.get() != 0 {
        // It has just ended, as the next run will see.
        pass.visits.set(pass.most_visits.get());
    }
}

/// Visits a thread of a process, unless it has been visited, and those after it.
#[inline(always)]
fn visit_threads(output: Output, pass: &mut Pass, from: TypedTask) {
    for_each_thread_from(from, |task| {
        let (tid, start_ns) = (task.tid(), task.start_time());
        if tid == pass.from_tid.get() || start_ns <= pass.after_ns.get() {
            return true;
        }
        count(pass, visit(output, task, tid, start_ns));
        pass.last_tid.set(tid);
        pass.last_start_ns.set(start_ns);
        let latest_ns = pass.latest_start_ns.get().max(start_ns);
        pass.latest_start_ns.set(latest_ns);
        !is_full(pass)
    });
}

/// Lists the profiled processes.
#[inline(always)]
fn list(pass: &mut Pass) {
    pass.is_listed.set(1);
    if pass.only_process.get() == 0 {
        for_each_process(|process| add(pass, process.tgid()));
    } else {
        add(pass, pass.only_process.get());
    }
}

/// Lists a process if it is profiled; returns whether there is room for another one.
#[inline(always)]
fn add(pass: &mut Pass, tgid: u32) -> bool {
    if is_profiled(tgid) {
        let end = pass.end.get();
        let Some(place) = VISITED_PROCESSES.get_ptr_mut(end) else {
            return false;
        };
        // SAFETY: a value of the map, which nothing else writes to meanwhile.
        unsafe { *place = tgid };
        pass.end.set(end + 1);
    }
    true
}

#[inline(always)]
fn visit_noted(output: Output, pass: &mut Pass) {
    for_each_number(pass.position.get(), pass.end.get(), |position| {
        let Some(tid) = NOTED_THREADS.get(position) else {
            return false;
        };
        pass.position.set(position + 1);
        let mut bytes = 0;
        with_task(*tid, |task| {
            bytes = visit_again(output, task);
            true
        });
        count(pass, bytes);
        !is_full(pass)
    });
}

/// Counts a visit for which so many bytes are recorded.
#[inline(always)]
fn count(pass: &mut Pass, bytes: u32) {
    pass.visits.set(pass.visits.get().wrapping_add(1));
    pass.bytes.set(pass.bytes.get().wrapping_add(bytes));
}

/// Whether the run is to end.
#[inline(always)]
fn is_full(pass: &Pass) -> bool {
    pass.visits.get() >= pass.most_visits.get() || pass.bytes.get() >= ROOM
}
