//! Loading of unwind tables: one map for the rows of several tables, and the map of these maps.
//!
//! To replace a map in a map of maps the kernel waits for an RCU grace period, milliseconds or more.
//! The loader can therefore be used from any thread.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent_common::{
    maps::{TableLocation, TableState},
    unwind::Block,
};
use aya::{
    Ebpf,
    maps::{Array, ArrayOfMaps, MapData},
};

use super::{
    error::{Error, map_error},
    maps,
};

/// Key: slot. Value: map of [`Block`]s. Written by the agent, read by the BPF programs. Tables that
/// find no free slot are not loaded.
const TABLE_MAPS: &str = "TABLE_MAPS";

/// `BPF_F_INNER_MAP`, which the map definition of the BPF programs has as well: the lengths of inner
/// maps may differ.
const INNER_MAP: u32 = 1 << 12;

/// An unwind table that is to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct NewTable<'a> {
    /// Index of the executable's table.
    pub index: u32,
    /// First address of the table, before the load bias is added.
    pub base: u64,
    /// Pages of the table.
    pub pages: u32,
    /// The words of the table.
    pub words: &'a [u32],
}

/// Tables that are loaded and not yet published, each with its index.
#[derive(Debug)]
pub struct LoadedTables(Vec<(u32, TableLocation)>);

impl LoadedTables {
    pub(super) fn entries(&self) -> &[(u32, TableLocation)] {
        &self.0
    }
}

/// Creates the maps that hold unwind tables.
#[derive(Clone, Debug)]
pub struct TableLoader(Arc<Mutex<TableMaps>>);

#[derive(Debug)]
struct TableMaps {
    all: ArrayOfMaps<MapData, Array<MapData, Block>>,
    /// The indices of the tables in each slot's map: none before its map is replaced by a small one,
    /// and [`None`] where the slot is free.
    used: Vec<Option<Vec<u32>>>,
}

impl TableLoader {
    pub(super) fn take(object: &mut Ebpf) -> Result<Self, Error> {
        let maps = TableMaps {
            all: maps::take(object, TABLE_MAPS)?,
            used: Vec::new(),
        };
        Ok(Self(Arc::new(Mutex::new(maps))))
    }

    /// Creates one map with all these tables, of their size. Where no slot is free none of them is
    /// loaded.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be created or written.
    pub fn load(&self, tables: &[NewTable<'_>]) -> Result<LoadedTables, Error> {
        let blocks: usize = tables
            .iter()
            .map(|table| Block::all_of(table.words).len())
            .sum();
        let length = u32::try_from(blocks).unwrap_or(u32::MAX);
        if length == 0 {
            return Ok(LoadedTables(Vec::new()));
        }
        let mut map = create(length)?;
        let all = tables.iter().flat_map(|table| Block::all_of(table.words));
        for (index, block) in (0..).zip(all) {
            map.set(index, block, 0)
                .map_err(map_error("write", TABLE_MAPS))?;
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

    /// Notes that tables are unloaded; returns the slots of which nothing is left.
    pub(super) fn unload(&self, tables: &[u32]) -> EmptySlots {
        let unloaded: HashSet<_> = tables.iter().collect();
        let mut empty = Vec::new();
        for (slot, tables) in (0_u32..).zip(&mut self.maps().used) {
            let Some(tables) = tables.as_mut().filter(|tables| !tables.is_empty()) else {
                continue;
            };
            tables.retain(|table| !unloaded.contains(table));
            if tables.is_empty() {
                empty.push(slot);
            }
        }
        EmptySlots(empty)
    }

    /// Gives back what slots took, from any thread.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be created or written.
    pub fn free(&self, slots: EmptySlots) -> Result<(), Error> {
        if slots.0.is_empty() {
            return Ok(());
        }
        let small = create(1)?;
        for slot in slots.0 {
            self.maps().clear(slot, &small)?;
        }
        Ok(())
    }

    fn maps(&self) -> MutexGuard<'_, TableMaps> {
        // It is consistent after every statement, so also after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Slots whose tables are all unloaded, and which are not free yet.
#[must_use]
#[derive(Debug)]
pub struct EmptySlots(Vec<u32>);

impl EmptySlots {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TableMaps {
    /// Puts a small map into a slot, which is free then.
    fn clear(&mut self, slot: u32, small: &Array<MapData, Block>) -> Result<(), Error> {
        let result = self.all.set(slot, small, 0);
        result.map_err(map_error("write", TABLE_MAPS))?;
        if let Some(used) = self.used.get_mut(slot as usize) {
            *used = None;
        }
        Ok(())
    }

    /// Puts a map into a free slot; [`None`] where there is none.
    fn put(
        &mut self,
        map: &Array<MapData, Block>,
        indices: Vec<u32>,
    ) -> Result<Option<u32>, Error> {
        let free = self.used.iter().position(Option::is_none);
        let position = free.unwrap_or(self.used.len());
        let slot = u32::try_from(position).unwrap_or(u32::MAX);
        if slot >= self.all.len() {
            return Ok(None);
        }
        let result = self.all.set(slot, map, 0);
        result.map_err(map_error("write", TABLE_MAPS))?;
        match self.used.get_mut(position) {
            Some(entry) => *entry = Some(indices),
            None => self.used.push(Some(indices)),
        }
        Ok(Some(slot))
    }
}

fn create(length: u32) -> Result<Array<MapData, Block>, Error> {
    Array::create(length, INNER_MAP).map_err(map_error("create", TABLE_MAPS))
}
