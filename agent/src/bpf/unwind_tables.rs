//! What the native walk looks rules up in: the maps `RULES` and `TABLES`, and the maps that hold the
//! tables' rows.

use agent_common::{
    maps::{TableLocation, TableState},
    unwind::Rule,
};
use aya::{
    Ebpf,
    maps::{Array, MapData},
};

use super::{
    error::{Error, map_error},
    maps,
    table_loader::{LoadedTables, TableLoader},
};

/// Key: index that rows refer to. Value: [`Rule`]. Written by the agent, and
/// changed only when no table has referred to it for a while.
pub(super) const RULES: &str = "RULES";

/// Key: index of an executable's table. Value: [`TableLocation`]. Written by the agent, read by the BPF
/// programs.
pub(super) const TABLES: &str = "TABLES";

/// The unwind tables of all executables.
pub(super) struct UnwindTableMaps {
    rules: Array<MapData, Rule>,
    tables: Array<MapData, TableLocation>,
    loader: TableLoader,
}

impl UnwindTableMaps {
    pub(super) fn take(object: &mut Ebpf, loader: TableLoader) -> Result<Self, Error> {
        Ok(Self {
            rules: maps::take(object, RULES)?,
            tables: maps::take(object, TABLES)?,
            loader,
        })
    }

    /// Sets rules, with their indices, to which no loaded table refers yet.
    pub(super) fn set_rules(&mut self, rules: &[(u16, Rule)]) -> Result<(), Error> {
        for (index, rule) in rules {
            self.rules
                .set((*index).into(), rule, 0)
                .map_err(map_error("write", RULES))?;
        }
        Ok(())
    }

    pub(super) fn loader(&self) -> TableLoader {
        self.loader.clone()
    }

    /// Publishes loaded tables, whose rules must have been added.
    pub(super) fn publish(&mut self, loaded: &LoadedTables) -> Result<(), Error> {
        for (index, table) in loaded.entries() {
            self.set(*index, *table)?;
        }
        Ok(())
    }

    /// Marks tables as not loaded.
    pub(super) fn unload(&mut self, tables: &[u32], state: TableState) -> Result<(), Error> {
        for &index in tables {
            let table = TableLocation {
                state,
                ..TableLocation::default()
            };
            self.set(index, table)?;
        }
        Ok(())
    }

    fn set(&mut self, index: u32, table: TableLocation) -> Result<(), Error> {
        self.tables
            .set(index, table, 0)
            .map_err(map_error("write", TABLES))
    }
}
