//! Passes over the threads: the programs on the iterator over tasks, and the maps that they read.
//!
//! Each read of an iterator runs its program once for each thread of the kernel, or of the only process. What is to
//! be visited again is visited one by one where that takes less time.

use std::{collections::HashSet, fs, io};

use agent_common::visit::{KnownThread, RestingVisit, ThreadDetails, ThreadVisit};
use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData, MapError},
};
use zerocopy::FromBytes as _;

use super::{
    btf::KernelBtf,
    error::{Error, map_error},
    maps,
    task_iterator::TaskIterator,
};

/// Key: thread id. Value: [`KnownThread`]. Written by the agent, read by the BPF programs.
pub(super) const KNOWN_THREADS: &str = "KNOWN_THREADS";

/// One value, the number of the current chunk of threads. Written by the agent, read by the BPF programs.
const CHUNK: &str = "CHUNK";

/// The programs of the two parts of a pass.
const ON_THREAD: &str = "on_thread";
const ON_READ_THREAD: &str = "on_read_thread";

/// So many threads are visited one after another in about the time in which one is visited by itself, which makes and
/// closes two descriptors: 6 to 8 µs, where a thread whose data is in no cache takes 0.4 to 1 µs.
const VISITS_PER_LINK: usize = 16;

/// Visits threads.
pub struct ThreadVisits {
    all: TaskIterator,
    read_ones: TaskIterator,
    known_map: HashMap<MapData, u32, KnownThread>,
    /// The keys of the map.
    known: HashSet<u32>,
    chunk_map: Array<MapData, u64>,
    chunk: u64,
    /// Threads that were noted in the chunk.
    noted: Vec<u32>,
    /// How many the kernel visits when it visits all.
    visited: usize,
    /// Whether the kernel can visit one thread by itself; [`None`] until it was tried.
    finds_threads: Option<bool>,
    buffer: Vec<u8>,
    knows_preempted: bool,
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

/// A thread that was visited.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "each is made when it is looked at, and none is kept"
)]
pub enum Visited<'a> {
    /// One that has waited ever since its stack was read: nothing else is recorded of it.
    Resting {
        /// The thread, in the initial PID namespace.
        tid: u32,
        /// See [`ThreadVisit::state`].
        state: u32,
    },
    /// Any other one.
    Seen(Visit<'a>),
}

impl<'a> Visited<'a> {
    /// All that is recorded, if it is.
    fn seen(self) -> Option<Visit<'a>> {
        match self {
            Self::Resting { .. } => None,
            Self::Seen(visit) => Some(visit),
        }
    }
}

impl ThreadVisits {
    /// The function of the kernel to which the programs are attached.
    pub(super) const FUNCTION: &str = TaskIterator::FUNCTION;

    /// Loads the programs; `process` is the only one whose threads are visited.
    pub(super) fn load(
        object: &mut Ebpf,
        process: Option<u32>,
        btf: &KernelBtf,
    ) -> Result<Self, Error> {
        Ok(Self {
            all: TaskIterator::load(object, ON_THREAD, &btf.functions, process)?,
            read_ones: TaskIterator::load(object, ON_READ_THREAD, &btf.functions, process)?,
            known_map: maps::take(object, KNOWN_THREADS)?,
            known: HashSet::new(),
            chunk_map: maps::take(object, CHUNK)?,
            chunk: 0,
            noted: Vec::new(),
            visited: 0,
            knows_preempted: btf.layout.last_queued != 0 && btf.layout.last_arrival != 0,
            finds_threads: None,
            buffer: Vec::new(),
        })
    }

    /// Tries whether the kernel lets threads be visited; nothing can be loaded afterwards.
    pub(super) fn check(object: &mut Ebpf) -> Result<(), Error> {
        let btf = KernelBtf::read(&[Self::FUNCTION])?;
        let mut visits = Self::load(object, None, &btf)?;
        let visited = visits.visit_all().map(Iterator::count);
        visited.map(drop).map_err(|source| Error::System {
            call: "visit the threads",
            source,
        })
    }

    /// Whether a visit says of a thread that the calling one has taken its processor.
    pub fn knows_preempted(&self) -> bool {
        self.knows_preempted
    }

    /// As how many visits, one after another, it takes to visit so many threads [again](Self::visit_noted).
    pub fn visits_of_proof(&self, threads: usize) -> usize {
        self.visited.min(threads * VISITS_PER_LINK)
    }

    /// Visits every thread.
    ///
    /// # Errors
    ///
    /// When the iterator fails.
    pub fn visit_all(&mut self) -> io::Result<impl Iterator<Item = Visited<'_>>> {
        self.buffer.clear();
        self.all.read(&mut self.buffer)?;
        self.visited = if self.all.is_of_process() {
            visits(&self.buffer).count()
        } else {
            threads_of_host()
        };
        Ok(visits(&self.buffer))
    }

    /// Begins with some of the threads of a pass.
    ///
    /// # Errors
    ///
    /// When the map cannot be written.
    pub fn begin_chunk(&mut self) -> io::Result<()> {
        self.chunk += 1;
        self.noted.clear();
        let written = self.chunk_map.set(0, self.chunk, 0);
        written.map_err(io::Error::other)
    }

    /// Visits the threads again that were [noted](Self::note) in this chunk.
    ///
    /// # Errors
    ///
    /// When the iterator fails.
    pub fn visit_noted(&mut self) -> io::Result<impl Iterator<Item = Visit<'_>>> {
        let is_faster = self.noted.len() * VISITS_PER_LINK < self.visited;
        if !is_faster || !self.finds_threads() || self.visit_one_by_one().is_err() {
            self.buffer.clear();
            self.read_ones.read(&mut self.buffer)?;
        }
        Ok(visits(&self.buffer).filter_map(Visited::seen))
    }

    fn visit_one_by_one(&mut self) -> io::Result<()> {
        self.buffer.clear();
        let mut noted = self.noted.iter();
        noted.try_for_each(|tid| self.read_ones.read_thread(*tid, &mut self.buffer))
    }

    /// Whether the kernel can visit one thread by itself. Tries it with the calling thread, which must not be the
    /// first one of its process: that one is asked for too. A kernel that finds only processes does not visit the
    /// calling thread in any case, and one without such a filter does so in both.
    fn finds_threads(&mut self) -> bool {
        if let Some(finds) = self.finds_threads {
            return finds;
        }
        let [own, first] = [rustix::thread::gettid(), rustix::process::getpid()]
            .map(|id| id.as_raw_pid().cast_unsigned());
        let is_selected = matches!(self.select(own), Ok(true));
        let visits_own = |tid| {
            let mut visited = Vec::new();
            self.read_ones.read_thread(tid, &mut visited).is_ok()
                && visits(&visited)
                    .filter_map(Visited::seen)
                    .any(|visit| visit.head.tid == own)
        };
        let finds = is_selected && visits_own(own) && !visits_own(first);
        self.noted.retain(|tid| *tid != own);
        self.forget(own);
        self.finds_threads = Some(finds);
        finds
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
        match self.known_map.insert(tid, known, 0) {
            Ok(()) => {
                self.known.insert(tid);
                self.noted.push(tid);
                Ok(true)
            }
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
        for tid in std::mem::take(&mut self.known) {
            // It is there, and nobody else removes it.
            let _ = self.known_map.remove(&tid);
        }
    }

    /// Has the details of a thread recorded again at its next visit.
    pub fn forget(&mut self, tid: u32) {
        if self.known.remove(&tid) {
            // As above.
            let _ = self.known_map.remove(&tid);
        }
    }
}

/// How many threads this host has; 0 if it does not say so.
fn threads_of_host() -> usize {
    // As in `0.31 0.25 0.22 2/1410 19093`.
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let threads = load.split(['/', ' ']).nth(4);
    threads.and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// The visits in the bytes of an iterator.
fn visits(mut bytes: &[u8]) -> impl Iterator<Item = Visited<'_>> {
    std::iter::from_fn(move || {
        let (resting, _) = RestingVisit::read_from_prefix(bytes).ok()?;
        let (visit, rest) = bytes.split_at_checked(resting.bytes as usize)?;
        bytes = rest;
        let RestingVisit { tid, state, .. } = resting;
        if visit.len() == size_of::<RestingVisit>() {
            return Some(Visited::Resting { tid, state });
        }
        let (head, details) = ThreadVisit::read_from_prefix(visit).ok()?;
        let details = ThreadDetails::read_from_prefix(details).ok();
        Some(Visited::Seen(Visit { head, details }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: usize = size_of::<ThreadVisit>();
    const DETAILED: usize = SEEN + size_of::<ThreadDetails>();

    /// A visit of so many bytes.
    fn visit(tid: u32, bytes: usize) -> Vec<u8> {
        let mut visit = vec![0; bytes];
        for (word, value) in [u32::try_from(bytes).unwrap(), tid, 1].iter().enumerate() {
            visit[4 * word..][..4].copy_from_slice(&value.to_ne_bytes());
        }
        visit
    }

    /// Each with its thread, and the bytes of its kernel frames if it has details.
    fn read(bytes: &[u8]) -> Vec<(u32, bool, Option<usize>)> {
        let read = |visited| match visited {
            Visited::Resting { tid, state } => {
                assert_eq!(state, 1);
                (tid, true, None)
            }
            Visited::Seen(Visit { head, details }) => {
                (head.tid, false, details.map(|(_, kernel)| kernel.len()))
            }
        };
        visits(bytes).map(read).collect()
    }

    #[test]
    fn visits_have_the_length_that_they_say() {
        let all = [
            visit(1, 12),
            visit(2, SEEN),
            visit(3, DETAILED),
            visit(4, 12),
            visit(5, DETAILED + 24),
            visit(6, 12),
        ];
        let expected = [
            (1, true, None),
            (2, false, None),
            (3, false, Some(0)),
            (4, true, None),
            (5, false, Some(24)),
            (6, true, None),
        ];
        assert_eq!(read(&all.concat()), expected);
        assert_eq!(read(&[]), []);
        let cut = all.concat();
        assert_eq!(read(&cut[..cut.len() - 1]), expected[..5]);
        assert_eq!(read(&[visit(1, 12), visit(2, 20)].concat()), expected[..1]);
    }
}
