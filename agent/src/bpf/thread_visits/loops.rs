//! Passes over the threads by programs that loop over tasks by themselves (Linux 6.8 and later).
//!
//! A run visits some of the threads, and the next one goes on where it has ended.

use std::io;

use agent_common::{limits::MAX_NOTED_THREADS, visit::Pass, volatile::Volatile};
use aya::{
    Btf, Ebpf,
    maps::{Array, MapData},
};

use super::task_iterator::{MAX_BYTES, TaskIterator};
use crate::bpf::{error::Error, maps};

/// One value, [`Pass`]. Written by the agent before each pass, and by the BPF programs.
const PASS: &str = "PASS";

/// Key: index. Value: process id. Written and read by the BPF programs.
pub(in crate::bpf) const VISITED_PROCESSES: &str = "VISITED_PROCESSES";

/// Key: index. Value: thread id. Written by the agent, read by the BPF programs.
pub(in crate::bpf) const NOTED_THREADS: &str = "NOTED_THREADS";

/// The programs.
const ON_PASS: &str = "on_pass";
const ON_NOTED: &str = "on_noted";

/// Most visits of one run, for which other programs wait: 0.2 to 0.5 µs each, for threads that rest.
const VISITS_OF_RUN: u32 = 1024;

/// Visits threads, each from the one before it.
pub(super) struct Loops {
    all: TaskIterator,
    noted: TaskIterator,
    /// The only process whose threads are visited, in the initial PID namespace; 0 for all.
    process: u32,
    pass_map: Array<MapData, Pass>,
    noted_map: Array<MapData, u32>,
}

impl Loops {
    /// Loads the programs, into whose calls the numbers of the kernel's functions have been put; `process` is the only
    /// one whose threads are visited.
    pub(super) fn load(
        object: &mut Ebpf,
        process: Option<u32>,
        functions: &Btf,
    ) -> Result<Self, Error> {
        Ok(Self {
            all: TaskIterator::load_for_own_thread(object, ON_PASS, functions)?,
            noted: TaskIterator::load_for_own_thread(object, ON_NOTED, functions)?,
            process: process.unwrap_or(0),
            pass_map: maps::take(object, PASS)?,
            noted_map: maps::take(object, NOTED_THREADS)?,
        })
    }

    /// Visits all threads, and appends what is recorded of each.
    ///
    /// # Errors
    ///
    /// When a run fails.
    pub(super) fn visit_all(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        self.visit_all_in_runs(into, VISITS_OF_RUN, |_| ())
    }

    /// The same with so many visits in a run; `after_run` gets the thread that each has visited last.
    ///
    /// # Errors
    ///
    /// As above.
    pub(super) fn visit_all_in_runs(
        &mut self,
        into: &mut Vec<u8>,
        visits_of_run: u32,
        after_run: impl FnMut(u32),
    ) -> io::Result<()> {
        let pass = Pass {
            only_process: Volatile::new(self.process),
            most_visits: Volatile::new(visits_of_run),
            ..Pass::default()
        };
        run(&self.all, &mut self.pass_map, pass, into, after_run)
    }

    /// Visits these threads, and appends what is recorded of each.
    ///
    /// # Errors
    ///
    /// When the map cannot be written, or a run fails.
    pub(super) fn visit(&mut self, tids: &[u32], into: &mut Vec<u8>) -> io::Result<()> {
        for tids in tids.chunks(MAX_NOTED_THREADS as usize) {
            let mut end = 0;
            for tid in tids {
                self.noted_map.set(end, tid, 0).map_err(io::Error::other)?;
                end += 1;
            }
            let pass = Pass {
                end: Volatile::new(end),
                most_visits: Volatile::new(VISITS_OF_RUN),
                ..Pass::default()
            };
            run(&self.noted, &mut self.pass_map, pass, into, |_| ())?;
        }
        Ok(())
    }
}

/// Runs a program until its pass is over.
fn run(
    program: &TaskIterator,
    map: &mut Array<MapData, Pass>,
    mut pass: Pass,
    into: &mut Vec<u8>,
    mut after_run: impl FnMut(u32),
) -> io::Result<()> {
    map.set(0, pass, 0).map_err(io::Error::other)?;
    loop {
        program.read(into)?;
        let before = pass;
        pass = map.get(&0, 0).map_err(io::Error::other)?;
        if pass.position.get() >= pass.end.get() || into.len() as u64 >= MAX_BYTES {
            return Ok(());
        }
        after_run(pass.last_tid.get());
        if pass == before {
            return Err(io::Error::other("a pass over the threads does not go on"));
        }
    }
}
