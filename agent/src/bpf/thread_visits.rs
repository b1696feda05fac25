//! Passes over the threads: the programs on the iterator over tasks, and the maps that they read.
//!
//! Each read of an iterator runs its program once for each thread of the kernel. The kernel can leave
//! out all but one process (Linux 6.1 and later); where it cannot, the program does.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
};

use agent_common::visit::{KnownThread, ThreadDetails, ThreadVisit};
use aya::{
    Btf, Ebpf,
    maps::{Array, HashMap, MapData, MapError},
    programs::Iter,
};
use zerocopy::FromBytes as _;

use super::{
    error::{Error, map_error, program_error},
    kernel_types::KernelTypes,
    maps,
};

/// Key: thread id. Value: [`KnownThread`]. Written by the agent, read by the BPF programs.
pub(super) const KNOWN_THREADS: &str = "KNOWN_THREADS";

/// One value, the number of the current chunk of threads. Written by the agent, read by the BPF programs.
const CHUNK: &str = "CHUNK";

/// The programs of the two parts of a pass.
const ON_THREAD: &str = "on_thread";
const ON_READ_THREAD: &str = "on_read_thread";

/// The function of the kernel whose arguments the programs get is that of this iterator.
const TASKS: &str = "task";

/// Most bytes of one part of a pass: 1,000,000 threads whose stacks the agent has, or 50,000 others.
const MAX_BYTES: u64 = 64 << 20;

/// Visits threads.
pub struct ThreadVisits {
    all: TaskIterator,
    read_ones: TaskIterator,
    known: HashMap<MapData, u32, KnownThread>,
    chunk_map: Array<MapData, u64>,
    chunk: u64,
    buffer: Vec<u8>,
}

/// What was recorded of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// What is recorded of each.
    pub head: ThreadVisit,
    /// What is recorded of one that was not on a processor and whose stack the agent does not have: its
    /// registers, and the addresses of its kernel frames as bytes.
    pub details: Option<(ThreadDetails, &'a [u8])>,
}

impl ThreadVisits {
    /// Loads the programs; `process` is the only one whose threads are visited.
    pub(super) fn load(
        object: &mut Ebpf,
        process: Option<u32>,
        types: &Btf,
    ) -> Result<Self, Error> {
        Ok(Self {
            all: TaskIterator::load(object, ON_THREAD, types, process)?,
            read_ones: TaskIterator::load(object, ON_READ_THREAD, types, process)?,
            known: maps::take(object, KNOWN_THREADS)?,
            chunk_map: maps::take(object, CHUNK)?,
            chunk: 0,
            buffer: Vec::new(),
        })
    }

    /// Tries whether the kernel lets threads be visited; nothing can be loaded afterwards.
    pub(super) fn check(object: &mut Ebpf) -> Result<(), Error> {
        let types = KernelTypes::read().finish()?;
        let mut visits = Self::load(object, None, &types)?;
        let visited = visits.visit_all().map(Iterator::count);
        visited.map(drop).map_err(|source| Error::System {
            call: "visit the threads",
            source,
        })
    }

    /// Visits every thread.
    ///
    /// # Errors
    ///
    /// When the iterator fails.
    pub fn visit_all(&mut self) -> io::Result<impl Iterator<Item = Visit<'_>>> {
        self.all.read(&mut self.buffer)?;
        Ok(visits(&self.buffer))
    }

    /// Begins with some of the threads of a pass.
    ///
    /// # Errors
    ///
    /// When the map cannot be written.
    pub fn begin_chunk(&mut self) -> io::Result<()> {
        self.chunk += 1;
        let written = self.chunk_map.set(0, self.chunk, 0);
        written.map_err(io::Error::other)
    }

    /// Visits the threads again that were [noted](Self::note) in this chunk.
    ///
    /// # Errors
    ///
    /// When the iterator fails.
    pub fn visit_noted(&mut self) -> io::Result<impl Iterator<Item = Visit<'_>>> {
        self.read_ones.read(&mut self.buffer)?;
        Ok(visits(&self.buffer))
    }

    /// Notes that the stack of a thread was read in this chunk; until it runs, or is
    /// [forgotten](Self::forget), no details of it are recorded. [`false`] where there is no room.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn note(&mut self, visit: &ThreadVisit) -> Result<bool, Error> {
        let known = KnownThread {
            start_time_ns: visit.start_time_ns,
            switches: visit.switches,
            chunk: self.chunk,
        };
        self.insert(visit.tid, known)
    }

    fn insert(&mut self, tid: u32, known: KnownThread) -> Result<bool, Error> {
        match self.known.insert(tid, known, 0) {
            Ok(()) => Ok(true),
            Err(MapError::SyscallError(error))
                if error.io_error.raw_os_error() == Some(libc::E2BIG) =>
            {
                Ok(false)
            }
            Err(error) => Err(map_error("write", KNOWN_THREADS)(error)),
        }
    }

    /// Has the details of a thread recorded by the next [`Self::visit_noted`] of this chunk.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn select(&mut self, tid: u32) -> Result<bool, Error> {
        let unlike_any = KnownThread {
            start_time_ns: u64::MAX,
            switches: u64::MAX,
            chunk: self.chunk,
        };
        self.insert(tid, unlike_any)
    }

    /// Has the details of all threads recorded again.
    pub fn forget_all(&mut self) {
        let known: Vec<u32> = self.known.keys().flatten().collect();
        for tid in known {
            self.forget(tid);
        }
    }

    /// Has the details of a thread recorded again at its next visit.
    pub fn forget(&mut self, tid: u32) {
        // It may have found no room.
        let _ = self.known.remove(&tid);
    }
}

/// The visits in the bytes of an iterator.
fn visits(mut bytes: &[u8]) -> impl Iterator<Item = Visit<'_>> {
    std::iter::from_fn(move || {
        let (head, _) = ThreadVisit::read_from_prefix(bytes).ok()?;
        let (visit, rest) = bytes.split_at_checked(head.bytes as usize)?;
        bytes = rest;
        let details = visit.get(size_of::<ThreadVisit>()..)?;
        let details = ThreadDetails::read_from_prefix(details).ok();
        Some(Visit { head, details })
    })
}

/// An iterator over the kernel's tasks, with a program.
struct TaskIterator(OwnedFd);

impl TaskIterator {
    fn load(
        object: &mut Ebpf,
        name: &'static str,
        btf: &Btf,
        process: Option<u32>,
    ) -> Result<Self, Error> {
        let program: &mut Iter = object
            .program_mut(name)
            .ok_or(Error::Incomplete(name))?
            .try_into()
            .map_err(program_error("load", name))?;
        program
            .load(TASKS, btf)
            .map_err(program_error("load", name))?;
        let program = program.fd().map_err(program_error("attach", name))?;
        let program = program.as_fd().as_raw_fd();
        let link = match create_link(program, process) {
            // A kernel without such a filter.
            Err(_) if process.is_some() => create_link(program, None),
            link => link,
        };
        link.map(Self).map_err(|source| Error::System {
            call: "attach an iterator over tasks",
            source,
        })
    }

    /// Runs the program once for each thread; replaces what `into` has by its output.
    fn read(&self, into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        let iterator = File::from(create_iterator(self.0.as_raw_fd())?);
        // Up to as much as the kernel has room for in between.
        into.reserve(64 << 10);
        iterator.take(MAX_BYTES).read_to_end(into)?;
        Ok(())
    }
}

/// `BPF_LINK_CREATE` and `BPF_ITER_CREATE`.
const LINK_CREATE: libc::c_int = 28;
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
fn create_link(program: RawFd, process: Option<u32>) -> io::Result<OwnedFd> {
    let filter = TaskFilter {
        tid: 0,
        pid: process.unwrap_or(0),
        pid_fd: 0,
    };
    let mut attributes = LinkAttributes {
        program: program.cast_unsigned(),
        target: 0,
        attach_type: TRACE_ITER,
        flags: 0,
        filter: 0,
        filter_bytes: 0,
        padding: 0,
    };
    if process.is_some() {
        attributes.filter = (&raw const filter) as u64;
        attributes.filter_bytes = u32::try_from(size_of::<TaskFilter>()).unwrap_or(0);
    }
    // SAFETY: the attributes are those of the call, and refer to a filter that outlives it.
    unsafe { bpf(LINK_CREATE, &attributes) }
}

fn create_iterator(link: RawFd) -> io::Result<OwnedFd> {
    let attributes = IteratorAttributes {
        link: link.cast_unsigned(),
        flags: 0,
    };
    // SAFETY: the attributes are those of the call, without pointers.
    unsafe { bpf(ITER_CREATE, &attributes) }
}

/// The system call `bpf`, for commands that return a descriptor.
///
/// # Safety
///
/// `attributes` must be those of the command.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            &raw const *attributes,
            size_of::<T>(),
        )
    };
    match RawFd::try_from(descriptor) {
        // SAFETY: the kernel has just made it for this process.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}
