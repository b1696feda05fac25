//! The system calls in which a thread waits, by number.
//!
//! Numbers are those of the kernel's `syscall_64.tbl` and `syscall_32.tbl` (x86) and of
//! `asm-generic/unistd.h` (aarch64), which never change. Invariant: a new system call is a new row of
//! [`CALLS`]; one that is not there waits for nothing that has a name.

/// The meaning of the numbers of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// 64-bit calls on x86-64, those of x32 included.
    X86_64,
    /// 32-bit calls on x86-64 (`int 0x80`).
    I386,
    /// 64-bit calls on aarch64.
    Aarch64,
}

/// What a system call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Something without a name, or nothing.
    Other,
    /// `futex`: the second argument is the operation.
    Futex,
    /// `futex_wait`: the first argument is the word.
    FutexWord,
    /// The end of a time.
    Sleep,
    /// The system call before it went on after a signal; its number is gone.
    Restart,
    /// The first argument is the number of descriptors, the next three are sets of them.
    Select,
    /// The second argument is the number of descriptors.
    Poll,
    /// Events of descriptors.
    Events,
    /// The descriptor of the first argument.
    Descriptor,
    /// The descriptors of the first two arguments.
    Transfer,
    /// The descriptors of the first and third argument.
    Splice,
    /// A pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A child process.
    Child,
    /// A child process, if the first argument has the flag `CLONE_VFORK`.
    Clone,
    /// A child process, if the flags in memory have `CLONE_VFORK`.
    Clone3,
    /// A completion of `io_uring`.
    IoUring,
    /// A lock, a semaphore or a message.
    Lock,
    /// A semaphore or a message; the first argument is the operation (i386).
    Ipc,
    /// A lock, if the second argument is an operation that waits for one.
    Control,
    /// A file system or a disk.
    File,
}

/// What the system call `number` waits for.
pub(super) fn wait_of(abi: Abi, number: u32) -> Wait {
    /// Bit of the numbers of x32, most of which are those of x86-64.
    const X32: u32 = 0x4000_0000;

    let (table, number) = match abi {
        Abi::X86_64 => (&X86_64, number & !X32),
        Abi::I386 => (&I386, number),
        Abi::Aarch64 => (&AARCH64, number),
    };
    let entry = usize::try_from(number).ok().and_then(|nth| table.get(nth));
    entry.copied().unwrap_or(Wait::Other)
}

/// Entries of a table: more than there are numbers.
const ENTRIES: usize = 512;

/// What every system call waits for, by number.
type Table = [Wait; ENTRIES];

static X86_64: Table = table(0);
static I386: Table = table(1);
static AARCH64: Table = table(2);

/// The table of the architecture with this column in [`CALLS`].
const fn table(column: usize) -> Table {
    let mut table = [Wait::Other; ENTRIES];
    let mut row = 0;
    while row < CALLS.len() {
        let (_, wait, numbers) = CALLS[row];
        let number = numbers[column] as usize;
        if number < ENTRIES {
            table[number] = wait;
        }
        row += 1;
    }
    table
}

/// The number of a system call that an architecture does not have.
const NONE: u16 = u16::MAX;

/// The name of a system call, what it waits for, and its number on x86-64, i386 and aarch64.
type Row = (&'static str, Wait, [u16; 3]);

/// The system calls that wait, by what they wait for.
#[rustfmt::skip]
const CALLS: [Row; 160] = [
    ("futex", Wait::Futex, [202, 240, 98]),
    ("futex_time64", Wait::Futex, [NONE, 422, NONE]),
    ("futex_waitv", Wait::Lock, [449, 449, 449]),
    ("futex_wait", Wait::FutexWord, [455, 455, 455]),
    ("nanosleep", Wait::Sleep, [35, 162, 101]),
    ("clock_nanosleep", Wait::Sleep, [230, 267, 115]),
    ("clock_nanosleep_time64", Wait::Sleep, [NONE, 407, NONE]),
    ("restart_syscall", Wait::Restart, [219, 0, 128]),
    ("select", Wait::Select, [23, NONE, NONE]),
    ("_newselect", Wait::Select, [NONE, 142, NONE]),
    ("pselect6", Wait::Select, [270, 308, 72]),
    ("pselect6_time64", Wait::Select, [NONE, 413, NONE]),
    ("select of a structure", Wait::Events, [NONE, 82, NONE]),
    ("poll", Wait::Poll, [7, 168, NONE]),
    ("ppoll", Wait::Poll, [271, 309, 73]),
    ("ppoll_time64", Wait::Poll, [NONE, 414, NONE]),
    ("epoll_wait", Wait::Events, [232, 256, NONE]),
    ("epoll_pwait", Wait::Events, [281, 319, 22]),
    ("epoll_pwait2", Wait::Events, [441, 441, 441]),
        ("read", Wait::Descriptor, [0, 3, 63]),
    ("write", Wait::Descriptor, [1, 4, 64]),
    ("pread64", Wait::Descriptor, [17, 180, 67]),
    ("pwrite64", Wait::Descriptor, [18, 181, 68]),
    ("readv", Wait::Descriptor, [19, 145, 65]),
    ("writev", Wait::Descriptor, [20, 146, 66]),
    ("preadv", Wait::Descriptor, [295, 333, 69]),
    ("pwritev", Wait::Descriptor, [296, 334, 70]),
    ("preadv2", Wait::Descriptor, [327, 378, 286]),
    ("pwritev2", Wait::Descriptor, [328, 379, 287]),
    ("sendfile", Wait::Transfer, [40, 187, 71]),
    ("sendfile64", Wait::Transfer, [NONE, 239, NONE]),
    ("splice", Wait::Splice, [275, 313, 76]),
    ("tee", Wait::Pipe, [276, 315, 77]),
    ("vmsplice", Wait::Pipe, [278, 316, 75]),
    ("accept", Wait::Socket, [43, NONE, 202]),
    ("accept4", Wait::Socket, [288, 364, 242]),
    ("connect", Wait::Socket, [42, 362, 203]),
    ("recvfrom", Wait::Socket, [45, 371, 207]),
    ("recvmsg", Wait::Socket, [47, 372, 212]),
    ("recvmmsg", Wait::Socket, [299, 337, 243]),
    ("recvmmsg_time64", Wait::Socket, [NONE, 417, NONE]),
    ("sendto", Wait::Socket, [44, 369, 206]),
    ("sendmsg", Wait::Socket, [46, 370, 211]),
    ("sendmmsg", Wait::Socket, [307, 345, 269]),
    ("socketcall", Wait::Socket, [NONE, 102, NONE]),
    ("wait4", Wait::Child, [61, 114, 260]),
    ("waitid", Wait::Child, [247, 284, 95]),
    ("waitpid", Wait::Child, [NONE, 7, NONE]),
    ("vfork", Wait::Child, [58, 190, NONE]),
    ("clone", Wait::Clone, [56, 120, 220]),
    ("clone3", Wait::Clone3, [435, 435, 435]),
    ("io_uring_enter", Wait::IoUring, [426, 426, 426]),
    ("flock", Wait::Lock, [73, 143, 32]),
    ("semop", Wait::Lock, [65, NONE, 193]),
    ("semtimedop", Wait::Lock, [220, NONE, 192]),
    ("semtimedop_time64", Wait::Lock, [NONE, 420, NONE]),
    ("msgrcv", Wait::Lock, [70, 401, 188]),
    ("msgsnd", Wait::Lock, [69, 400, 189]),
    ("mq_timedreceive", Wait::Lock, [243, 280, 183]),
    ("mq_timedreceive_time64", Wait::Lock, [NONE, 419, NONE]),
    ("mq_timedsend", Wait::Lock, [242, 279, 182]),
    ("mq_timedsend_time64", Wait::Lock, [NONE, 418, NONE]),
    ("ipc", Wait::Ipc, [NONE, 117, NONE]),
    ("fcntl", Wait::Control, [72, 55, 25]),
    ("fcntl64", Wait::Control, [NONE, 221, NONE]),
    ("open", Wait::File, [2, 5, NONE]),
    ("openat", Wait::File, [257, 295, 56]),
    ("openat2", Wait::File, [437, 437, 437]),
    ("open_by_handle_at", Wait::File, [304, 342, 265]),
    ("creat", Wait::File, [85, 8, NONE]),
    ("close", Wait::File, [3, 6, 57]),
    ("close_range", Wait::File, [436, 436, 436]),
    ("stat", Wait::File, [4, 106, NONE]),
    ("stat64", Wait::File, [NONE, 195, NONE]),
    ("lstat", Wait::File, [6, 107, NONE]),
    ("lstat64", Wait::File, [NONE, 196, NONE]),
    ("fstat", Wait::File, [5, 108, 80]),
    ("fstat64", Wait::File, [NONE, 197, NONE]),
    ("newfstatat", Wait::File, [262, NONE, 79]),
    ("fstatat64", Wait::File, [NONE, 300, NONE]),
    ("statx", Wait::File, [332, 383, 291]),
    ("statfs", Wait::File, [137, 99, 43]),
    ("statfs64", Wait::File, [NONE, 268, NONE]),
    ("fstatfs", Wait::File, [138, 100, 44]),
    ("fstatfs64", Wait::File, [NONE, 269, NONE]),
    ("access", Wait::File, [21, 33, NONE]),
    ("faccessat", Wait::File, [269, 307, 48]),
    ("faccessat2", Wait::File, [439, 439, 439]),
    ("readlink", Wait::File, [89, 85, NONE]),
    ("readlinkat", Wait::File, [267, 305, 78]),
    ("getdents", Wait::File, [78, 141, NONE]),
    ("getdents64", Wait::File, [217, 220, 61]),
    ("readdir", Wait::File, [NONE, 89, NONE]),
    ("chdir", Wait::File, [80, 12, 49]),
    ("fchdir", Wait::File, [81, 133, 50]),
    ("rename", Wait::File, [82, 38, NONE]),
    ("renameat", Wait::File, [264, 302, 38]),
    ("renameat2", Wait::File, [316, 353, 276]),
    ("link", Wait::File, [86, 9, NONE]),
    ("linkat", Wait::File, [265, 303, 37]),
    ("symlink", Wait::File, [88, 83, NONE]),
    ("symlinkat", Wait::File, [266, 304, 36]),
    ("unlink", Wait::File, [87, 10, NONE]),
    ("unlinkat", Wait::File, [263, 301, 35]),
    ("mkdir", Wait::File, [83, 39, NONE]),
    ("mkdirat", Wait::File, [258, 296, 34]),
    ("rmdir", Wait::File, [84, 40, NONE]),
    ("mknod", Wait::File, [133, 14, NONE]),
    ("mknodat", Wait::File, [259, 297, 33]),
    ("chmod", Wait::File, [90, 15, NONE]),
    ("fchmod", Wait::File, [91, 94, 52]),
    ("fchmodat", Wait::File, [268, 306, 53]),
    ("fchmodat2", Wait::File, [452, 452, 452]),
    ("chown", Wait::File, [92, 182, NONE]),
    ("chown32", Wait::File, [NONE, 212, NONE]),
    ("fchown", Wait::File, [93, 95, 55]),
    ("fchown32", Wait::File, [NONE, 207, NONE]),
    ("lchown", Wait::File, [94, 16, NONE]),
    ("lchown32", Wait::File, [NONE, 198, NONE]),
    ("fchownat", Wait::File, [260, 298, 54]),
    ("utime", Wait::File, [132, 30, NONE]),
    ("utimes", Wait::File, [235, 271, NONE]),
    ("utimensat", Wait::File, [280, 320, 88]),
    ("utimensat_time64", Wait::File, [NONE, 412, NONE]),
    ("futimesat", Wait::File, [261, 299, NONE]),
    ("truncate", Wait::File, [76, 92, 45]),
    ("truncate64", Wait::File, [NONE, 193, NONE]),
    ("ftruncate", Wait::File, [77, 93, 46]),
    ("ftruncate64", Wait::File, [NONE, 194, NONE]),
    ("fallocate", Wait::File, [285, 324, 47]),
    ("fadvise64", Wait::File, [221, 250, 223]),
    ("fadvise64_64", Wait::File, [NONE, 272, NONE]),
    ("readahead", Wait::File, [187, 225, 213]),
    ("cachestat", Wait::File, [451, 451, 451]),
    ("copy_file_range", Wait::File, [326, 377, 285]),
    ("lseek", Wait::File, [8, 19, 62]),
    ("_llseek", Wait::File, [NONE, 140, NONE]),
    ("fsync", Wait::File, [74, 118, 82]),
    ("fdatasync", Wait::File, [75, 148, 83]),
    ("sync", Wait::File, [162, 36, 81]),
    ("syncfs", Wait::File, [306, 344, 267]),
    ("sync_file_range", Wait::File, [277, 314, 84]),
    ("msync", Wait::File, [26, 144, 227]),
    ("getxattr", Wait::File, [191, 229, 8]),
    ("lgetxattr", Wait::File, [192, 230, 9]),
    ("fgetxattr", Wait::File, [193, 231, 10]),
    ("setxattr", Wait::File, [188, 226, 5]),
    ("lsetxattr", Wait::File, [189, 227, 6]),
    ("fsetxattr", Wait::File, [190, 228, 7]),
    ("listxattr", Wait::File, [194, 232, 11]),
    ("llistxattr", Wait::File, [195, 233, 12]),
    ("flistxattr", Wait::File, [196, 234, 13]),
    ("removexattr", Wait::File, [197, 235, 14]),
    ("lremovexattr", Wait::File, [198, 236, 15]),
    ("fremovexattr", Wait::File, [199, 237, 16]),
    ("io_getevents", Wait::File, [208, 247, 4]),
    ("io_pgetevents", Wait::File, [333, 385, 292]),
    ("io_pgetevents_time64", Wait::File, [NONE, 416, NONE]),
    ("io_submit", Wait::File, [209, 248, 2]),
    ("name_to_handle_at", Wait::File, [303, 341, 264]),
];

#[cfg(test)]
mod tests {
    use super::{Abi, CALLS, ENTRIES, NONE, Wait, wait_of};
    use std::collections::HashSet;

    #[test]
    fn no_name_and_no_number_is_there_twice() {
        let names: HashSet<_> = CALLS.iter().map(|(name, ..)| name).collect();
        assert_eq!(names.len(), CALLS.len());
        for column in 0..3 {
            let numbers = CALLS.iter().map(|(.., numbers)| numbers[column]);
            let numbers: Vec<_> = numbers.filter(|&number| number != NONE).collect();
            let different: HashSet<_> = numbers.iter().collect();
            assert_eq!(different.len(), numbers.len(), "column {column}");
            assert!(numbers.iter().all(|&number| usize::from(number) < ENTRIES));
        }
    }

    #[test]
    fn the_tables_have_what_the_rows_have() {
        for (name, wait, numbers) in CALLS {
            for (abi, number) in [Abi::X86_64, Abi::I386, Abi::Aarch64]
                .into_iter()
                .zip(numbers)
            {
                if number != NONE {
                    assert_eq!(wait_of(abi, number.into()), wait, "{name} {abi:?}");
                }
            }
        }
    }

    #[test]
    fn the_numbers_are_those_of_this_machine() {
        let abi = if cfg!(target_arch = "aarch64") {
            Abi::Aarch64
        } else {
            Abi::X86_64
        };
        for (number, wait) in [
            (libc::SYS_futex, Wait::Futex),
            (libc::SYS_clock_nanosleep, Wait::Sleep),
            (libc::SYS_restart_syscall, Wait::Restart),
            (libc::SYS_pselect6, Wait::Select),
            (libc::SYS_ppoll, Wait::Poll),
            (libc::SYS_epoll_pwait, Wait::Events),
            (libc::SYS_read, Wait::Descriptor),
            (libc::SYS_pwritev2, Wait::Descriptor),
            (libc::SYS_sendfile, Wait::Transfer),
            (libc::SYS_splice, Wait::Splice),
            (libc::SYS_vmsplice, Wait::Pipe),
            (libc::SYS_recvfrom, Wait::Socket),
            (libc::SYS_accept4, Wait::Socket),
            (libc::SYS_wait4, Wait::Child),
            (libc::SYS_waitid, Wait::Child),
            (libc::SYS_clone, Wait::Clone),
            (libc::SYS_flock, Wait::Lock),
            (libc::SYS_semtimedop, Wait::Lock),
            (libc::SYS_fcntl, Wait::Control),
            (libc::SYS_fsync, Wait::File),
            (libc::SYS_newfstatat, Wait::File),
            (libc::SYS_io_getevents, Wait::File),
            (libc::SYS_getpid, Wait::Other),
            (libc::SYS_process_vm_readv, Wait::Other),
            (libc::SYS_ptrace, Wait::Other),
        ] {
            let number = u32::try_from(number).unwrap();
            assert_eq!(wait_of(abi, number), wait, "{number}");
        }
    }

    #[test]
    fn x32_calls_are_those_of_x86_64() {
        assert_eq!(wait_of(Abi::X86_64, 0x4000_0000 + 202), Wait::Futex);
        assert_eq!(wait_of(Abi::I386, 0x4000_0000 + 240), Wait::Other);
    }

    #[test]
    fn numbers_without_an_entry_are_no_waits() {
        for number in [500, 511, 512, 4096, u32::MAX] {
            for abi in [Abi::X86_64, Abi::I386, Abi::Aarch64] {
                assert_eq!(wait_of(abi, number), Wait::Other);
            }
        }
    }
}
