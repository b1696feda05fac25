//! What the kernel half knows of code: the mappings of processes and the unwind tables of files.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use agent_common::{
    limits::MAX_MAPPINGS,
    maps::{Mapping, TableLocation, TableState, TrackedProcess},
    unwind::{Block, Rule},
};
use aya::{
    Ebpf,
    maps::{Array, ArrayOfMaps, MapData},
};

use super::{
    Error, Kernel, map_error,
    regions::{Region, Regions},
};

/// `BPF_F_INNER_MAP`, as the kernel half has it.
const INNER_MAP: u32 = 1 << 12;

/// An unwind table on its way to the kernel half.
#[derive(Clone, Copy, Debug)]
pub struct NewTable<'a> {
    /// Index of the file's table.
    pub index: u32,
    /// First address of the table, as the file gives it.
    pub base: u64,
    /// Pages of the table.
    pub pages: u32,
    /// The words of the table.
    pub words: &'a [u32],
}

/// What is known of the maps for code.
#[derive(Debug)]
pub(super) struct CodeMaps {
    regions: Regions,
    /// Of the processes that have mappings, where these are; a process that was forked shares
    /// those of its parent.
    of_processes: HashMap<u32, Arc<Region>>,
    epoch: u64,
}

impl Default for CodeMaps {
    fn default() -> Self {
        Self {
            regions: Regions::new(MAX_MAPPINGS),
            of_processes: HashMap::new(),
            epoch: 0,
        }
    }
}

impl CodeMaps {
    fn give_back(&mut self, region: Option<Arc<Region>>) {
        if let Some(region) = region.and_then(Arc::into_inner) {
            self.regions.give_back(region, Instant::now());
        }
    }
}

impl Kernel {
    /// Tells the kernel half what a process has mapped executable, sorted by address; [`false`]
    /// when there is no room for so much, and the process goes without native frames.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be written.
    pub fn set_mappings(&mut self, tgid: u32, mappings: &[Mapping]) -> Result<bool, Error> {
        let count = u32::try_from(mappings.len()).unwrap_or(u32::MAX);
        let now = Instant::now();
        let region = match count {
            0 => None,
            count => self.code.regions.take(count, now),
        };
        if let Some(region) = region {
            let mut all = array::<Mapping>(&mut self.programs, "MAPPINGS")?;
            for (index, mapping) in (region.first..).zip(mappings) {
                all.set(index, mapping, 0).map_err(map_error("MAPPINGS"))?;
            }
        }
        let used = region.unwrap_or(Region { first: 0, count: 0 });
        self.code.epoch += 1;
        let epoch = self.code.epoch;
        let is_there = self.change_process(tgid, |process| TrackedProcess {
            first_mapping: used.first,
            mapping_count: used.count,
            mappings_epoch: epoch,
            ..process
        })?;
        let before = match region {
            Some(region) if is_there => self.code.of_processes.insert(tgid, Arc::new(region)),
            Some(region) => {
                self.code.regions.give_back(region, now);
                None
            }
            None => self.code.of_processes.remove(&tgid),
        };
        self.code.give_back(before);
        Ok(region.is_some() || mappings.is_empty())
    }

    /// Takes notice of a process that was forked: the kernel half already knows its mappings to
    /// be those of its parent.
    pub fn share_mappings(&mut self, tgid: u32, parent: u32) {
        if let Some(region) = self.code.of_processes.get(&parent) {
            let region = Arc::clone(region);
            let before = self.code.of_processes.insert(tgid, region);
            self.code.give_back(before);
        }
    }

    /// Takes notice of a process that has ended or runs another program.
    pub fn forget_mappings(&mut self, tgid: u32) {
        let before = self.code.of_processes.remove(&tgid);
        self.code.give_back(before);
    }

    /// Adds rules, the first with the index `first`.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn add_rules(&mut self, first: u16, rules: &[Rule]) -> Result<(), Error> {
        let mut all = array::<Rule>(&mut self.programs, "RULES")?;
        for (index, rule) in (u32::from(first)..).zip(rules) {
            all.set(index, rule, 0).map_err(map_error("RULES"))?;
        }
        Ok(())
    }

    /// What unwind tables are loaded with.
    #[must_use]
    pub fn table_loader(&self) -> TableLoader {
        self.tables.clone()
    }

    /// Lets the kernel half use tables that have been loaded, whose rules must be there.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be written.
    pub fn use_tables(&mut self, loaded: &LoadedTables) -> Result<(), Error> {
        let mut entries = array::<TableLocation>(&mut self.programs, "TABLES")?;
        for (index, table) in &loaded.0 {
            entries.set(*index, table, 0).map_err(map_error("TABLES"))?;
        }
        Ok(())
    }

    /// Says of unwind tables that there is none, or none any more.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be written.
    pub fn set_table_states(&mut self, tables: &[u32], state: TableState) -> Result<(), Error> {
        let mut entries = array::<TableLocation>(&mut self.programs, "TABLES")?;
        for &table in tables {
            let entry = TableLocation {
                state,
                ..TableLocation::default()
            };
            entries.set(table, entry, 0).map_err(map_error("TABLES"))?;
        }
        self.tables.unload(tables)
    }
}

/// Tables that the kernel half can use from now on, once it is told of them.
#[derive(Debug)]
pub struct LoadedTables(Vec<(u32, TableLocation)>);

/// Makes the maps that hold unwind tables. For each the kernel waits until all processors have done
/// something else (RCU), which takes milliseconds or more: to be done where that harms nobody.
#[derive(Clone, Debug)]
pub struct TableLoader(Arc<Mutex<TableMaps>>);

#[derive(Debug)]
struct TableMaps {
    all: ArrayOfMaps<MapData, Array<MapData, Block>>,
    /// Of each map the indices of the tables in it; [`None`] where none is.
    used: Vec<Option<Vec<u32>>>,
}

impl TableLoader {
    pub(super) fn new(all: ArrayOfMaps<MapData, Array<MapData, Block>>) -> Self {
        let used = Vec::new();
        Self(Arc::new(Mutex::new(TableMaps { all, used })))
    }

    /// Makes one map of all these tables, as large as they are. Those that find no room, because
    /// there are too many maps, are not loaded.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be made or written.
    pub fn load(&self, tables: &[NewTable<'_>]) -> Result<LoadedTables, Error> {
        let blocks: usize = tables
            .iter()
            .map(|table| Block::all_of(table.words).len())
            .sum();
        let length = u32::try_from(blocks).unwrap_or(u32::MAX);
        if length == 0 {
            return Ok(LoadedTables(Vec::new()));
        }
        let mut map =
            Array::<MapData, Block>::create(length, INNER_MAP).map_err(map_error(TABLE_MAPS))?;
        let all = tables.iter().flat_map(|table| Block::all_of(table.words));
        for (index, block) in (0..).zip(all) {
            map.set(index, block, 0).map_err(map_error(TABLE_MAPS))?;
        }
        let indices = tables.iter().map(|table| table.index).collect();
        let Some(slot) = self.maps().put(&map, indices)? else {
            return Ok(LoadedTables(Vec::new()));
        };
        let mut first_block = 0;
        let entries = tables.iter().map(|table| {
            let entry = TableLocation {
                base: table.base,
                pages: table.pages,
                map: slot,
                first_block,
                state: TableState::LOADED,
            };
            first_block += u32::try_from(Block::all_of(table.words).len()).unwrap_or(u32::MAX);
            (table.index, entry)
        });
        Ok(LoadedTables(entries.collect()))
    }

    /// Lets the maps go of which no table is used any more.
    fn unload(&self, tables: &[u32]) -> Result<(), Error> {
        let mut maps = self.maps();
        let mut emptied = Vec::new();
        for (slot, entry) in (0_u32..).zip(&mut maps.used) {
            let Some(indices) = entry else { continue };
            indices.retain(|index| !tables.contains(index));
            if indices.is_empty() {
                *entry = None;
                emptied.push(slot);
            }
        }
        if emptied.is_empty() {
            return Ok(());
        }
        let nothing =
            Array::<MapData, Block>::create(1, INNER_MAP).map_err(map_error(TABLE_MAPS))?;
        for slot in emptied {
            let result = maps.all.set(slot, &nothing, 0);
            result.map_err(map_error(TABLE_MAPS))?;
        }
        Ok(())
    }

    fn maps(&self) -> MutexGuard<'_, TableMaps> {
        // What is in it is whole after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableMaps {
    /// Puts a map among the others; [`None`] when there are too many.
    fn put(
        &mut self,
        map: &Array<MapData, Block>,
        indices: Vec<u32>,
    ) -> Result<Option<u32>, Error> {
        let free = self.used.iter().position(Option::is_none);
        let place = free.unwrap_or(self.used.len());
        let slot = u32::try_from(place).unwrap_or(u32::MAX);
        if slot >= self.all.len() {
            return Ok(None);
        }
        let result = self.all.set(slot, map, 0);
        result.map_err(map_error(TABLE_MAPS))?;
        match self.used.get_mut(place) {
            Some(entry) => *entry = Some(indices),
            None => self.used.push(Some(indices)),
        }
        Ok(Some(slot))
    }
}

/// The map of the maps that hold unwind tables.
pub(super) const TABLE_MAPS: &str = "TABLE_MAPS";

/// An array of the kernel half.
fn array<'a, T: aya::Pod>(
    programs: &'a mut Ebpf,
    name: &'static str,
) -> Result<Array<&'a mut MapData, T>, Error> {
    let map = programs.map_mut(name).ok_or(Error::Incomplete(name))?;
    Array::try_from(map).map_err(map_error(name))
}
