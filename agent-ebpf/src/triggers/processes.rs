//! Processes that fork, execute another program, or end.
//!
//! A child of a profiled process is profiled from its first instruction on: it is a copy, with the
//! same interpreter at the same address. A process that executes another program is not sampled as
//! Python until the agent has inspected it. On a whole host every process is tracked. Where processes are
//! profiled that match something, the agent is told of each that executes a program.
//!
//! Invariant: the entry of a process that is forked or ends is added and removed here; all other changes are the
//! agent's; which program it is about is compared at each sample.
#![expect(
    clippy::needless_pass_by_value,
    reason = "the context is what the macro gives to a program"
)]

use agent_common::{
    counter::Counter,
    layout::RunningTaskLayout,
    maps::{Children, ProcessState, TrackedProcess},
    record::ProcessEventKind,
};
use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, generated::bpf_ktime_get_ns},
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};

use crate::{
    emit, log,
    maps::{PROCESS_STATES, PROCESSES, THREADS, WHOLE_HOST, WITH_APPEARED, count},
    task::Task,
};

/// Attached to `sched_process_fork(parent, child)`.
#[raw_tracepoint]
pub(crate) fn on_fork(context: RawTracePointContext) -> u32 {
    let parent = Task::at(context.arg(0)).tgid();
    let child = Task::at(context.arg(1));
    if parent != child.tgid() {
        track_child(parent, child);
    }
    0
}

/// Tracks `child` if children of its parent are profiled.
#[inline(always)]
fn track_child(parent: u32, child: Task) {
    let process = if let Some(process) = PROCESSES.get_ptr(parent) {
        // SAFETY: values of the map stay readable while the program runs.
        unsafe { *process }
    } else if WHOLE_HOST.load() != 0 && child.has_memory() {
        UNTRACKED
    } else {
        return;
    };
    if process.with_children != Children::NONE {
        let mut state = ProcessState::NEW;
        if let Some(original) = PROCESS_STATES.get_ptr(parent) {
            // SAFETY: values of the map stay readable while the program runs.
            state = unsafe { *original };
        }
        add(
            child.tgid(),
            &process,
            &state,
            ProcessEventKind::FORKED,
            parent,
        );
    }
}

/// A process of a whole host that the agent has not inspected yet.
const UNTRACKED: TrackedProcess = TrackedProcess {
    interpreters_head: 0,
    gil_holder: 0,
    thread_pointer_distance: 0,
    program: 0,
    mappings_epoch: 0,
    first_mapping: 0,
    mapping_count: 0,
    layout: 0,
    with_children: Children::ALL,
    is_excluded: 0,
    tasks: RunningTaskLayout::UNKNOWN,
};

/// Tracks a process from now on, and sends the event.
#[inline(always)]
fn add(
    tgid: u32,
    process: &TrackedProcess,
    state: &ProcessState,
    kind: ProcessEventKind,
    parent: u32,
) {
    // The state first: without it the entry would be taken to be of an older program.
    let is_tracked = PROCESS_STATES.insert(tgid, state, 0).is_ok();
    if is_tracked && PROCESSES.insert(tgid, process, 0).is_ok() {
        send(kind, tgid, parent);
    } else {
        count(Counter::UNTRACKED_PROCESSES);
        log::left_out(tgid);
    }
}

/// Sends an event that is not repeated.
#[inline(always)]
fn send(kind: ProcessEventKind, tgid: u32, parent: u32) {
    if !emit::process_event(kind, tgid, parent) {
        count(Counter::LOST_PROCESS_EVENTS);
    }
}

/// Attached to `sched_process_exec`, which the process itself runs.
#[raw_tracepoint]
pub(crate) fn on_exec(_: RawTracePointContext) -> u32 {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    // SAFETY: the helper takes no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let state = ProcessState {
        // What the agent has found out is about the program before.
        program: now_ns,
        // Addresses mean something else now.
        new_code_ns: now_ns,
        ..ProcessState::NEW
    };
    if let Some(process) = PROCESSES.get_ptr(tgid) {
        // SAFETY: values of the map stay readable while the program runs.
        if unsafe { (*process).with_children } == Children::COPIES {
            let _ = PROCESSES.remove(tgid);
            let _ = PROCESS_STATES.remove(tgid);
            send(ProcessEventKind::APPEARED, tgid, 0);
            return 0;
        }
        let is_tracked = PROCESS_STATES.insert(tgid, state, 0).is_ok();
        if !is_tracked {
            let _ = PROCESSES.remove(tgid);
            count(Counter::UNTRACKED_PROCESSES);
        }
        send(ProcessEventKind::EXECUTED, tgid, 0);
    } else if WHOLE_HOST.load() != 0 {
        add(tgid, &UNTRACKED, &state, ProcessEventKind::EXECUTED, 0);
    } else if WITH_APPEARED.load() != 0 {
        send(ProcessEventKind::APPEARED, tgid, 0);
    }
    0
}

/// Attached to `sched_process_exit`, which every thread runs at its end.
#[raw_tracepoint]
pub(crate) fn on_exit(_: RawTracePointContext) -> u32 {
    let pid_tgid = bpf_get_current_pid_tgid();
    let tgid = (pid_tgid >> 32) as u32;
    if PROCESSES.get_ptr(tgid).is_none() {
        return 0;
    }
    // It may not be there, and an entry that stays is recognised as another thread's.
    let _ = THREADS.remove(pid_tgid as u32);
    if Task::current().live_threads() == 0 {
        send(ProcessEventKind::EXITED, tgid, 0);
    }
    0
}

/// Attached to `sched_process_free(task)`: only now is the process over. From Linux 6.16 on its
/// memory is given back after it is said to exit, which may take long and is its time.
#[raw_tracepoint]
pub(crate) fn on_free(context: RawTracePointContext) -> u32 {
    let task = Task::at(context.arg(0));
    if task.is_leader() {
        let _ = PROCESSES.remove(task.tgid());
        let _ = PROCESS_STATES.remove(task.tgid());
    }
    0
}
