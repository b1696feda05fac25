//! The code of the followed processes: told to the kernel half, and put into words.

use std::{collections::HashSet, iter};

use agent_common::{
    maps::TableState,
    record::{ProcessEvent, ProcessEventKind, WantedTable},
};
use anyhow::Result;
use tokio::task::JoinSet;

use crate::{
    code::{Code, Compilation, Tables},
    kernel::{self, Kernel, LoadedTables, NewTable, TableLoader},
    process::Process,
    unwind::Table,
};

/// The code of the followed processes.
#[derive(Default)]
pub(super) struct FollowedCode {
    code: Code,
    tables: Tables,
    /// Tables that are being compiled or loaded.
    jobs: JoinSet<Done>,
    /// Processes whose mappings found no room in the kernel half.
    left_out: HashSet<u32>,
}

/// What has been done to tables where nobody waited for it.
pub(super) enum Done {
    Compiled(Compilation),
    Loaded(Result<LoadedTables, kernel::Error>),
}

impl FollowedCode {
    /// The files that have been seen.
    pub(super) fn code(&self) -> &Code {
        &self.code
    }

    /// Looks at what a process has mapped, and begins to make the smaller of the tables that are
    /// new.
    pub(super) fn look_at(&mut self, kernel: &mut Kernel, process: &Process) -> Result<()> {
        // One that is gone keeps what was known of it.
        let Ok(mappings) = self.code.look(process) else {
            return Ok(());
        };
        let pid = process.pid();
        if !kernel.set_mappings(pid, &mappings)? {
            self.left_out.insert(pid);
        }
        for executable in self.code.of_process(pid) {
            if let Some(job) = self.tables.want_if_small(executable) {
                self.jobs.spawn_blocking(move || Done::Compiled(job.run()));
            }
        }
        Ok(())
    }

    /// Waits for the smaller tables that are being made, so that the first samples are whole.
    pub(super) async fn prepare(&mut self, kernel: &mut Kernel) -> Result<()> {
        while !self.jobs.is_empty() {
            let mut done = Vec::new();
            while let Some(job) = self.jobs.join_next().await {
                done.extend(job.ok());
            }
            self.go_on(kernel, done)?;
        }
        Ok(())
    }

    /// Begins to make a table that was missed.
    pub(super) fn want(&mut self, wanted: &WantedTable) {
        let job = self
            .code
            .get(wanted.executable)
            .and_then(|executable| self.tables.want(executable));
        if let Some(job) = job {
            self.jobs.spawn_blocking(move || Done::Compiled(job.run()));
        }
    }

    /// Waits until something has been done, and gives all that has.
    ///
    /// It may be dropped at any time and called again.
    pub(super) async fn done(&mut self) -> Vec<Done> {
        let Some(first) = self.jobs.join_next().await else {
            return std::future::pending().await;
        };
        let others = iter::from_fn(|| self.jobs.try_join_next());
        iter::once(first).chain(others).flatten().collect()
    }

    /// Does what comes next: what has been compiled is loaded, what has been loaded is used.
    pub(super) fn go_on(&mut self, kernel: &mut Kernel, done: Vec<Done>) -> Result<()> {
        let mut compiled = Vec::new();
        for done in done {
            match done {
                Done::Compiled(compilation) => compiled.push(compilation),
                Done::Loaded(loaded) => kernel.use_tables(&loaded?)?,
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
                .spawn_blocking(move || Done::Loaded(load(&loader, &tables)));
        }
        Ok(())
    }

    /// Takes notice of what happened to a process.
    pub(super) fn on_event(&mut self, kernel: &mut Kernel, event: &ProcessEvent) {
        match event.kind {
            ProcessEventKind::FORKED => {
                self.code.share(event.tgid, event.parent);
                kernel.share_mappings(event.tgid, event.parent);
            }
            ProcessEventKind::EXECUTED | ProcessEventKind::EXITED => {
                self.code.forget(event.tgid);
                kernel.forget_mappings(event.tgid);
            }
            _ => {}
        }
    }
}

/// Loads tables, each with its index.
fn load(loader: &TableLoader, tables: &[(u32, Table)]) -> Result<LoadedTables, kernel::Error> {
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
