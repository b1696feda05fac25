//! Functions of the kernel that are no helpers (kfuncs), and loops over what they iterate over.
//!
//! Programs that call them can be loaded only after the agent has put the functions' numbers into the calls, see
//! [`KernelFunction`].

use core::{mem::MaybeUninit, ptr::null_mut};

use agent_common::kernel_function::KernelFunction;
use aya_ebpf::bindings::task_struct;

use crate::task::TypedTask;

/// The state of a loop, of which only the kernel knows what is in it (`struct bpf_iter_task`).
#[repr(C, align(8))]
struct TaskLoop([u64; 3]);

/// The same of `struct bpf_iter_num`.
#[repr(C, align(8))]
struct NumberLoop(u64);

/// Which tasks a loop is over.
#[repr(u32)]
#[derive(Clone, Copy)]
enum Tasks {
    /// `BPF_TASK_ITER_ALL_PROCS`.
    AllProcesses = 0,
    /// `BPF_TASK_ITER_PROC_THREADS`.
    ThreadsOfProcess = 2,
}

/// The function as one that takes such arguments.
///
/// # Safety
///
/// `F` is the type of a function pointer with the arguments of that function.
#[inline(always)]
unsafe fn called<F: Copy>(function: KernelFunction) -> F {
    let helper = function.helper() as usize;
    // SAFETY: a helper is called by its number as an address; the rest is the caller's.
    unsafe { core::mem::transmute_copy(&helper) }
}

/// Runs `body` for each process, with its first thread, while it returns [`true`].
#[inline(always)]
pub(crate) fn for_each_process(body: impl FnMut(TypedTask) -> bool) {
    for_each_task(null_mut(), Tasks::AllProcesses, body);
}

/// Runs `body` for a thread and those that follow it in its process, while it returns [`true`].
#[inline(always)]
pub(crate) fn for_each_thread_from(thread: TypedTask, body: impl FnMut(TypedTask) -> bool) {
    for_each_task(thread.address(), Tasks::ThreadsOfProcess, body);
}

#[inline(always)]
fn for_each_task(from: *mut task_struct, tasks: Tasks, mut body: impl FnMut(TypedTask) -> bool) {
    type New = unsafe extern "C" fn(*mut TaskLoop, *mut task_struct, u32) -> i32;
    type Next = unsafe extern "C" fn(*mut TaskLoop) -> *mut task_struct;
    type Destroy = unsafe extern "C" fn(*mut TaskLoop);
    let mut state = MaybeUninit::<TaskLoop>::uninit();
    let state = state.as_mut_ptr();
    // SAFETY: the types are those of the kernel's functions, which are called in the order that the verifier checks.
    unsafe {
        called::<New>(KernelFunction::TasksNew)(state, from, tasks as u32);
        loop {
            let task = called::<Next>(KernelFunction::TasksNext)(state);
            if task.is_null() || !body(TypedTask::at(task)) {
                break;
            }
        }
        called::<Destroy>(KernelFunction::TasksDestroy)(state);
    }
}

/// Runs `body` for the numbers of a range while it returns [`true`].
#[inline(always)]
pub(crate) fn for_each_number(from: u32, to: u32, mut body: impl FnMut(u32) -> bool) {
    type New = unsafe extern "C" fn(*mut NumberLoop, i32, i32) -> i32;
    type Next = unsafe extern "C" fn(*mut NumberLoop) -> *const u32;
    type Destroy = unsafe extern "C" fn(*mut NumberLoop);
    let mut state = MaybeUninit::<NumberLoop>::uninit();
    let state = state.as_mut_ptr();
    // SAFETY: as above; the number is readable until the next call.
    unsafe {
        called::<New>(KernelFunction::NumbersNew)(state, from.cast_signed(), to.cast_signed());
        loop {
            let number = called::<Next>(KernelFunction::NumbersNext)(state);
            if number.is_null() || !body(*number) {
                break;
            }
        }
        called::<Destroy>(KernelFunction::NumbersDestroy)(state);
    }
}

/// Runs `body` with the task that has this id in the initial PID namespace; [`false`] where there is none.
#[inline(always)]
pub(crate) fn with_task(tid: u32, body: impl FnOnce(TypedTask) -> bool) -> bool {
    type FromPid = unsafe extern "C" fn(i32) -> *mut task_struct;
    type Release = unsafe extern "C" fn(*mut task_struct);
    // SAFETY: the types are those of the kernel's functions; what was acquired is released.
    unsafe {
        let task = called::<FromPid>(KernelFunction::TaskFromPid)(tid.cast_signed());
        if task.is_null() {
            return false;
        }
        let result = body(TypedTask::at(task));
        called::<Release>(KernelFunction::TaskRelease)(task);
        result
    }
}
