//! The threads whose stacks the agent has, as the BPF programs know them.

use std::collections::HashSet;

use agent_common::visit::{KnownThread, ThreadVisit};
use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData, MapError},
};

use crate::bpf::{
    error::{Error, map_error},
    maps,
};

/// Key: thread id. Value: [`KnownThread`]. Written by the agent, read by the BPF programs.
pub(in crate::bpf) const KNOWN_THREADS: &str = "KNOWN_THREADS";

/// One value, the number of the current chunk of threads. Written by the agent, read by the BPF programs.
const CHUNK: &str = "CHUNK";

/// The threads whose stacks the agent has.
pub(super) struct KnownThreads {
    map: HashMap<MapData, u32, KnownThread>,
    /// The keys of the map.
    known: HashSet<u32>,
    chunk_map: Array<MapData, u64>,
    chunk: u64,
    /// Threads that were noted in the chunk.
    noted: Vec<u32>,
}

impl KnownThreads {
    /// Takes the maps.
    pub(super) fn take(object: &mut Ebpf) -> Result<Self, Error> {
        Ok(Self {
            map: maps::take(object, KNOWN_THREADS)?,
            known: HashSet::new(),
            chunk_map: maps::take(object, CHUNK)?,
            chunk: 0,
            noted: Vec::new(),
        })
    }

    /// Begins with some of the threads of a pass.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub(super) fn begin_chunk(&mut self) -> Result<(), Error> {
        self.chunk += 1;
        self.noted.clear();
        let written = self.chunk_map.set(0, self.chunk, 0);
        written.map_err(map_error("write", CHUNK))
    }

    /// The threads that were noted in this chunk.
    pub(super) fn noted(&self) -> &[u32] {
        &self.noted
    }

    /// Notes that the stack of a thread was read in this chunk; [`false`] where there is no room.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub(super) fn note(&mut self, visit: &ThreadVisit) -> Result<bool, Error> {
        self.insert(visit.tid, visit.start_time_ns, visit.switches)
    }

    /// Notes a thread as one that has run since its stack was read; [`false`] where there is no room.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub(super) fn select(&mut self, tid: u32) -> Result<bool, Error> {
        self.insert(tid, u64::MAX, u64::MAX)
    }

    fn insert(&mut self, tid: u32, start_time_ns: u64, switches: u64) -> Result<bool, Error> {
        let known = KnownThread {
            start_time_ns,
            switches,
            chunk: self.chunk,
        };
        match self.map.insert(tid, known, 0) {
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

    /// Takes back what was noted last, of this thread.
    pub(super) fn take_back(&mut self, tid: u32) {
        self.noted.retain(|noted| *noted != tid);
        self.forget(tid);
    }

    /// The agent has the stack of none of them any more.
    pub(super) fn forget_all(&mut self) {
        for tid in std::mem::take(&mut self.known) {
            // It is there, and nobody else removes it.
            let _ = self.map.remove(&tid);
        }
    }

    /// The agent has not the stack of a thread any more.
    pub(super) fn forget(&mut self, tid: u32) {
        if self.known.remove(&tid) {
            // As above.
            let _ = self.map.remove(&tid);
        }
    }
}
