//! The kernel's iterator over tasks, and the programs that run for each of them.
//!
//! The kernel can leave out all but one process (Linux 6.1 and later; the programs do it where it cannot), or all but
//! one thread (6.12 and later, and 6.1 and 6.6 with its correction). aya's loader can ask for neither.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use aya::{Btf, Ebpf, programs::Iter};

use crate::bpf::{
    error::{Error, program_error},
    system_call::{LINK_CREATE, bpf},
};

/// The function of the kernel whose arguments the programs get is that of this iterator.
const TASKS: &str = "task";

/// Most bytes of one read, and of a pass: 1,000,000 threads whose stacks the agent has, or 50,000 others.
pub(super) const MAX_BYTES: u64 = 64 << 20;

/// An iterator over the kernel's tasks, with a program.
pub(super) struct TaskIterator {
    program: OwnedFd,
    link: OwnedFd,
    is_of_process: bool,
}

/// Which tasks are visited.
#[derive(Clone, Copy, Debug)]
enum Tasks {
    All,
    /// The threads of the process with this id in the agent's PID namespace.
    OfProcess(u32),
    /// The thread with this id in it.
    Thread(u32),
}

impl TaskIterator {
    /// The function of the kernel to which programs are attached: `bpf_iter_` before the name of what is visited.
    pub(super) const FUNCTION: &str = "bpf_iter_task";

    /// Loads a program that runs once each time, for the first thread of the agent.
    pub(super) fn load_for_own_thread(
        object: &mut Ebpf,
        name: &'static str,
        functions: &Btf,
    ) -> Result<Self, Error> {
        let own = rustix::process::getpid().as_raw_pid().cast_unsigned();
        Self::load_with(object, name, functions, |program| {
            Ok((create_link(program, Tasks::Thread(own))?, false))
        })
    }

    /// Loads a program; where the kernel can do so, it visits the threads of `process` alone.
    pub(super) fn load(
        object: &mut Ebpf,
        name: &'static str,
        functions: &Btf,
        process: Option<u32>,
    ) -> Result<Self, Error> {
        Self::load_with(object, name, functions, |program| {
            let of_process = process.map(|process| create_link(program, Tasks::OfProcess(process)));
            match of_process {
                Some(Ok(link)) => Ok((link, true)),
                // A kernel without such a filter.
                _ => Ok((create_link(program, Tasks::All)?, false)),
            }
        })
    }

    fn load_with(
        object: &mut Ebpf,
        name: &'static str,
        functions: &Btf,
        link: impl FnOnce(&OwnedFd) -> io::Result<(OwnedFd, bool)>,
    ) -> Result<Self, Error> {
        let program: &mut Iter = object
            .program_mut(name)
            .ok_or(Error::Incomplete(name))?
            .try_into()
            .map_err(program_error("load", name))?;
        program
            .load(TASKS, functions)
            .map_err(program_error("load", name))?;
        let program = program.fd().map_err(program_error("attach", name))?;
        let attach = || {
            let program = program.as_fd().try_clone_to_owned()?;
            let (link, is_of_process) = link(&program)?;
            io::Result::Ok(Self {
                program,
                link,
                is_of_process,
            })
        };
        attach().map_err(|source| Error::System {
            call: "attach an iterator over tasks",
            source,
        })
    }

    /// Whether the kernel visits the threads of one process alone.
    pub(super) fn is_of_process(&self) -> bool {
        self.is_of_process
    }

    /// Runs the program once for each task, and appends its output.
    ///
    /// # Errors
    ///
    /// When the iterator fails.
    pub(super) fn read(&self, into: &mut Vec<u8>) -> io::Result<()> {
        // Up to as much as the kernel has room for in between.
        into.reserve(64 << 10);
        read_link(&self.link, into)
    }

    /// The same for one thread, by its id in the agent's PID namespace. Where there is none, or the kernel finds
    /// only processes by their ids (6.1 and later, unless it was corrected), nothing is appended; a kernel before 6.1 runs
    /// the program for each task.
    ///
    /// # Errors
    ///
    /// When the iterator fails.
    pub(super) fn read_thread(&self, tid: u32, into: &mut Vec<u8>) -> io::Result<()> {
        let link = create_link(&self.program, Tasks::Thread(tid))?;
        read_link(&link, into)
    }
}

fn read_link(link: &OwnedFd, into: &mut Vec<u8>) -> io::Result<()> {
    let iterator = File::from(create_iterator(link)?);
    iterator.take(MAX_BYTES).read_to_end(into)?;
    Ok(())
}

/// `BPF_ITER_CREATE`.
const ITER_CREATE: libc::c_int = 33;

/// `BPF_TRACE_ITER`.
const TRACE_ITER: u32 = 28;

/// The part of `union bpf_attr` for [`LINK_CREATE`].
#[repr(C)]
struct LinkAttributes {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    filter: u64,
    filter_bytes: u32,
    padding: u32,
}

/// The part of `union bpf_iter_link_info` for tasks.
#[repr(C)]
struct TaskFilter {
    tid: u32,
    pid: u32,
    pid_fd: u32,
}

/// The part of `union bpf_attr` for [`ITER_CREATE`].
#[repr(C)]
struct IteratorAttributes {
    link: u32,
    flags: u32,
}

/// aya makes a link too, but without a filter, and one that is used up by its first iterator.
fn create_link(program: &OwnedFd, tasks: Tasks) -> io::Result<OwnedFd> {
    let (pid, tid) = match tasks {
        Tasks::All => (0, 0),
        Tasks::OfProcess(pid) => (pid, 0),
        Tasks::Thread(tid) => (0, tid),
    };
    let filter = TaskFilter {
        tid,
        pid,
        pid_fd: 0,
    };
    let mut attributes = LinkAttributes {
        program: program.as_raw_fd().cast_unsigned(),
        target: 0,
        attach_type: TRACE_ITER,
        flags: 0,
        filter: 0,
        filter_bytes: 0,
        padding: 0,
    };
    if !matches!(tasks, Tasks::All) {
        attributes.filter = (&raw const filter) as u64;
        attributes.filter_bytes = u32::try_from(size_of::<TaskFilter>()).unwrap_or(0);
    }
    // SAFETY: the attributes are those of the call, and refer to a filter that outlives it.
    unsafe { bpf(LINK_CREATE, &attributes) }
}

fn create_iterator(link: &OwnedFd) -> io::Result<OwnedFd> {
    let attributes = IteratorAttributes {
        link: link.as_raw_fd().cast_unsigned(),
        flags: 0,
    };
    // SAFETY: the attributes are those of the call, without pointers.
    unsafe { bpf(ITER_CREATE, &attributes) }
}
