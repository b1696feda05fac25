//! A thread at one instant, by its files in `/proc`: whether it is on a processor, and the system call that it is in.
//!
//! The kernel tells the system call of a thread (`syscall`) only if it was on no processor while its registers were
//! copied. It asks for the right to attach to the process, and neither attaches nor stops it. How often a thread came onto
//! a processor and for how long it ran are in `schedstat`, which costs the kernel an eighth of `status`; where it has
//! nothing, context switches are in that.
//!
//! Invariants: open files stay those of one thread: when that has ended they are not those of a later one with its id;
//! every read has a limit.

use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::FileExt as _},
    str,
};

use agent_common::native::Registers;
use rustix::fs::{Mode, OFlags, open, openat};

use super::procfs::{comm_and_fields, numbers};

/// Bytes of a name, which a zero ends.
const COMM_BYTES: usize = 16;

/// Bytes of all files but `status`; of `sched` the beginning with the time of the last run.
const SMALL_BYTES: usize = 1024;

/// Bytes of `status`, where the names of control groups and masks of processors take more than usual.
const STATUS_BYTES: usize = 16 << 10;

/// The files of a thread.
#[derive(Debug)]
pub struct TaskFiles {
    runs: RunsFile,
    syscall: File,
    stat: File,
}

/// The file that tells whether a thread ran.
#[derive(Debug)]
enum RunsFile {
    /// `schedstat`.
    Scheduled(File),
    /// `status`, where the kernel keeps no accounts.
    Status(File),
}

/// How often a thread ran: equal ones mean that it did not, if it was at rest both times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Times that it came onto a processor, or left one.
    pub count: u64,
    /// Nanoseconds that it ran; 0 where that is not known.
    pub time_ns: u64,
}

/// A thread at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLook {
    /// When the thread was made, in ticks since the start of the machine: with the id it identifies a thread.
    pub start_ticks: u64,
    /// The kernel's name of the thread, which a zero ends.
    pub comm: [u8; COMM_BYTES],
    /// Its state, as `S`.
    pub state: u8,
    /// How often it had run, before its registers were read.
    pub runs: Runs,
    /// What is known of its registers; [`None`] while it runs, or waits for a processor.
    pub registers: Option<Registers>,
}

impl TaskFiles {
    /// Opens those of a thread; [`None`] where it has ended, or may not be looked at.
    #[must_use]
    pub fn open(pid: u32, tid: u32) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = format!("/proc/{pid}/task/{tid}");
        let folder = open(folder, flags, Mode::empty()).ok()?;
        Some(Self {
            runs: RunsFile::open(&folder)?,
            syscall: open_in(&folder, "syscall")?,
            stat: open_in(&folder, "stat")?,
        })
    }

    /// Looks at the thread; [`None`] where it has ended.
    #[must_use]
    pub fn look(&self) -> Option<TaskLook> {
        let mut stat = [0; SMALL_BYTES];
        let stat = of_stat(read(&self.stat, &mut stat).ok()?)?;
        let runs = self.runs.read()?;
        Some(TaskLook {
            runs,
            registers: self.registers(),
            ..stat
        })
    }

    /// Whether the thread has not run since a look that had registers: neither before these were read, nor since.
    ///
    /// If it ran in between and is at rest now, it was counted when it came onto a processor, or left it at last. The
    /// thread that asks must be another one: of itself the kernel shows the call that reads.
    #[must_use]
    pub fn has_rested(&self, since: &Runs) -> bool {
        self.registers().is_some() && self.runs.read().as_ref() == Some(since)
    }

    fn registers(&self) -> Option<Registers> {
        let mut call = [0; SMALL_BYTES];
        of_syscall(read(&self.syscall, &mut call).ok()?)
    }
}

impl RunsFile {
    fn open(folder: &OwnedFd) -> Option<Self> {
        let scheduled = open_in(folder, "schedstat").map(Self::Scheduled);
        let scheduled = scheduled.filter(|file| file.read().is_some_and(|runs| runs.count != 0));
        scheduled.or_else(|| open_in(folder, "status").map(Self::Status))
    }

    fn read(&self) -> Option<Runs> {
        let mut bytes = [0; STATUS_BYTES];
        match self {
            Self::Scheduled(file) => of_schedstat(read(file, &mut bytes[..SMALL_BYTES]).ok()?),
            Self::Status(file) => of_status(read(file, &mut bytes).ok()?),
        }
    }
}

/// The id of a thread in its own PID namespace.
#[must_use]
pub fn own_thread_id(pid: u32, tid: u32) -> Option<u32> {
    let mut status = [0; STATUS_BYTES];
    let file = File::open(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    numbers(read(&file, &mut status).ok()?, "NSpid:")
        .last()
        .copied()
}

/// Until when a thread ran by the clock of the scheduler, in nanoseconds, to some milliseconds of one that still runs;
/// [`None`] where that is not known.
#[must_use]
pub fn last_run_ns(pid: u32, tid: u32) -> Option<u64> {
    last_run_of(&format!("/proc/{pid}/task/{tid}"))
}

/// The same of the thread that asks, which is about now.
#[must_use]
pub fn scheduler_now_ns() -> Option<u64> {
    last_run_of("/proc/thread-self")
}

fn last_run_of(folder: &str) -> Option<u64> {
    let mut bytes = [0; SMALL_BYTES];
    let file = File::open(format!("{folder}/sched")).ok()?;
    of_sched(read(&file, &mut bytes).ok()?)
}

/// The ids of the threads of a process.
pub fn task_ids(pid: u32) -> impl Iterator<Item = u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let names = tasks.flatten().flatten().map(|task| task.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok())
}

fn open_in(folder: &OwnedFd, name: &str) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
        .ok()
        .map(File::from)
}

fn read<'a>(file: &File, into: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let length = file.read_at(into, 0)?;
    Ok(into.get(..length).unwrap_or_default())
}

/// What a file `stat` says.
fn of_stat(stat: &[u8]) -> Option<TaskLook> {
    /// Fields between the state and `starttime`.
    const BEFORE_START: usize = 18;

    let (name, mut fields) = comm_and_fields(stat)?;
    let mut comm = [0; COMM_BYTES];
    let name = name.get(..COMM_BYTES - 1).unwrap_or(name);
    comm.get_mut(..name.len())?.copy_from_slice(name);
    let state = *fields.next()?.first()?;
    let started = str::from_utf8(fields.nth(BEFORE_START)?).ok()?;
    Some(TaskLook {
        start_ticks: started.parse().ok()?,
        comm,
        state,
        runs: Runs {
            count: 0,
            time_ns: 0,
        },
        registers: None,
    })
}

/// What a file `schedstat` says: nanoseconds that the thread ran and waited for a processor, and how often it came onto one.
fn of_schedstat(text: &[u8]) -> Option<Runs> {
    let mut numbers = str::from_utf8(text).ok()?.split_ascii_whitespace();
    let time_ns = numbers.next()?.parse().ok()?;
    let count = numbers.nth(1)?.parse().ok()?;
    Some(Runs { count, time_ns })
}

/// The context switches in a file `status`.
fn of_status(status: &[u8]) -> Option<Runs> {
    let first = |name| numbers(status, name).first().copied();
    let voluntary = first("voluntary_ctxt_switches:")?;
    let others = first("nonvoluntary_ctxt_switches:")?;
    Some(Runs {
        count: u64::from(voluntary) + u64::from(others),
        time_ns: 0,
    })
}

/// The registers in a file `syscall`, as `202 0x7f3c 0x80 0x0 0x0 0x0 0x0 0x7ffd 0x7f3d`, and of a thread in no system
/// call `-1 0x7ffd 0x7f3d`.
fn of_syscall(text: &[u8]) -> Option<Registers> {
    let text = str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace();
    let number = words.next()?;
    let mut word = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let call = match number {
        "-1" => None,
        number => {
            let mut arguments = [0; 6];
            for argument in &mut arguments {
                *argument = word()?;
            }
            Some((number.parse().ok()?, arguments))
        }
    };
    Some(Registers::at_rest(call, word()?, word()?))
}

/// The last time at which a thread was accounted to run, in nanoseconds: `se.exec_start : 35805897.229114`.
fn of_sched(sched: &[u8]) -> Option<u64> {
    let mut lines = sched.split(|&byte| byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"se.exec_start"))?;
    let (_, time) = str::from_utf8(line).ok()?.split_once(':')?;
    let (milliseconds, rest) = time.trim().split_once('.')?;
    let milliseconds: u64 = milliseconds.parse().ok()?;
    let rest: u64 = (rest.len() == 6).then(|| rest.parse().ok())??;
    let time = milliseconds.checked_mul(1_000_000)?.checked_add(rest)?;
    // It has not run, or not since this is accounted.
    (time != 0).then_some(time)
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;

    #[test]
    fn the_system_call_is_that_of_a_thread_at_rest() {
        let registers = of_syscall(b"202 0x7f3c 0x80 0x0 0x1 0x2 0x3 0x7ffd 0x7f3d\n").unwrap();
        let arguments = [0x7f3c, 0x80, 0, 1, 2, 3];
        assert_eq!(registers.system_call(), Some((202, arguments)));
        assert_eq!(registers.stack_pointer(), 0x7ffd);
        let registers = of_syscall(b"-1 0x7ffd 0x7f3d\n").unwrap();
        assert_eq!(registers.system_call(), None);
        for text in ["running\n", "", "-1", "202 0x1 0x2 0x7ffd\n", "x 0x1 0x2"] {
            assert_eq!(of_syscall(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_name_may_have_any_bytes() {
        let numbers = "0 ".repeat(18);
        let stat = format!("7 (a) (b) D {numbers}4711 5");
        let look = of_stat(stat.as_bytes()).unwrap();
        assert_eq!(
            (&look.comm[..7], look.start_ticks),
            (&b"a) (b\0\0"[..], 4711)
        );
        assert_eq!(look.state, b'D');
        assert_eq!(of_stat(b"7 (a) S 1"), None);
        assert_eq!(of_stat(b""), None);
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        let status = b"Name:\tx\nvoluntary_ctxt_switches:\t3\n";
        assert_eq!(of_status(status), None);
        let whole = [&status[..], b"nonvoluntary_ctxt_switches:\t4\n"].concat();
        assert_eq!(of_status(&whole).unwrap().count, 7);
        let runs = of_schedstat(b"1000 20 3\n").unwrap();
        assert_eq!((runs.time_ns, runs.count), (1000, 3));
        assert_eq!(of_schedstat(b"1000 20\n"), None);
        assert_eq!(of_sched(b"se.exec_start   :  1.000002\n"), Some(1_000_002));
        assert_eq!(of_sched(b"se.exec_start   :  0.000000\n"), None);
        assert_eq!(of_sched(b"se.exec_start   :  1.02\n"), None);
    }

    /// A thread that waits for a message, again and again.
    fn waits(tid: &mpsc::Sender<u32>, messages: &mpsc::Receiver<()>) {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        tid.send(id.cast_unsigned()).unwrap();
        while messages.recv().is_ok() {}
    }

    #[test]
    fn a_thread_that_waits_has_rested_until_it_ran() {
        let pid = std::process::id();
        let (send, ids) = mpsc::channel();
        let (wake, messages) = mpsc::channel();
        let waiter = thread::spawn(move || waits(&send, &messages));
        let tid = ids.recv().unwrap();
        let files = TaskFiles::open(pid, tid).unwrap();
        let of_status = TaskFiles {
            runs: RunsFile::Status(File::open(format!("/proc/{pid}/task/{tid}/status")).unwrap()),
            ..TaskFiles::open(pid, tid).unwrap()
        };
        for files in [&files, &of_status] {
            let at_rest = || {
                let looks = (0..1000).find_map(|_| {
                    thread::sleep(Duration::from_millis(1));
                    files.look().filter(|look| look.registers.is_some())
                });
                looks.unwrap()
            };
            let look = at_rest();
            assert!(look.registers.unwrap().system_call().is_some());
            assert!(look.start_ticks > 0 && look.runs.count > 0);
            assert!(files.has_rested(&look.runs));
            assert_eq!(files.look(), Some(look));
            wake.send(()).unwrap();
            at_rest();
            assert!(!files.has_rested(&look.runs));
        }
        assert_eq!(own_thread_id(pid, tid), Some(tid));
        // Where the kernel says it; the clocks of two processors may be seconds apart.
        assert_eq!(
            last_run_ns(pid, tid).is_some(),
            scheduler_now_ns().is_some()
        );
        assert!(task_ids(pid).any(|id| id == tid));
        drop(wake);
        waiter.join().unwrap();
        assert!((0..1000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            files.look().is_none()
        }));
        assert!(TaskFiles::open(pid, u32::MAX).is_none());
    }
}
