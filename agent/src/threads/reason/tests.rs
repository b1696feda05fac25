use super::{Abi, FileKind, SystemCall, ThreadAtRest, is_stopped, reason};
use crate::python::gil::{GilLocation, GilWords};
use agent_common::{
    memory::{Fault, UserAddr, UserMemory},
    record::WaitReason,
};
use proptest::prelude::{any, proptest};

/// `last_holder` of a GIL, and a word of its condition variable.
const HOLDER: u64 = 0x7f00_0000;
const GIL_WORD: u64 = HOLDER + 24 + 40;

/// A word of another lock.
const LOCK_WORD: u64 = 0x6000_0000;

struct NoMemory;

impl UserMemory for NoMemory {
    unsafe fn copy(&self, _: UserAddr, _: *mut u8, _: u32) -> Result<(), Fault> {
        Err(Fault)
    }
}

fn gil() -> GilWords {
    GilLocation::in_runtime(HOLDER).words(&NoMemory)
}

/// A thread in a system call of x86-64 with these first arguments, the others being pointers.
fn inside(number: u32, first: &[u64]) -> ThreadAtRest {
    in_call(Abi::X86_64, number, first)
}

fn in_call(abi: Abi, number: u32, first: &[u64]) -> ThreadAtRest {
    let mut arguments = [0x7ffc_1234_5678; 6];
    arguments[..first.len()].copy_from_slice(first);
    ThreadAtRest {
        system_call: Some(SystemCall {
            abi,
            number,
            arguments,
        }),
        uninterruptible: false,
        runnable: false,
    }
}

fn outside(uninterruptible: bool, runnable: bool) -> ThreadAtRest {
    ThreadAtRest {
        system_call: None,
        uninterruptible,
        runnable,
    }
}

/// The kinds of some descriptors.
fn kind(descriptor: i32) -> FileKind {
    match descriptor {
        3 => FileKind::Socket,
        4 => FileKind::Pipe,
        5 => FileKind::Terminal,
        6 => FileKind::Event,
        7 => FileKind::Timer,
        8 => FileKind::File,
        9 => FileKind::IoUring,
        _ => FileKind::Unknown,
    }
}

fn of(thread: ThreadAtRest) -> WaitReason {
    reason(&thread, kind, Some(&gil()))
}

#[track_caller]
fn assert_reasons(cases: &[(u32, &[u64], WaitReason)]) {
    for (number, first, expected) in cases {
        assert_eq!(of(inside(*number, first)), *expected, "{number} {first:x?}");
    }
}

#[test]
fn outside_of_system_calls_the_state_says_it() {
    assert_eq!(of(outside(false, true)), WaitReason::RUNNABLE);
    assert_eq!(of(outside(true, true)), WaitReason::RUNNABLE);
    assert_eq!(of(outside(true, false)), WaitReason::PAGE_FAULT);
    assert_eq!(of(outside(false, false)), WaitReason::OTHER);
}

#[test]
fn a_word_of_the_gil_is_the_gil_and_any_other_a_lock() {
    // Without flags, private, with a real-time clock; FUTEX_WAIT, LOCK_PI, WAIT_BITSET,
    // WAIT_REQUEUE_PI, LOCK_PI2.
    for flags in [0, 128, 256, 384] {
        for operation in [0, 6, 9, 11, 13] {
            // The upper half of an `int` is undefined.
            let operation = 0xdead_0000_0000 | operation | flags;
            let wait = |word| of(inside(202, &[word, operation]));
            assert_eq!(wait(GIL_WORD), WaitReason::GIL, "{operation:#x}");
            assert_eq!(wait(LOCK_WORD), WaitReason::LOCK, "{operation:#x}");
        }
        // FUTEX_WAKE, REQUEUE, WAKE_OP, UNLOCK_PI, TRYLOCK_PI, WAKE_BITSET.
        for operation in [1, 3, 5, 7, 8, 10] {
            let wake = of(inside(202, &[GIL_WORD, operation | flags]));
            assert_eq!(wake, WaitReason::OTHER, "{operation}");
        }
    }
    // `futex_wait` and `futex_waitv`, whose words are in memory.
    assert_eq!(of(inside(455, &[GIL_WORD])), WaitReason::GIL);
    assert_eq!(of(inside(455, &[LOCK_WORD])), WaitReason::LOCK);
    assert_eq!(of(inside(449, &[GIL_WORD, 2])), WaitReason::LOCK);
    // A process without Python.
    let thread = inside(202, &[GIL_WORD, 0]);
    assert_eq!(reason(&thread, kind, None), WaitReason::LOCK);
}

#[test]
fn a_wait_for_descriptors_without_any_is_a_sleep() {
    assert_reasons(&[
        (35, &[], WaitReason::SLEEP),
        (230, &[1], WaitReason::SLEEP),
        // select, pselect6
        (23, &[0, 0, 0, 0], WaitReason::SLEEP),
        (270, &[0], WaitReason::SLEEP),
        (270, &[1024, 0, 0, 0], WaitReason::SLEEP),
        (23, &[4], WaitReason::POLL),
        (270, &[4, 0, 0], WaitReason::POLL),
        // poll, ppoll
        (7, &[0, 0], WaitReason::SLEEP),
        (271, &[0x7000, 0], WaitReason::SLEEP),
        (7, &[0x7000, 1], WaitReason::POLL),
        (271, &[0x7000, 2], WaitReason::POLL),
        // epoll_wait, epoll_pwait, epoll_pwait2
        (232, &[5], WaitReason::POLL),
        (281, &[5], WaitReason::POLL),
        (441, &[5], WaitReason::POLL),
    ]);
}

#[test]
fn what_is_read_or_written_says_what_is_waited_for() {
    for number in [0, 1, 17, 18, 19, 20, 295, 296, 327, 328] {
        for (descriptor, expected) in [
            (3, WaitReason::SOCKET),
            (4, WaitReason::PIPE),
            (5, WaitReason::PIPE),
            (6, WaitReason::PIPE),
            (7, WaitReason::SLEEP),
            (8, WaitReason::FILE),
            (9, WaitReason::IO_URING),
            (10, WaitReason::OTHER),
            (0xffff_ffff, WaitReason::OTHER),
            (0xffff_ffff_0000_0003, WaitReason::SOCKET),
        ] {
            assert_eq!(
                of(inside(number, &[descriptor])),
                expected,
                "{number} {descriptor}"
            );
        }
    }
}

#[test]
fn of_two_files_the_one_that_is_not_on_a_disk_counts() {
    assert_reasons(&[
        // sendfile: to, from
        (40, &[3, 8], WaitReason::SOCKET),
        (40, &[8, 4], WaitReason::PIPE),
        (40, &[8, 8], WaitReason::FILE),
        (40, &[10, 8], WaitReason::FILE),
        (40, &[10, 10], WaitReason::OTHER),
        // splice: from, its offset, to
        (275, &[4, 0, 3], WaitReason::PIPE),
        (275, &[8, 0, 4], WaitReason::PIPE),
        (275, &[3, 0, 4], WaitReason::SOCKET),
        (276, &[4, 4], WaitReason::PIPE),
        (278, &[4], WaitReason::PIPE),
        (326, &[8, 0, 8], WaitReason::FILE),
    ]);
}

#[test]
fn network_children_and_rings_are_recognized() {
    for number in [42, 43, 288, 44, 45, 46, 47, 299, 307] {
        assert_eq!(of(inside(number, &[10])), WaitReason::SOCKET, "{number}");
    }
    assert_reasons(&[
        (61, &[], WaitReason::CHILD),
        (247, &[], WaitReason::CHILD),
        (58, &[], WaitReason::CHILD),
        // clone: CLONE_VFORK | CLONE_VM, then that of a thread.
        (56, &[0x4111], WaitReason::CHILD),
        (56, &[0x3d_0f00], WaitReason::OTHER),
        (435, &[], WaitReason::OTHER),
        (426, &[], WaitReason::IO_URING),
    ]);
    let vfork = ThreadAtRest {
        uninterruptible: true,
        ..inside(435, &[])
    };
    assert_eq!(of(vfork), WaitReason::CHILD);
}

#[test]
fn locks_of_files_and_of_system_v_are_locks() {
    assert_reasons(&[
        (73, &[8, 2], WaitReason::LOCK),
        (72, &[8, 7], WaitReason::LOCK),
        (72, &[8, 38], WaitReason::LOCK),
        // F_GETFL
        (72, &[8, 3], WaitReason::OTHER),
        (65, &[], WaitReason::LOCK),
        (220, &[], WaitReason::LOCK),
        (69, &[], WaitReason::LOCK),
        (70, &[], WaitReason::LOCK),
        (243, &[], WaitReason::LOCK),
    ]);
}

#[test]
fn files_are_recognized_without_their_descriptors() {
    // open, openat, stat, newfstatat, rename, getdents64, fsync, fdatasync, io_getevents, close
    for number in [2, 257, 4, 262, 82, 217, 74, 75, 208, 3] {
        let thread = inside(number, &[10]);
        assert_eq!(of(thread), WaitReason::FILE, "{number}");
    }
}

#[test]
fn other_calls_are_other() {
    // getpid, rt_sigtimedwait, pause, rt_sigsuspend, ptrace, process_vm_readv, madvise, ioctl, none
    for number in [39, 128, 34, 130, 101, 310, 28, 16, 9999, u32::MAX] {
        assert_eq!(of(inside(number, &[3])), WaitReason::OTHER, "{number}");
    }
}

#[test]
fn a_restarted_call_is_a_sleep_unless_it_is_on_the_gil() {
    assert_eq!(of(inside(219, &[1, 0])), WaitReason::SLEEP);
    assert_eq!(of(inside(219, &[GIL_WORD, 0])), WaitReason::GIL);
    assert_eq!(of(in_call(Abi::I386, 0, &[1])), WaitReason::SLEEP);
    assert_eq!(of(in_call(Abi::Aarch64, 128, &[1])), WaitReason::SLEEP);
}

#[test]
fn a_woken_thread_still_counts_as_in_its_wait() {
    let woken = |number, first: &[u64]| {
        of(ThreadAtRest {
            runnable: true,
            ..inside(number, first)
        })
    };
    assert_eq!(woken(202, &[GIL_WORD, 0]), WaitReason::GIL);
    assert_eq!(woken(202, &[LOCK_WORD, 0]), WaitReason::LOCK);
    assert_eq!(woken(230, &[1]), WaitReason::SLEEP);
    assert_eq!(woken(232, &[5]), WaitReason::POLL);
    assert_eq!(woken(0, &[4]), WaitReason::PIPE);
    assert_eq!(woken(45, &[3]), WaitReason::SOCKET);
    assert_eq!(woken(61, &[]), WaitReason::CHILD);
    // These mostly work.
    assert_eq!(woken(0, &[8]), WaitReason::RUNNABLE);
    assert_eq!(woken(262, &[8]), WaitReason::RUNNABLE);
    assert_eq!(woken(39, &[]), WaitReason::RUNNABLE);
    assert_eq!(woken(202, &[GIL_WORD, 1]), WaitReason::RUNNABLE);
}

#[test]
fn other_architectures_have_their_own_numbers() {
    for (abi, number, first, expected) in [
        (Abi::Aarch64, 98, &[GIL_WORD, 137][..], WaitReason::GIL),
        (Abi::Aarch64, 115, &[1], WaitReason::SLEEP),
        (Abi::Aarch64, 72, &[0], WaitReason::SLEEP),
        (Abi::Aarch64, 73, &[0x7000, 1], WaitReason::POLL),
        (Abi::Aarch64, 22, &[5], WaitReason::POLL),
        (Abi::Aarch64, 63, &[4], WaitReason::PIPE),
        (Abi::Aarch64, 207, &[3], WaitReason::SOCKET),
        (Abi::Aarch64, 260, &[], WaitReason::CHILD),
        (Abi::Aarch64, 220, &[0x4111], WaitReason::CHILD),
        (Abi::Aarch64, 82, &[8], WaitReason::FILE),
        (Abi::Aarch64, 25, &[8, 7], WaitReason::LOCK),
        (Abi::Aarch64, 172, &[], WaitReason::OTHER),
        (Abi::I386, 240, &[LOCK_WORD, 0], WaitReason::LOCK),
        (Abi::I386, 422, &[LOCK_WORD, 0], WaitReason::LOCK),
        (Abi::I386, 162, &[], WaitReason::SLEEP),
        (Abi::I386, 142, &[0], WaitReason::SLEEP),
        (Abi::I386, 168, &[0x7000, 1], WaitReason::POLL),
        (Abi::I386, 3, &[3], WaitReason::SOCKET),
        (Abi::I386, 102, &[10], WaitReason::SOCKET),
        (Abi::I386, 117, &[1], WaitReason::LOCK),
        (Abi::I386, 117, &[0x1_0004], WaitReason::LOCK),
        // SHMAT
        (Abi::I386, 117, &[21], WaitReason::OTHER),
        (Abi::I386, 221, &[8, 14], WaitReason::LOCK),
        (Abi::I386, 7, &[], WaitReason::CHILD),
        (Abi::I386, 5, &[], WaitReason::FILE),
        (Abi::I386, 20, &[], WaitReason::OTHER),
    ] {
        let thread = in_call(abi, number, first);
        assert_eq!(of(thread), expected, "{abi:?} {number}");
    }
}

#[test]
fn the_state_says_whether_a_thread_is_stopped() {
    // Stopped by a signal, as the kernel has it with `TASK_WAKEKILL`, traced, and frozen.
    for state in [0x4, 0x104, 0x8, 0x8000] {
        assert!(is_stopped(state), "{state:#x}");
    }
    // Running, interruptible, with `TASK_FREEZABLE`, uninterruptible, idle.
    for state in [0, 0x1, 0x2001, 0x2, 0x402] {
        assert!(!is_stopped(state), "{state:#x}");
    }
}

proptest! {
    #[test]
    fn any_registers_have_a_reason(
        number in any::<u32>(),
        low in 0..512_u32,
        arguments in any::<[u64; 6]>(),
        uninterruptible in any::<bool>(),
        runnable in any::<bool>(),
    ) {
        for abi in [Abi::X86_64, Abi::I386, Abi::Aarch64] {
            for number in [number, low] {
                let system_call = Some(SystemCall { abi, number, arguments });
                let thread = ThreadAtRest { system_call, uninterruptible, runnable };
                let reason = of(thread);
                assert_ne!(reason, WaitReason::NONE);
                assert!(reason <= WaitReason::OTHER);
                assert!(runnable || reason != WaitReason::RUNNABLE);
            }
        }
    }
}
