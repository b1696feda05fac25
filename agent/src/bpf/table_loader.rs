//! Loading of unwind tables: one map for the rows of several tables, and the map of these maps.
//!
//! To replace a map in a map of maps the kernel waits for an RCU grace period, milliseconds or more.
//! The loader can therefore be used from any thread.

use std::{
    collections::{HashMap, HashSet},
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

/// Slots that are given back at once: loading waits for it.
const GIVEN_BACK_AT_ONCE: usize = 4;

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
#[derive(Clone)]
pub struct TableLoader {
    maps: Arc<Mutex<TableMaps>>,
    /// [`None`] where the BPF programs alone read them.
    kept: Option<Arc<Mutex<KeptMaps>>>,
}

#[derive(Debug)]
struct TableMaps {
    all: ArrayOfMaps<MapData, Array<MapData, Block>>,
    /// The indices of the tables in each slot's map: none before its map is replaced by a small one,
    /// and [`None`] where the slot is free.
    used: Vec<Option<Vec<u32>>>,
}

/// The maps in slots, for those who read them in the agent. Each has a descriptor.
struct KeptMaps {
    maps: HashMap<u32, KeptMap>,
    most: usize,
    /// How often one was looked up.
    uses: u64,
}

struct KeptMap {
    map: Arc<Array<MapData, Block>>,
    /// When it was last looked up, or put there, by the count of uses.
    used: u64,
}

impl KeptMaps {
    fn get(&mut self, slot: u32) -> Option<Arc<Array<MapData, Block>>> {
        self.uses += 1;
        let kept = self.maps.get_mut(&slot)?;
        kept.used = self.uses;
        Some(Arc::clone(&kept.map))
    }

    /// Keeps a map in place of the one that has been used least lately.
    fn insert(&mut self, slot: u32, map: Array<MapData, Block>) {
        self.maps.remove(&slot);
        while self.maps.len() >= self.most {
            let oldest = self.maps.iter().min_by_key(|(_, kept)| kept.used);
            let Some((&oldest, _)) = oldest else {
                break;
            };
            self.maps.remove(&oldest);
        }
        let kept = KeptMap {
            map: Arc::new(map),
            used: self.uses,
        };
        self.maps.insert(slot, kept);
    }
}

impl TableLoader {
    /// `most_kept`: how many maps are also read in the agent.
    pub(super) fn take(object: &mut Ebpf, most_kept: usize) -> Result<Self, Error> {
        let maps = TableMaps {
            all: maps::take(object, TABLE_MAPS)?,
            used: Vec::new(),
        };
        Ok(Self {
            maps: Arc::new(Mutex::new(maps)),
            kept: (most_kept > 0).then(|| {
                Arc::new(Mutex::new(KeptMaps {
                    maps: HashMap::new(),
                    most: most_kept,
                    uses: 0,
                }))
            }),
        })
    }

    /// The map in a slot, if it is kept.
    pub(super) fn rows(&self, slot: u32) -> Option<Arc<Array<MapData, Block>>> {
        lock(self.kept.as_ref()?).get(slot)
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
        if let Some(kept) = &self.kept {
            // In the place of the map of tables that are unloaded.
            lock(kept).insert(slot, map);
        }
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

    /// Gives back what tables took that are unloaded, from any thread, after all that was loaded before.
    ///
    /// A slot of which nothing is left is taken by the next table. Of slots that are not, a few are
    /// given back each time, since each waits for a grace period; returns how many are left.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be created or written.
    pub fn unload(&self, tables: &[u32]) -> Result<usize, Error> {
        let unloaded: HashSet<_> = tables.iter().collect();
        let is_left = |table: &u32| !unloaded.contains(table);
        for used in self.maps().used.iter_mut().flatten() {
            used.retain(is_left);
        }
        if !self.maps().has_empty() {
            return Ok(0);
        }
        let small = create(1)?;
        for _ in 0..GIVEN_BACK_AT_ONCE {
            let cleared = self.maps().clear_empty(&small)?;
            if let (Some(slot), Some(kept)) = (cleared, &self.kept) {
                lock(kept).maps.remove(&slot);
            }
        }
        Ok(self
            .maps()
            .used
            .iter()
            .flatten()
            .filter(|used| used.is_empty())
            .count())
    }

    fn maps(&self) -> MutexGuard<'_, TableMaps> {
        lock(&self.maps)
    }
}

/// What is locked here is consistent after every statement, so also after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TableMaps {
    /// Whether there is a slot of whose tables nothing is left.
    fn has_empty(&self) -> bool {
        self.used.iter().flatten().any(Vec::is_empty)
    }

    /// Puts a small map into such a slot, which is free then; returns which.
    fn clear_empty(&mut self, small: &Array<MapData, Block>) -> Result<Option<u32>, Error> {
        let is_empty = |used: &Option<Vec<u32>>| used.as_ref().is_some_and(Vec::is_empty);
        let Some(position) = self.used.iter().position(is_empty) else {
            return Ok(None);
        };
        let slot = u32::try_from(position).unwrap_or(u32::MAX);
        let result = self.all.set(slot, small, 0);
        result.map_err(map_error("write", TABLE_MAPS))?;
        self.used[position] = None;
        Ok(Some(slot))
    }

    /// Puts a map into a free slot; [`None`] where there is none.
    fn put(
        &mut self,
        map: &Array<MapData, Block>,
        indices: Vec<u32>,
    ) -> Result<Option<u32>, Error> {
        let is_free = |used: &Option<Vec<u32>>| used.as_ref().is_none_or(Vec::is_empty);
        let free = self.used.iter().position(is_free);
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
