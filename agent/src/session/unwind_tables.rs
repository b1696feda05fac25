//! Executables of the targets: their mappings and unwind tables, loaded into the BPF maps.

use std::{collections::HashSet, iter};

use agent_common::{
    maps::TableState,
    record::{ProcessEvent, ProcessEventKind, WantedTable},
};
use anyhow::Result;
use tokio::task::JoinSet;

use crate::{
    binaries::{
        executables::{Compilation, Executables, TableSet},
        unwind::PackedTable,
    },
    bpf::{self, Bpf, LoadedTables, NewTable, TableLoader},
    process::Process,
    python::evaluation_loop,
};

/// Executables of the targets and their unwind tables.
pub(super) struct UnwindTables {
    code: Executables,
    tables: TableSet,
    /// Tables that are being compiled or loaded.
    jobs: JoinSet<TableJob>,
    /// Processes whose mappings found no room in the map.
    left_out: HashSet<u32>,
}

/// The result of a background job.
pub(super) enum TableJob {
    Compiled(Compilation),
    Loaded(Result<LoadedTables, bpf::Error>),
}

impl Default for UnwindTables {
    fn default() -> Self {
        Self {
            code: Executables::default(),
            tables: TableSet::new(evaluation_loop::ranges),
            jobs: JoinSet::new(),
            left_out: HashSet::new(),
        }
    }
}

impl UnwindTables {
    /// The executables of all targets.
    pub(super) fn executables(&self) -> &Executables {
        &self.code
    }

    /// Reads the mappings of a process and starts to compile the smaller ones of its new tables.
    pub(super) fn add_process(&mut self, kernel: &mut Bpf, process: &Process) -> Result<()> {
        // One that has exited keeps what it had.
        let Ok(mappings) = self.code.read_mappings(process) else {
            return Ok(());
        };
        let pid = process.pid();
        if !kernel.set_mappings(pid, &mappings)? {
            self.left_out.insert(pid);
        }
        for executable in self.code.of_process(pid) {
            if let Some(job) = self.tables.request_if_small(executable) {
                self.jobs
                    .spawn_blocking(move || TableJob::Compiled(job.run()));
            }
        }
        Ok(())
    }

    /// Waits for the tables that are being compiled, so that the first stacks are complete.
    pub(super) async fn prepare(&mut self, kernel: &mut Bpf) -> Result<()> {
        while !self.jobs.is_empty() {
            let mut done = Vec::new();
            while let Some(job) = self.jobs.join_next().await {
                done.extend(job.ok());
            }
            self.advance(kernel, done)?;
        }
        Ok(())
    }

    /// Starts to compile a table that a sample missed.
    pub(super) fn request(&mut self, wanted: &WantedTable) {
        let job = self
            .code
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
    pub(super) fn advance(&mut self, kernel: &mut Bpf, done: Vec<TableJob>) -> Result<()> {
        let mut compiled = Vec::new();
        for done in done {
            match done {
                TableJob::Compiled(compilation) => compiled.push(compilation),
                TableJob::Loaded(loaded) => kernel.use_tables(&loaded?)?,
            }
        }
        let loading = self.tables.accept(&self.code, compiled);
        kernel.add_rules(loading.first_rule, &loading.rules)?;
        if !loading.unloaded.is_empty() {
            kernel.set_table_states(&loading.unloaded, TableState::ABSENT)?;
        }
        if !loading.without_table.is_empty() {
            kernel.set_table_states(&loading.without_table, TableState::NONE)?;
        }
        if !loading.tables.is_empty() {
            let loader = kernel.table_loader();
            let tables = loading.tables;
            self.jobs
                .spawn_blocking(move || TableJob::Loaded(load(&loader, &tables)));
        }
        Ok(())
    }

    /// Acts on a process event.
    pub(super) fn on_event(&mut self, kernel: &mut Bpf, event: &ProcessEvent) {
        match event.kind {
            ProcessEventKind::FORKED => {
                self.code.add_forked(event.tgid, event.parent);
                kernel.share_mappings(event.tgid, event.parent);
            }
            ProcessEventKind::EXECUTED | ProcessEventKind::EXITED => {
                self.code.remove_process(event.tgid);
                kernel.remove_mappings(event.tgid);
            }
            _ => {}
        }
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
