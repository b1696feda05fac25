//! The steps that send a native stack whose walk has ended at code that the agent does not know yet, with what it
//! needs to walk on once it does: a copy of the thread's stack.
//!
//! Invariants: a processor copies what its [budget](agent_common::stack_budget) allows, and nothing while much is unread;
//! where it may not, the stack is sent as it is.

use agent_common::{
    counter::Counter,
    limits::{
        HOST_STACKS, MAX_STACK_PAGES, MAX_UNREAD_FOR_STACKS, PROGRAM_STACKS, STACK_PAGE_BYTES,
    },
    maps::ProcessState,
    record::{NativeUnwindStatus, RecordKind, StackPage, UnfinishedStack},
};
use aya_ebpf::helpers::generated::{bpf_probe_read_kernel, bpf_probe_read_user};

use super::native;
use crate::{
    current, emit,
    maps::{PROCESS_STATES, WHOLE_HOST, WITH_STACK_COPIES, count},
    task::Task,
};

/// Bytes below the stack pointer that a rule may refer to. The page with them may never have been used.
const BELOW_STACK_POINTER: u64 = 256;

/// The address of a page of a stack.
const PAGE_MASK: u64 = !(STACK_PAGE_BYTES as u64 - 1);

/// Whether a walk that ended so may be continued when the agent knows more.
#[inline(always)]
pub(crate) fn is_unfinished(status: NativeUnwindStatus) -> bool {
    let is_unknown =
        status == NativeUnwindStatus::NO_TABLE || status == NativeUnwindStatus::UNMAPPED;
    is_unknown && WITH_STACK_COPIES.load() != 0
}

/// Sends the native stack, which ended with this [`NativeUnwindStatus`], and what is needed to walk on; returns its
/// hash, 0 for none.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn send_unfinished(status: u32) -> u64 {
    match try_send_unfinished(status) {
        Some(stack) => stack,
        None => native::send_native(),
    }
}

#[inline(always)]
fn try_send_unfinished(status: u32) -> Option<u64> {
    let sampler = current::sampler()?;
    let (thread, now_ns) = (sampler.tid.get(), sampler.time_ns.get());
    let state = PROCESS_STATES.get_ptr(sampler.tgid.get())?;
    // SAFETY: values of the map stay readable while the program runs.
    let state: &ProcessState = unsafe { &*state };
    // A record that is made in a probe would hold up all others while its thread does not run.
    if !state.has_new_mappings(now_ns) || Task::current().is_exiting() || current::is_of_probe() {
        return None;
    }
    let Some(stack) = may_copy(now_ns)
        .then(|| native::send_unique([now_ns, u64::from(thread)]))
        .flatten()
    else {
        count(Counter::UNCOPIED_STACKS);
        return None;
    };
    let stack_pointer = current::native()?.walk.stack_pointer();
    let own_page = stack_pointer & PAGE_MASK;
    let mut address = stack_pointer.wrapping_sub(BELOW_STACK_POINTER) & PAGE_MASK;
    let mut sent = 0;
    let mut nth = 0;
    while nth < MAX_STACK_PAGES {
        if send_stack_page(stack, address) != 0 {
            sent += 1;
        } else if sent != 0 || address == own_page {
            break;
        }
        address = address.wrapping_add(STACK_PAGE_BYTES as u64);
        nth += 1;
    }
    current::stack_budget()?.spend(sent);
    let is_sent = send_position(stack, status, state.program) != 0;
    count(if is_sent {
        Counter::UNFINISHED_STACKS
    } else {
        Counter::UNCOPIED_STACKS
    });
    Some(stack)
}

/// Whether this processor may copy a stack.
#[inline(always)]
fn may_copy(now_ns: u64) -> bool {
    let rate = if WHOLE_HOST.load() != 0 {
        HOST_STACKS
    } else {
        PROGRAM_STACKS
    };
    current::stack_budget().is_some_and(|budget| budget.has_room(now_ns, rate))
        && emit::has_room(MAX_UNREAD_FOR_STACKS)
}

/// Sends a page of the thread's stack; 0 where it is not readable or the ring buffer is full.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn send_stack_page(stack: u64, address: u64) -> u32 {
    if !emit::has_room(MAX_UNREAD_FOR_STACKS) {
        return 0;
    }
    let is_sent = emit::make(RecordKind::STACK_PAGE, |page: *mut StackPage, header| {
        // SAFETY: the page is room in the ring buffer that belongs to this program; the helper checks `address`.
        unsafe {
            (&raw mut (*page).header).write(header);
            (&raw mut (*page).stack).write(stack);
            (&raw mut (*page).address).write(address);
            bpf_probe_read_user(
                (&raw mut (*page).bytes).cast(),
                STACK_PAGE_BYTES as u32,
                address as *const _,
            ) == 0
        }
    });
    u32::from(is_sent)
}

/// Sends where the walk has ended, with this [`NativeUnwindStatus`]; 0 where the ring buffer is full.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn send_position(stack: u64, status: u32, program: u64) -> u32 {
    let (Some(native), Some(sampler)) = (current::native(), current::sampler()) else {
        return 0;
    };
    let Some(style) = current::run_style(sampler) else {
        return 0;
    };
    let (tgid, python_depth) = (sampler.tgid.get(), sampler.walk.stack.depth());
    let mappings_epoch = sampler.mappings_epoch.get();
    let kept = native.walk.stack.kept();
    let position = &raw const native.walk.position;
    let runs = &raw const sampler.walk.runs;
    let fill = |record: *mut UnfinishedStack, header| {
        // SAFETY: the record is room in the ring buffer that belongs to this program, and what is copied are values of
        // maps; the helper is called because they are too long for the compiler to copy.
        unsafe {
            (&raw mut (*record).header).write(header);
            (&raw mut (*record).stack).write(stack);
            (&raw mut (*record).program).write(program);
            (&raw mut (*record).mappings_epoch).write(mappings_epoch);
            (&raw mut (*record).tgid).write(tgid);
            (&raw mut (*record).python_depth).write(python_depth);
            (&raw mut (*record).status).write(NativeUnwindStatus(status as u16));
            (&raw mut (*record).style).write(style);
            (&raw mut (*record).kept).write(kept);
            copy(&raw mut (*record).position, position) && copy(&raw mut (*record).runs, runs)
        }
    };
    u32::from(emit::make(RecordKind::UNFINISHED_STACK, fill))
}

/// Copies a value.
///
/// # Safety
///
/// `to` must be writable, which the verifier must see.
#[inline(always)]
unsafe fn copy<T>(to: *mut T, from: *const T) -> bool {
    // SAFETY: the caller's.
    unsafe { bpf_probe_read_kernel(to.cast(), size_of::<T>() as u32, from.cast()) == 0 }
}
