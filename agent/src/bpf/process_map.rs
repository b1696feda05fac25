//! The tracked processes: the map `PROCESSES`, and the map `LAYOUTS` that its entries refer to.
//!
//! The agent writes entries, and removes those of processes that are not to be sampled any more; the BPF
//! programs read them, copy them when a process is forked, and remove them when it ends. A process that executes another program meanwhile is not mistaken for the
//! one before: an entry says which program it is about, and the BPF programs compare that with the map
//! `PROCESS_STATES`, which they alone write. Process ids are those of the initial PID namespace.

use std::{collections::HashSet, io::ErrorKind::NotFound};

use agent_common::{
    layout::{Layout, RunningTaskLayout},
    limits::MAX_LAYOUTS,
    maps::{Children, ProcessState, TrackedProcess},
};
use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData, MapError},
};

use super::{
    error::{Error, map_error},
    maps,
    slots::{Slot, Slots},
};
use crate::targets::MAX_PROCESSES;

/// Key: process id. Value: [`TrackedProcess`].
pub(super) const PROCESSES: &str = "PROCESSES";

/// Key: process id. Value: [`ProcessState`]. Written by the BPF programs, read by the agent.
pub(super) const PROCESS_STATES: &str = "PROCESS_STATES";

/// Key: index. Value: [`Layout`]. Written by the agent, read by the BPF programs. When it is full a
/// layout that no process has is overwritten; without one the process has no Python frames.
pub(super) const LAYOUTS: &str = "LAYOUTS";

/// Most entries where only one program and its children are profiled.
const MAX_PROCESSES_OF_PROGRAM: usize = 2048;

/// Flag of an update: the key must exist (`BPF_EXIST`).
const MUST_EXIST: u64 = 2;

/// Where the CPython interpreter of a process is.
#[derive(Clone, Copy, Debug)]
pub struct InterpreterLocation {
    /// Address of the pointer to the newest interpreter state.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL; [`None`] where the GIL is not
    /// profiled.
    pub gil_holder: Option<u64>,
    /// Bytes to subtract from the thread pointer to get `pthread_self()`.
    pub thread_pointer_distance: u64,
    /// Offsets of the fields of its structures.
    pub layout: Layout,
    /// Where it has the tasks that its threads run.
    pub tasks: RunningTaskLayout,
}

/// Entries that the map needs.
pub(super) fn max_processes(whole_host: bool) -> u32 {
    let most = if whole_host {
        MAX_PROCESSES
    } else {
        MAX_PROCESSES_OF_PROGRAM
    };
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// The entries of tracked processes.
pub(super) struct ProcessMap {
    processes: HashMap<MapData, u32, TrackedProcess>,
    states: HashMap<MapData, u32, ProcessState>,
    layouts: Array<MapData, Layout>,
    /// What is in `layouts`.
    written_layouts: Slots<Layout>,
}

impl ProcessMap {
    pub(super) fn take(object: &mut Ebpf) -> Result<Self, Error> {
        Ok(Self {
            processes: maps::take(object, PROCESSES)?,
            states: maps::take(object, PROCESS_STATES)?,
            layouts: maps::take(object, LAYOUTS)?,
            written_layouts: Slots::new(MAX_LAYOUTS),
        })
    }

    /// Adds an entry or replaces it.
    pub(super) fn add(
        &mut self,
        tgid: u32,
        interpreter: Option<&InterpreterLocation>,
        with_children: Children,
    ) -> Result<(), Error> {
        let process = TrackedProcess {
            with_children,
            ..self.entry(interpreter)?
        };
        self.processes
            .insert(tgid, process, 0)
            .map_err(map_error("write", PROCESSES))
    }

    /// Whether a process has an entry.
    pub(super) fn has(&self, tgid: u32) -> Result<bool, Error> {
        match self.processes.get(&tgid, 0) {
            Ok(_) => Ok(true),
            Err(MapError::KeyNotFound) => Ok(false),
            Err(source) => Err(map_error("read", PROCESSES)(source)),
        }
    }

    /// Removes the entry of a process, if it has one.
    pub(super) fn remove(&mut self, tgid: u32) -> Result<(), Error> {
        match self.processes.remove(&tgid) {
            Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
            Err(MapError::SyscallError(error)) if error.io_error.kind() == NotFound => Ok(()),
            Err(source) => Err(map_error("write", PROCESSES)(source)),
        }
    }

    /// The program that a process runs, as a number.
    pub(super) fn program(&self, tgid: u32) -> Result<u64, Error> {
        match self.states.get(&tgid, 0) {
            Ok(state) => Ok(state.program),
            // It was not sampled yet.
            Err(MapError::KeyNotFound) => Ok(ProcessState::NEW.program),
            Err(source) => Err(map_error("read", PROCESS_STATES)(source)),
        }
    }

    /// Whether the entry of a process is about the program that it runs; true where it has none.
    pub(super) fn is_present(&self, tgid: u32) -> Result<bool, Error> {
        match self.processes.get(&tgid, 0) {
            Ok(process) => Ok(process.program == self.program(tgid)?),
            Err(MapError::KeyNotFound) => Ok(true),
            Err(source) => Err(map_error("read", PROCESSES)(source)),
        }
    }

    /// Makes the entry of a process about this program of it: what it says of another one is removed.
    pub(super) fn set_program(&mut self, tgid: u32, program: u64) -> Result<(), Error> {
        self.change(tgid, |process| {
            if process.program == program {
                return process;
            }
            TrackedProcess {
                program,
                with_children: process.with_children,
                ..TrackedProcess::default()
            }
        })?;
        Ok(())
    }

    /// Sets the interpreter of a process, if it still has an entry.
    pub(super) fn update(
        &mut self,
        tgid: u32,
        interpreter: &InterpreterLocation,
    ) -> Result<(), Error> {
        let new = self.entry(Some(interpreter))?;
        self.change(tgid, |process| TrackedProcess {
            program: process.program,
            with_children: process.with_children,
            is_excluded: process.is_excluded,
            mappings_epoch: process.mappings_epoch,
            first_mapping: process.first_mapping,
            mapping_count: process.mapping_count,
            ..new
        })?;
        Ok(())
    }

    /// Copies the entry of `original`; [`false`] where one of the processes has ended meanwhile.
    pub(super) fn copy(&mut self, tgid: u32, original: u32) -> Result<bool, Error> {
        let original = match self.processes.get(&original, 0) {
            Ok(process) => process,
            Err(MapError::KeyNotFound) => return Ok(false),
            Err(source) => return Err(map_error("read", PROCESSES)(source)),
        };
        self.change(tgid, |process| TrackedProcess {
            is_excluded: process.is_excluded,
            ..original
        })
    }

    /// Whether a process still has the entry of the one that it was forked from, or has ended.
    pub(super) fn is_copy(&self, tgid: u32, parent: u32) -> Result<bool, Error> {
        let entry = |tgid: u32| match self.processes.get(&tgid, 0) {
            Ok(process) => Ok(Some(process)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(source) => Err(map_error("read", PROCESSES)(source)),
        };
        Ok(match entry(tgid)? {
            Some(process) => entry(parent)? == Some(process),
            None => true,
        })
    }

    /// Changes an entry; [`false`] where the process has ended meanwhile.
    pub(super) fn change(
        &mut self,
        tgid: u32,
        change: impl FnOnce(TrackedProcess) -> TrackedProcess,
    ) -> Result<bool, Error> {
        let process = match self.processes.get(&tgid, 0) {
            Ok(process) => process,
            Err(MapError::KeyNotFound) => return Ok(false),
            Err(source) => return Err(map_error("read", PROCESSES)(source)),
        };
        match self.processes.insert(tgid, change(process), MUST_EXIST) {
            Err(MapError::SyscallError(error)) if error.io_error.kind() == NotFound => Ok(false),
            result => result.map(|()| true).map_err(map_error("write", PROCESSES)),
        }
    }

    /// An entry with only its interpreter set.
    fn entry(
        &mut self,
        interpreter: Option<&InterpreterLocation>,
    ) -> Result<TrackedProcess, Error> {
        Ok(match interpreter {
            Some(interpreter) => TrackedProcess {
                interpreters_head: interpreter.interpreters_head,
                gil_holder: interpreter.gil_holder.unwrap_or(0),
                thread_pointer_distance: interpreter.thread_pointer_distance,
                tasks: interpreter.tasks,
                layout: self.layout_index(&interpreter.layout)?,
                ..TrackedProcess::default()
            },
            None => TrackedProcess::default(),
        })
    }

    /// The index of `layout` in `LAYOUTS`, where it is written if it is new.
    fn layout_index(&mut self, layout: &Layout) -> Result<u32, Error> {
        let processes = &self.processes;
        // A process that is forked meanwhile has the layout of another one.
        let used = || {
            let entries = processes.iter();
            let layouts = entries.map(|entry| entry.map(|(_, process)| process.layout));
            layouts.collect::<Result<HashSet<_>, _>>()
        };
        let slot = self.written_layouts.find(layout, used);
        match slot.map_err(map_error("read", PROCESSES))? {
            Slot::Written(index) => Ok(index),
            Slot::New(index) => {
                let written = self.layouts.set(index, layout, 0);
                written.map_err(map_error("write", LAYOUTS))?;
                Ok(index)
            }
            Slot::Full => Err(Error::TooManyLayouts),
        }
    }
}
