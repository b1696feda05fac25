//! Mappings and unwind tables of the targets' executables, loaded into the BPF maps.

use std::{iter, mem, time::Duration};

use agent_common::{maps::TableState, record::WantedTable};
use anyhow::Result;
use tokio::task::JoinSet;

use crate::{
    binaries::{
        executables::{
            Compilation, CompileJob, Executables, MappedExecutables, TableSet, TableUpdate,
        },
        unwind::PackedTable,
    },
    bpf::{self, Bpf, LoadedTables, NewTable, TableLoader},
    python::evaluation_loop,
    workers::{Failure, Lane, Subject, Workers},
};

/// Time for the compilation of a table.
const COMPILATION_LIMIT: Duration = Duration::from_secs(20);

/// Time for loading tables, which waits for the kernel alone.
const LOAD_LIMIT: Duration = Duration::from_secs(600);

/// Unwind tables of the targets' executables.
pub(super) struct UnwindTables {
    tables: TableSet,
    workers: Workers,
    /// Tables that are being compiled or loaded.
    jobs: JoinSet<TableJob>,
    /// Results that are not put to use yet.
    done: Vec<TableJob>,
}

/// The result of a background job.
pub(super) enum TableJob {
    Compiled(Compilation),
    Loaded(Result<Result<LoadedTables, bpf::Error>, Failure>),
}

impl UnwindTables {
    pub(super) fn new(workers: Workers) -> Self {
        Self {
            tables: TableSet::new(evaluation_loop::ranges),
            workers,
            jobs: JoinSet::new(),
            done: Vec::new(),
        }
    }

    /// Loads the mappings of a process and starts to compile the smaller ones of its new tables.
    pub(super) fn add_process(
        &mut self,
        bpf: &mut Bpf,
        executables: &Executables,
        pid: u32,
        mapped: &MappedExecutables,
    ) -> Result<()> {
        // Where they find no room the process has no native frames.
        bpf.set_mappings(pid, &mapped.mappings)?;
        self.begin(executables, pid);
        Ok(())
    }

    /// Starts to compile the smaller ones of the new tables of a process.
    pub(super) fn begin(&mut self, executables: &Executables, pid: u32) {
        for executable in executables.of_process(pid) {
            if let Some(job) = self.tables.request_if_small(&executable) {
                self.compile(job);
            }
        }
    }

    /// Waits for the tables that are being compiled, so that the first stacks are complete.
    ///
    /// Cancel safe.
    pub(super) async fn prepare(&mut self, bpf: &mut Bpf, executables: &Executables) -> Result<()> {
        while !self.jobs.is_empty() {
            while let Some(job) = self.jobs.join_next().await {
                self.done.extend(job.ok());
            }
            let done = mem::take(&mut self.done);
            self.advance(bpf, executables, done)?;
        }
        Ok(())
    }

    /// Starts to compile a table that a sample missed.
    pub(super) fn request(&mut self, executables: &Executables, wanted: &WantedTable) {
        let job = executables
            .get(wanted.executable)
            .and_then(|executable| self.tables.request(&executable));
        if let Some(job) = job {
            self.compile(job);
        }
    }

    /// Waits for a job to finish, and returns all that have.
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Vec<TableJob> {
        if !self.done.is_empty() {
            return mem::take(&mut self.done);
        }
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
                TableJob::Loaded(loaded) => bpf.use_tables(&loaded??)?,
            }
        }
        let TableUpdate {
            first_rule,
            rules,
            tables,
            without_table,
            unloaded,
            jobs,
        } = self.tables.accept(executables, compiled);
        bpf.add_rules(first_rule, &rules)?;
        if !unloaded.is_empty() {
            bpf.set_table_states(&unloaded, TableState::ABSENT)?;
        }
        if !without_table.is_empty() {
            bpf.set_table_states(&without_table, TableState::NONE)?;
        }
        for job in jobs {
            self.compile(job);
        }
        if !tables.is_empty() {
            self.load(bpf.table_loader(), tables);
        }
        Ok(())
    }

    fn compile(&mut self, job: CompileJob) {
        let subject = job.subject().clone();
        let without_result = job.without_result();
        let run = move || job.run();
        let pending = self
            .workers
            .submit(Lane::Tables, subject, COMPILATION_LIMIT, run);
        self.jobs.spawn(async move {
            let compilation = pending.result().await;
            TableJob::Compiled(compilation.unwrap_or(without_result))
        });
    }

    /// Loads tables into maps of their own, which waits for readers of the maps.
    fn load(&mut self, loader: TableLoader, tables: Vec<(u32, PackedTable)>) {
        let subject = Subject::new("unwind tables", "the loading of unwind tables");
        let load = move || {
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
        };
        let pending = self.workers.submit(Lane::Loads, subject, LOAD_LIMIT, load);
        self.jobs
            .spawn(async move { TableJob::Loaded(pending.result().await) });
    }
}
