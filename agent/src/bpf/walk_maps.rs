//! The maps that the walks of the BPF programs look things up in, for walks in the agent.
//!
//! They are the same maps, opened once more: reads need no lock and may be made on any thread.

use std::sync::Arc;

use agent_common::{
    layout::Layout,
    maps::{Control, Mapping, ProcessState, TableLocation, TrackedProcess},
    unwind::{Block, Rule},
};
use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData},
};

use super::{
    control::CONTROL,
    error::Error,
    mappings::MAPPINGS,
    maps,
    process_map::{LAYOUTS, PROCESS_STATES, PROCESSES},
    table_loader::TableLoader,
    unwind_tables::{RULES, TABLES},
};

/// The maps of the walks.
pub struct WalkMaps {
    processes: HashMap<MapData, u32, TrackedProcess>,
    states: HashMap<MapData, u32, ProcessState>,
    layouts: Array<MapData, Layout>,
    mappings: Array<MapData, Mapping>,
    tables: Array<MapData, TableLocation>,
    rules: Array<MapData, Rule>,
    control: Array<MapData, Control>,
    loader: TableLoader,
}

impl WalkMaps {
    /// Opens the maps once more, before they are taken.
    pub(super) fn open(object: &Ebpf, loader: TableLoader) -> Result<Self, Error> {
        Ok(Self {
            processes: maps::again(object, PROCESSES)?,
            states: maps::again(object, PROCESS_STATES)?,
            layouts: maps::again(object, LAYOUTS)?,
            mappings: maps::again(object, MAPPINGS)?,
            tables: maps::again(object, TABLES)?,
            rules: maps::again(object, RULES)?,
            control: maps::again(object, CONTROL)?,
            loader,
        })
    }

    /// What is known about the program that a process runs, and what the BPF programs have noted about the
    /// process; [`None`] while nothing is known.
    #[must_use]
    pub fn process(&self, tgid: u32) -> Option<(TrackedProcess, ProcessState)> {
        let process = self.processes.get(&tgid, 0).ok()?;
        let state = self.states.get(&tgid, 0).unwrap_or(ProcessState::NEW);
        (process.program == state.program).then_some((process, state))
    }

    /// Whether a process is profiled and has not ended, whatever is known about it.
    #[must_use]
    pub fn has_process(&self, tgid: u32) -> bool {
        self.processes.get(&tgid, 0).is_ok()
    }

    /// The layout with this index.
    #[must_use]
    pub fn layout(&self, index: u32) -> Option<Layout> {
        self.layouts.get(&index, 0).ok()
    }

    /// The mappings of a process.
    #[must_use]
    pub fn mappings(&self, process: &TrackedProcess) -> Vec<Mapping> {
        let end = process.first_mapping.saturating_add(process.mapping_count);
        let indices = process.first_mapping..end;
        indices
            .map_while(|index| self.mappings.get(&index, 0).ok())
            .collect()
    }

    /// Where the unwind table with this index is.
    #[must_use]
    pub fn table(&self, index: u32) -> Option<TableLocation> {
        self.tables.get(&index, 0).ok()
    }

    /// The unwind rule with this index.
    #[must_use]
    pub fn rule(&self, index: u16) -> Option<Rule> {
        self.rules.get(&index.into(), 0).ok()
    }

    /// The map with the rows of a table.
    #[must_use]
    pub fn rows(&self, table: &TableLocation) -> Option<Rows> {
        self.loader.rows(table.map).map(Rows)
    }

    /// What was sent before this time is to be sent again, in nanoseconds of the monotonic clock.
    #[must_use]
    pub fn resend_before_ns(&self) -> u64 {
        let control = self.control.get(&0, 0);
        control.map_or(0, |control| control.resend_before_ns)
    }
}

/// Rows of unwind tables.
pub struct Rows(Arc<Array<MapData, Block>>);

impl Rows {
    /// The block with this index.
    #[must_use]
    pub fn block(&self, index: u32) -> Option<Block> {
        self.0.get(&index, 0).ok()
    }
}
