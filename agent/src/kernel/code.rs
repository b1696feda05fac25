//! What the kernel half knows of code: the mappings of processes and the unwind tables of files.

use std::{collections::HashMap, sync::Arc, time::Instant};

use agent_common::{
    limits::MAX_MAPPINGS,
    mappings::{Mapping, Table, TableState},
    maps::Process,
    unwind::{BLOCK_WORDS, Block, Rule},
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

impl NewTable<'_> {
    /// The table as it is stored; the last block is filled up with zeros.
    fn blocks(&self) -> impl ExactSizeIterator<Item = Block> {
        self.words.chunks(BLOCK_WORDS).map(|words| {
            let mut block = Block([0; BLOCK_WORDS]);
            block.0[..words.len()].copy_from_slice(words);
            block
        })
    }
}

/// What is known of the maps for code.
#[derive(Debug)]
pub(super) struct CodeMaps {
    regions: Regions,
    /// Of the processes that have mappings, where these are; a process that was forked shares
    /// those of its parent.
    of_processes: HashMap<u32, Arc<Region>>,
    epoch: u64,
    /// Of each map that holds tables, the indices of these; [`None`] where none is.
    table_maps: Vec<Option<Vec<u32>>>,
}

impl Default for CodeMaps {
    fn default() -> Self {
        Self {
            regions: Regions::new(MAX_MAPPINGS),
            of_processes: HashMap::new(),
            epoch: 0,
            table_maps: Vec::new(),
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
        let is_there = self.change_process(tgid, |process| Process {
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

    /// Adds unwind tables, whose rules must be there, all in one map as large as they are:
    /// the kernel waits some milliseconds for every map that is added. [`false`] when there are too
    /// many maps.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be made or written.
    pub fn add_tables(&mut self, tables: &[NewTable<'_>]) -> Result<bool, Error> {
        let blocks: usize = tables.iter().map(|table| table.blocks().len()).sum();
        if blocks == 0 {
            return Ok(true);
        }
        let known = &self.code.table_maps;
        let slot = known
            .iter()
            .position(Option::is_none)
            .unwrap_or(known.len());
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        let length = u32::try_from(blocks).unwrap_or(u32::MAX);
        let mut map =
            Array::<MapData, Block>::create(length, INNER_MAP).map_err(map_error("TABLE_MAPS"))?;
        let all = tables.iter().flat_map(NewTable::blocks);
        for (index, block) in (0..).zip(all) {
            map.set(index, block, 0).map_err(map_error("TABLE_MAPS"))?;
        }
        let mut maps = table_maps(&mut self.programs)?;
        if slot >= maps.len() {
            return Ok(false);
        }
        maps.set(slot, &map, 0).map_err(map_error("TABLE_MAPS"))?;
        let indices = tables.iter().map(|table| table.index).collect();
        match self.code.table_maps.get_mut(slot as usize) {
            Some(entry) => *entry = Some(indices),
            None => self.code.table_maps.push(Some(indices)),
        }
        let mut entries = array::<Table>(&mut self.programs, "TABLES")?;
        let mut first_block = 0;
        for table in tables {
            let entry = Table {
                base: table.base,
                pages: table.pages,
                map: slot,
                first_block,
                state: TableState::LOADED,
            };
            entries
                .set(table.index, entry, 0)
                .map_err(map_error("TABLES"))?;
            first_block += u32::try_from(table.blocks().len()).unwrap_or(u32::MAX);
        }
        Ok(true)
    }

    /// Says of unwind tables that there is none, or none any more.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be written.
    pub fn set_table_states(&mut self, tables: &[u32], state: TableState) -> Result<(), Error> {
        let mut entries = array::<Table>(&mut self.programs, "TABLES")?;
        for &table in tables {
            let entry = Table {
                state,
                ..Table::default()
            };
            entries.set(table, entry, 0).map_err(map_error("TABLES"))?;
        }
        // A map goes when none of its tables is used any more.
        let is_used = |indices: &Vec<u32>| indices.iter().any(|index| !tables.contains(index));
        let mut emptied = Vec::new();
        for (slot, entry) in (0_u32..).zip(&mut self.code.table_maps) {
            let Some(indices) = entry else { continue };
            if is_used(indices) {
                indices.retain(|index| !tables.contains(index));
            } else {
                *entry = None;
                emptied.push(slot);
            }
        }
        if !emptied.is_empty() {
            let nothing =
                Array::<MapData, Block>::create(1, INNER_MAP).map_err(map_error("TABLE_MAPS"))?;
            let mut maps = table_maps(&mut self.programs)?;
            for slot in emptied {
                maps.set(slot, &nothing, 0)
                    .map_err(map_error("TABLE_MAPS"))?;
            }
        }
        Ok(())
    }
}

/// An array of the kernel half.
fn array<'a, T: aya::Pod>(
    programs: &'a mut Ebpf,
    name: &'static str,
) -> Result<Array<&'a mut MapData, T>, Error> {
    let map = programs.map_mut(name).ok_or(Error::Incomplete(name))?;
    Array::try_from(map).map_err(map_error(name))
}

/// The maps that hold unwind tables.
fn table_maps(
    programs: &mut Ebpf,
) -> Result<ArrayOfMaps<&mut MapData, Array<MapData, Block>>, Error> {
    const NAME: &str = "TABLE_MAPS";
    let map = programs.map_mut(NAME).ok_or(Error::Incomplete(NAME))?;
    ArrayOfMaps::try_from(map).map_err(map_error(NAME))
}
