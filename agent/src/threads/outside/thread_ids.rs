//! Which thread of the kernel has which `pthread_self()`.
//!
//! A thread state has the `pthread_self()` of its thread: the address of the C library's descriptor, in which is the id
//! that the kernel gave to the thread. Where in it is not part of any interface, so it is looked for: it is the offset at
//! which most descriptors have ids of threads, each another one. Debuggers of threads rely on the same field.
//!
//! Invariants: a thread has one descriptor from its start to its end; where not every descriptor could be read, what is not
//! found is unknown, and never a thread without Python.

use std::{
    collections::{HashMap, HashSet},
    slice,
    time::{Duration, Instant},
};

use agent_common::memory::{Fault, UserAddr, UserMemory};

use crate::{
    process::Memory,
    python::remote::{Target, thread_states},
};

/// Bytes of a descriptor in which the id is looked for. It is below 800 with glibc and below 64 with musl.
const SEARCHED: usize = 1024;

/// Bytes of a page, at whose end a descriptor may end that is shorter than that.
const PAGE: u64 = 4096;

/// Most descriptors in which it is looked for.
const MAX_SEARCHED: usize = 64;

/// Where it is with glibc and musl on x86-64 and on aarch64: preferred where others are as good, which is so where there is
/// one thread, of whose id small numbers may be equal ones.
const USUAL: [usize; 4] = [720, 48, 208, 32];

/// Time after which descriptors are read again for threads that had none.
const AGAIN: Duration = Duration::from_millis(100);

/// Times that the list of thread states is read that changes meanwhile.
const ATTEMPTS: usize = 5;

/// The threads of a process.
#[derive(Debug, Default)]
pub(super) struct ThreadIds {
    /// `pthread_self()` by the id in the process's own PID namespace.
    found: HashMap<u32, u64>,
    /// Whether all descriptors were read.
    is_whole: bool,
    offset: Option<usize>,
    /// The threads that were there, and when that was.
    seen: HashSet<u32>,
    read: Option<Instant>,
}

/// The `pthread_self()` of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadId {
    Found(u64),
    /// It is not one of Python's.
    None,
    /// It may be one of Python's.
    Unknown,
}

impl ThreadIds {
    /// Reads descriptors if there are threads that are not known.
    pub(super) fn update(&mut self, memory: &Memory, target: &Target, threads: &HashSet<u32>) {
        let is_missing = |id: &&u32| !self.found.contains_key(id);
        let mut missing = threads.iter().filter(is_missing).peekable();
        if missing.peek().is_none() {
            return;
        }
        let has_new = missing.any(|id| !self.seen.contains(id));
        let is_due = self.read.is_none_or(|at| at.elapsed() >= AGAIN);
        if !has_new && !is_due && self.is_whole {
            return;
        }
        self.seen.clone_from(threads);
        self.read = Some(Instant::now());
        self.found.clear();
        self.is_whole = self.find(memory, target, threads).is_some();
    }

    /// Reads all descriptors; [`None`] where some could not be read.
    fn find(&mut self, memory: &Memory, target: &Target, threads: &HashSet<u32>) -> Option<()> {
        let memory = Resident(memory);
        let mut lists = (0..ATTEMPTS).filter_map(|_| thread_states(&memory, target).ok());
        let states = lists.next()?;
        if states.is_empty() {
            return Some(());
        }
        let descriptors = || states.iter().map(|(thread_id, _)| *thread_id);
        if self.offset.is_none() {
            self.offset = offset(&memory, descriptors().take(MAX_SEARCHED), threads);
        }
        let offset = self.offset? as u64;
        let mut is_whole = true;
        for descriptor in descriptors() {
            let mut id = [0; 4];
            if memory
                .0
                .read_resident(descriptor.wrapping_add(offset), &mut id)
                .is_err()
            {
                is_whole = false;
                continue;
            }
            let id = u32::from_le_bytes(id);
            // Those of threads that have ended are there for a while.
            if threads.contains(&id) {
                self.found.insert(id, descriptor);
            }
        }
        is_whole.then_some(())
    }

    /// That of the thread with this id in the process's own PID namespace.
    pub(super) fn get(&self, own_id: u32) -> ThreadId {
        match self.found.get(&own_id) {
            Some(thread_id) => ThreadId::Found(*thread_id),
            None if self.is_whole => ThreadId::None,
            None => ThreadId::Unknown,
        }
    }
}

/// Where the id is in descriptors.
fn offset(
    memory: &Resident<'_>,
    descriptors: impl Iterator<Item = u64>,
    threads: &HashSet<u32>,
) -> Option<usize> {
    let mut found: HashMap<usize, HashSet<u32>> = HashMap::new();
    for descriptor in descriptors {
        for (nth, id) in memory
            .beginning(descriptor)
            .as_chunks()
            .0
            .iter()
            .enumerate()
        {
            let id = u32::from_le_bytes(*id);
            if threads.contains(&id) {
                found.entry(nth * 4).or_default().insert(id);
            }
        }
    }
    best(found.into_iter().map(|(offset, ids)| (offset, ids.len())))
}

/// The best of offsets, each with the number of threads whose ids are there.
fn best(found: impl Iterator<Item = (usize, usize)>) -> Option<usize> {
    let rank = |(offset, ids): (usize, usize)| (ids, USUAL.contains(&offset), usize::MAX - offset);
    found.max_by_key(|it| rank(*it)).map(|(offset, _)| offset)
}

/// The memory of a process that is there, so that it need not be waited for.
struct Resident<'a>(&'a Memory);

impl UserMemory for Resident<'_> {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        // SAFETY: the caller guarantees that `into` is valid for `bytes` bytes, which are initialised here.
        let into = unsafe {
            into.write_bytes(0, bytes as usize);
            slice::from_raw_parts_mut(into, bytes as usize)
        };
        self.0.read_resident(address.0, into).map_err(|_| Fault)
    }
}

impl Resident<'_> {
    /// The beginning of a descriptor.
    fn beginning(&self, address: u64) -> Vec<u8> {
        let to_end = usize::try_from(PAGE - address % PAGE).unwrap_or(0);
        for length in [SEARCHED, to_end.min(SEARCHED)] {
            let mut bytes = vec![0; length];
            if self.0.read_resident(address, &mut bytes).is_ok() {
                return bytes;
            }
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::CStr, sync::mpsc, thread};

    use super::*;
    use crate::process::Process;

    fn own_id() -> u32 {
        rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .cast_unsigned()
    }

    fn descriptor() -> u64 {
        // SAFETY: it has no requirements.
        unsafe { libc::pthread_self() as u64 }
    }

    #[test]
    fn the_id_is_where_the_c_library_says() {
        let process = Process::open(std::process::id()).unwrap();
        let memory = Resident(process.memory().unwrap());
        let (send, started) = mpsc::channel();
        thread::scope(|threads| {
            let mut ends = Vec::new();
            for _ in 0..3 {
                let (end, ended) = mpsc::channel::<()>();
                ends.push(end);
                let send = send.clone();
                threads.spawn(move || {
                    send.send((own_id(), descriptor())).unwrap();
                    // It ends with its sender.
                    let _ = ended.recv();
                });
            }
            let threads: Vec<_> = (0..3).map(|_| started.recv().unwrap()).collect();
            let ids = threads.iter().map(|(id, _)| *id).collect();
            let descriptors = threads.iter().map(|(_, descriptor)| *descriptor);
            let found = offset(&memory, descriptors, &ids).unwrap();
            let name: &CStr = c"_thread_db_pthread_tid";
            // SAFETY: the name ends with a zero.
            let field = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            if field.is_null() {
                assert!(USUAL.contains(&found), "{found}");
            } else {
                // SAFETY: glibc has three numbers there: bits, count, offset in bytes.
                let field = unsafe { field.cast::<[u32; 3]>().read() };
                assert_eq!(found, field[2] as usize);
            }
            drop(ends);
        });
    }

    #[test]
    fn the_best_offset_has_most_threads_and_is_a_usual_one() {
        assert_eq!(best([].into_iter()), None);
        assert_eq!(best([(24, 1), (300, 3), (720, 2)].into_iter()), Some(300));
        assert_eq!(best([(24, 1), (720, 1)].into_iter()), Some(720));
        assert_eq!(best([(24, 2), (20, 2)].into_iter()), Some(20));
    }

    #[test]
    fn what_is_not_found_is_unknown_if_not_all_was_read() {
        let mut ids = ThreadIds::default();
        assert_eq!(ids.get(7), ThreadId::Unknown);
        ids.found.insert(7, 0x7f00);
        assert_eq!(ids.get(7), ThreadId::Found(0x7f00));
        ids.is_whole = true;
        assert_eq!(ids.get(8), ThreadId::None);
    }
}
