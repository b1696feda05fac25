//! What a thread waits for, from its saved registers.
//!
//! A thread that waits has entered the kernel, and its user registers have the number and the arguments
//! of its system call. Those say what it waits for, without any tracing of system calls; the kind of a
//! descriptor and the addresses of the GIL are looked up. In no system call, a thread that cannot be
//! interrupted waits for a page.
//!
//! What cannot be distinguished:
//!
//! - a system call that went on after a stop or a signal is `restart_syscall` and has lost its number.
//!   Its arguments are still there: that of a wait for the GIL is recognized by its word; all others
//!   count as [`WaitReason::SLEEP`], the most frequent one (the others are `futex` and `poll` with a
//!   time limit)
//! - a thread that the freezer of control groups has stopped is in its system call as before; of the one of version 1 the
//!   [state](is_stopped) says so from Linux 6.1 on, of that of version 2 it does not
//! - `futex_waitv` has its words in memory, where they are not looked for: [`WaitReason::LOCK`]
//! - with musl the word of a condition variable is on the waiter's stack, so that a wait for the GIL is
//!   [`WaitReason::LOCK`]
//!
//! Invariants: every number and every argument has a reason; nothing is read of the process here.

mod calls;
pub mod descriptors;

pub use calls::Abi;

use agent_common::{
    maps::{SYSTEM_CALLS, WaitClass},
    record::WaitReason,
};

use self::{
    calls::{Wait, wait_of},
    descriptors::FileKind,
};
use crate::python::gil::GilWords;

/// A thread that is not on a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadAtRest {
    /// The system call it is in; [`None`] in none, that is, `orig_ax` or `syscallno` is -1.
    pub system_call: Option<SystemCall>,
    /// Whether signals do not interrupt its wait (state `D`).
    pub uninterruptible: bool,
    /// Whether it only lacks a processor (state `R`), as it was woken or preempted.
    pub runnable: bool,
}

/// A system call with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// What its number means.
    pub abi: Abi,
    /// Its number.
    pub number: u32,
    /// Its arguments, in order.
    pub arguments: [u64; 6],
}

/// What a thread waits for; `file` gives the kind of a descriptor of its process, `gil` is the GIL of
/// its process.
///
/// A thread that was woken and only lacks a processor still counts as in its wait: else waits would be
/// missed that end while the agent occupies a processor. That does not hold for calls that mostly work
/// in the kernel, as those on files do, nor outside of waits: such a thread is
/// [`WaitReason::RUNNABLE`].
pub fn reason(
    thread: &ThreadAtRest,
    file: impl FnMut(i32) -> FileKind,
    gil: Option<&GilWords>,
) -> WaitReason {
    let reason = match &thread.system_call {
        Some(call) => reason_of_call(call, thread.uninterruptible, file, gil),
        None if thread.uninterruptible => WaitReason::PAGE_FAULT,
        // Stopped, traced, or runnable.
        None => WaitReason::OTHER,
    };
    match reason {
        WaitReason::OTHER | WaitReason::FILE | WaitReason::PAGE_FAULT if thread.runnable => {
            WaitReason::RUNNABLE
        }
        reason => reason,
    }
}

/// Whether a thread in this `__state` of the kernel is stopped: by a signal, by whoever traces it, or frozen. Its system
/// call is the one that this has interrupted.
#[must_use]
pub fn is_stopped(state: u32) -> bool {
    /// `__TASK_STOPPED`, `__TASK_TRACED` and `TASK_FROZEN`.
    const STOPPED: u32 = 0x4 | 0x8 | 0x8000;

    state & STOPPED != 0
}

/// What the system calls of 64-bit programs of this machine wait for, by number, as far as their numbers say.
#[must_use]
pub fn wait_classes() -> [WaitClass; SYSTEM_CALLS as usize] {
    let abi = if cfg!(target_arch = "aarch64") {
        Abi::Aarch64
    } else {
        Abi::X86_64
    };
    let mut classes = [WaitClass::OTHER; SYSTEM_CALLS as usize];
    for (number, class) in (0..).zip(&mut classes) {
        *class = class_of(wait_of(abi, number));
    }
    classes
}

fn class_of(wait: Wait) -> WaitClass {
    match wait {
        Wait::Futex | Wait::FutexWord | Wait::Lock | Wait::Ipc | Wait::Control => WaitClass::LOCK,
        Wait::Sleep | Wait::Restart => WaitClass::SLEEP,
        Wait::Select | Wait::Poll | Wait::Events => WaitClass::POLL,
        Wait::Descriptor
        | Wait::Transfer
        | Wait::Splice
        | Wait::Pipe
        | Wait::Socket
        | Wait::IoUring
        | Wait::File => WaitClass::IO,
        Wait::Child | Wait::Clone | Wait::Clone3 => WaitClass::CHILD,
        Wait::Other => WaitClass::OTHER,
    }
}

/// The word for which a thread waits in a call of `futex`.
#[must_use]
pub fn futex_word(call: &SystemCall) -> Option<u64> {
    let is_futex = matches!(
        wait_of(call.abi, call.number),
        Wait::Futex | Wait::FutexWord
    );
    is_futex.then_some(call.arguments[0])
}

fn reason_of_call(
    call: &SystemCall,
    uninterruptible: bool,
    mut file: impl FnMut(i32) -> FileKind,
    gil: Option<&GilWords>,
) -> WaitReason {
    let [first, second, third, fourth, ..] = call.arguments;
    let is_gil = || gil.is_some_and(|gil| gil.contains(first));
    match wait_of(call.abi, call.number) {
        Wait::Futex if !is_futex_wait(second) => WaitReason::OTHER,
        Wait::Futex | Wait::FutexWord | Wait::Restart if is_gil() => WaitReason::GIL,
        Wait::Futex | Wait::FutexWord | Wait::Lock => WaitReason::LOCK,
        Wait::Restart | Wait::Sleep => WaitReason::SLEEP,
        Wait::Select if number(first) <= 0 || [second, third, fourth] == [0; 3] => {
            WaitReason::SLEEP
        }
        Wait::Poll if number(second) == 0 => WaitReason::SLEEP,
        Wait::Select | Wait::Poll | Wait::Events => WaitReason::POLL,
        Wait::Descriptor => reason_of_file(file(number(first))),
        Wait::Transfer => reason_of_files([first, second].map(|it| file(number(it)))),
        Wait::Splice => reason_of_files([first, third].map(|it| file(number(it)))),
        Wait::Pipe => WaitReason::PIPE,
        Wait::Socket => WaitReason::SOCKET,
        Wait::Child => WaitReason::CHILD,
        Wait::Clone if first & CLONE_VFORK != 0 => WaitReason::CHILD,
        // Its flags are in memory, but nothing else in it waits for long without being interruptible.
        Wait::Clone3 if uninterruptible => WaitReason::CHILD,
        Wait::IoUring => WaitReason::IO_URING,
        Wait::Ipc if IPC_WAITS.contains(&(number(first) & 0xffff)) => WaitReason::LOCK,
        Wait::Control if LOCK_WAITS.contains(&number(second)) => WaitReason::LOCK,
        Wait::File => WaitReason::FILE,
        Wait::Clone | Wait::Clone3 | Wait::Ipc | Wait::Control | Wait::Other => WaitReason::OTHER,
    }
}

/// The flag of `clone` with which the caller waits until the child runs another program or ends.
const CLONE_VFORK: u64 = 0x4000;

/// The operations of `fcntl` that wait: `F_SETLKW`, `F_SETLKW64` and `F_OFD_SETLKW`.
const LOCK_WAITS: [i32; 3] = [7, 14, 38];

/// The operations of `ipc` that wait: `SEMOP`, `SEMTIMEDOP`, `MSGSND` and `MSGRCV`.
const IPC_WAITS: [i32; 4] = [1, 4, 11, 12];

/// Whether an operation of `futex` waits.
fn is_futex_wait(operation: u64) -> bool {
    /// Bits `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`.
    const FLAGS: i32 = 0x180;
    /// `FUTEX_WAIT`, `FUTEX_LOCK_PI`, `FUTEX_WAIT_BITSET`, `FUTEX_WAIT_REQUEUE_PI`,
    /// `FUTEX_LOCK_PI2`.
    const WAITS: [i32; 5] = [0, 6, 9, 11, 13];

    WAITS.contains(&(number(operation) & !FLAGS))
}

/// What a thread waits for that reads or writes such a file.
fn reason_of_file(kind: FileKind) -> WaitReason {
    match kind {
        FileKind::Socket => WaitReason::SOCKET,
        FileKind::Pipe | FileKind::Terminal | FileKind::Event => WaitReason::PIPE,
        FileKind::Timer => WaitReason::SLEEP,
        FileKind::File => WaitReason::FILE,
        FileKind::IoUring => WaitReason::IO_URING,
        FileKind::Unknown => WaitReason::OTHER,
    }
}

/// The same for a call with two files: the one that is not on a disk makes it wait for others.
fn reason_of_files(kinds: [FileKind; 2]) -> WaitReason {
    let [one, other] = kinds.map(reason_of_file);
    let is_rather_other = match one {
        WaitReason::OTHER => true,
        WaitReason::FILE => matches!(other, WaitReason::SOCKET | WaitReason::PIPE),
        _ => false,
    };
    if is_rather_other { other } else { one }
}

/// An argument of the type `int`, whose upper half is undefined.
fn number(argument: u64) -> i32 {
    let [a, b, c, d, ..] = argument.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests;
