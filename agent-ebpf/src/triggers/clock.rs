//! The sampling clock: samples the thread that runs at each tick.

use agent_common::{counter::Counter, maps::KERNEL_THREADS, record::ProcessEventKind};
use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, generated::bpf_ktime_get_ns},
    macros::perf_event,
    programs::PerfEventContext,
};

use crate::{
    current, emit,
    maps::{CONTROL, PROCESSES, WHOLE_HOST, WITH_NATIVE, count},
    sample,
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
        sample::take(&context);
    }
    0
}

/// Prepares a sample of the current thread, if its process is profiled.
#[inline(always)]
fn begin_sample() -> Option<()> {
    // SAFETY: the helper takes no arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    let pid_tgid = bpf_get_current_pid_tgid();
    let task = Task::current();
    let mut tgid = (pid_tgid >> 32) as u32;
    let mut process = PROCESSES.get_ptr_mut(tgid);
    // An idle processor runs process 0.
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
    // SAFETY: as above.
    let control = CONTROL.get(0)?;
    sampler.resend_before_ns.set(control.resend_before_ns);
    sampler.tgid.set(tgid);
    sampler.tid.set(pid_tgid as u32);
    // SAFETY: values of the map stay readable and writable while the program runs; another
    // processor may write the same number of pages, or an older one.
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
            .clock
            .periods(now_ns, control.period_ns, pid_tgid as u32, task.switches());
    sampler.weight.set(periods);
    sampler.position.clear();
    sampler.walk.clear();
    sampler.last_fault.clear();
    Some(())
}
