//! Mappings and unwind tables of the targets' executables, loaded into the BPF maps.

use std::iter;

use agent_common::{
    maps::{Mapping, TableState},
    record::WantedTable,
};
use anyhow::Result;
use tokio::task::JoinSet;

use crate::{
    binaries::{
        executables::{Compilation, Executables, TableSet},
        unwind::PackedTable,
    },
    bpf::{self, Bpf, LoadedTables, NewTable, TableLoader},
    python::evaluation_loop,
};

/// Unwind tables of the targets' executables.
pub(super) struct UnwindTables {
    tables: TableSet,
    /// Tables that are being compiled or loaded.
    jobs: JoinSet<TableJob>,
}

/// The result of a background job.
pub(super) enum TableJob {
    Compiled(Compilation),
    Loaded(Result<LoadedTables, bpf::Error>),
}

impl Default for UnwindTables {
    fn default() -> Self {
        Self {
            tables: TableSet::new(evaluation_loop::ranges),
            jobs: JoinSet::new(),
        }
    }
}

impl UnwindTables {
    /// Loads the mappings of a process and starts to compile the smaller ones of its new tables.
    pub(super) fn add_process(
        &mut self,
        bpf: &mut Bpf,
        executables: &Executables,
        pid: u32,
        mappings: &[Mapping],
    ) -> Result<()> {
        // Where they find no room the process has no native frames.
        bpf.set_mappings(pid, mappings)?;
        for executable in executables.of_process(pid) {
            if let Some(job) = self.tables.request_if_small(executable) {
                self.jobs
                    .spawn_blocking(move || TableJob::Compiled(job.run()));
            }
        }
        Ok(())
    }

    /// Waits for the tables that are being compiled, so that the first stacks are complete.
    pub(super) async fn prepare(&mut self, bpf: &mut Bpf, executables: &Executables) -> Result<()> {
        while !self.jobs.is_empty() {
            let mut done = Vec::new();
            while let Some(job) = self.jobs.join_next().await {
                done.extend(job.ok());
            }
            self.advance(bpf, executables, done)?;
        }
        Ok(())
    }

    /// Starts to compile a table that a sample missed.
    pub(super) fn request(&mut self, executables: &Executables, wanted: &WantedTable) {
        let job = executables
            .get(wanted.executable)
            .and_then(|executable| self.tables.request(executable));
        if let Some(job) = job {
            self.jobs
                .spawn_blocking(move || TableJob::Compiled(job.run()));
        }
    }

    /// Waits for a job to finish, and returns all that have.
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Vec<TableJob> {
        let Some(first) = self.jobs.join_next().await else {
            return std::future::pending().await;
        };
        let others = iter::from_fn(|| self.jobs.try_join_next());
        iter::once(first).chain(others).flatten().collect()
    }

    /// Continues finished jobs: compiled tables are loaded, loaded tables are put to use.
    pub(super) fn advance(
        &mut self,
        bpf: &mut Bpf,
        executables: &Executables,
        done: Vec<TableJob>,
    ) -> Result<()> {
        let mut compiled = Vec::new();
        for done in done {
            match done {
                TableJob::Compiled(compilation) => compiled.push(compilation),
                TableJob::Loaded(loaded) => bpf.use_tables(&loaded?)?,
            }
        }
        let loading = self.tables.accept(executables, compiled);
        bpf.add_rules(loading.first_rule, &loading.rules)?;
        if !loading.unloaded.is_empty() {
            bpf.set_table_states(&loading.unloaded, TableState::ABSENT)?;
        }
        if !loading.without_table.is_empty() {
            bpf.set_table_states(&loading.without_table, TableState::NONE)?;
        }
        if !loading.tables.is_empty() {
            let loader = bpf.table_loader();
            let tables = loading.tables;
            self.jobs
                .spawn_blocking(move || TableJob::Loaded(load(&loader, &tables)));
        }
        Ok(())
    }
}

/// Loads tables into maps of their own.
fn load(loader: &TableLoader, tables: &[(u32, PackedTable)]) -> Result<LoadedTables, bpf::Error> {
    let tables: Vec<_> = tables
        .iter()
        .map(|(index, table)| NewTable {
            index: *index,
            base: table.base,
            pages: table.pages,
            words: &table.words,
        })
        .collect();
    loader.load(&tables)
}
