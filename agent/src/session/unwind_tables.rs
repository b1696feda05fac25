//! Mappings and unwind tables of the targets' executables, loaded into the BPF maps.

use std::{
    iter, mem,
    time::{Duration, Instant},
};

use agent_common::{maps::TableState, record::WantedTable};
use anyhow::Result;
use tokio::task::JoinSet;
use tracing::warn;

use crate::{
    binaries::executables::{
        self, Compilation, CompileJob, Executables, MappedExecutables, TableRequest, TableSet,
        TableUpdate,
    },
    bpf::{self, Bpf, LoadedTables, NewTable, TableLoader},
    python::marked_code,
    workers::{Failure, Lane, Subject, Workers},
};

/// Most bytes of call-frame information of an executable whose table is compiled in milliseconds.
const MAX_SMALL: u64 = 4 << 20;

/// The same of one that is compiled ahead all the same, in half a second: the largest library
/// of TensorFlow has 31 MB.
const MAX_LARGE: u64 = 40 << 20;

/// Time for the compilation of a table.
const COMPILATION_LIMIT: Duration = Duration::from_secs(20);

/// Time for loading tables, which waits for the kernel alone.
const LOAD_LIMIT: Duration = Duration::from_secs(600);

/// When the tables of large files are compiled, which takes up to a second for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LargeTables {
    /// When a sample needs them: most are never needed.
    WhenNeeded,
    /// With all others, so that the first stacks are complete.
    Ahead,
}

/// Unwind tables of the targets' executables.
pub(super) struct UnwindTables {
    tables: TableSet,
    large: LargeTables,
    workers: Workers,
    /// Tables that are being compiled or loaded.
    jobs: JoinSet<TableJob>,
    /// Results that are not put to use yet.
    done: Vec<TableJob>,
    /// Compiled tables that wait until others are loaded: loading waits for a grace period of the
    /// kernel, however many they are.
    compiled: Vec<executables::NewTable>,
    is_loading: bool,
    /// Jobs that have ended.
    ended: usize,
    /// Times that the mappings of a process found no room.
    left_out: u64,
    /// Unloaded tables whose memory is to be given back.
    unloaded: usize,
    is_unloading: bool,
}

/// How many times something found no room in the BPF maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The mappings of a process.
    pub mappings: u64,
    /// The unwind table of an executable.
    pub tables: u64,
    /// A rule of such a table.
    pub rules: u64,
    /// The layout of an interpreter.
    pub layouts: u64,
}

/// The result of a background job.
pub(super) enum TableJob {
    Compiled(Compilation),
    /// Tables of the executables with these numbers.
    Loaded(Vec<u32>, Result<Result<LoadedTables, bpf::Error>, Failure>),
    /// How much is to be given back later.
    Unloaded(Result<Result<usize, bpf::Error>, Failure>),
}

impl UnwindTables {
    pub(super) fn new(large: LargeTables, workers: Workers) -> Self {
        Self {
            tables: TableSet::new(marked_code),
            large,
            workers,
            jobs: JoinSet::new(),
            done: Vec::new(),
            compiled: Vec::new(),
            is_loading: false,
            ended: 0,
            left_out: 0,
            unloaded: 0,
            is_unloading: false,
        }
    }

    /// Times that the mappings of a process, a table, or a rule found no room.
    pub(super) fn left_out(&self) -> LeftOut {
        LeftOut {
            mappings: self.left_out,
            tables: self.tables.left_out(),
            rules: self.tables.rules_left_out(),
            layouts: 0,
        }
    }

    /// Loads the mappings of a process and starts to compile its new tables that are not left for later.
    pub(super) fn add_process(
        &mut self,
        bpf: &mut Bpf,
        executables: &Executables,
        pid: u32,
        mapped: &MappedExecutables,
    ) -> Result<()> {
        // Where they find no room the process has no native frames.
        if !bpf.set_mappings(pid, mapped.user, &mapped.mappings)? {
            if self.left_out == 0 {
                warn!(
                    "process {pid} of user {} has no native frames: too many mappings are in use",
                    mapped.user
                );
            }
            self.left_out += 1;
        }
        self.begin(executables, pid);
        Ok(())
    }

    /// Starts to compile the new tables of a process that are not left for later.
    pub(super) fn begin(&mut self, executables: &Executables, pid: u32) {
        let most_bytes = match self.large {
            LargeTables::WhenNeeded => MAX_SMALL,
            LargeTables::Ahead => MAX_LARGE,
        };
        for executable in executables.of_process(pid) {
            if let Some(job) = self.tables.request_ahead(&executable, most_bytes) {
                self.compile(job);
            }
        }
    }

    /// Whether any table is being compiled or loaded.
    pub(super) fn is_loading(&self) -> bool {
        !self.jobs.is_empty() || !self.done.is_empty()
    }

    /// How many times a table was compiled, loaded or unloaded.
    pub(super) fn ended(&self) -> usize {
        self.ended
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
        let request = executables
            .get(wanted.executable)
            .and_then(|executable| self.tables.request(executables, &executable));
        match request {
            Some(TableRequest::Compile(job)) => self.compile(job),
            Some(TableRequest::Hasten(subject)) => self.workers.hasten(Lane::Tables, &subject),
            None => {}
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
        let mut result = Ok(());
        self.ended += done.len();
        for done in done {
            match done {
                TableJob::Compiled(compilation) => compiled.push(compilation),
                TableJob::Loaded(numbers, loaded) => {
                    self.is_loading = false;
                    let is_loaded = matches!(loaded, Ok(Ok(_)));
                    self.tables.end_loading(&numbers, is_loaded);
                    result = result.and(publish(bpf, loaded));
                }
                TableJob::Unloaded(unloaded) => {
                    self.is_unloading = false;
                    let left = unloaded.map_err(Into::into).and_then(|left| Ok(left?));
                    result = result.and(left.map(|left| self.unloaded = left));
                }
            }
        }
        let update = self.tables.accept(executables, compiled);
        result.and(self.apply(bpf, update))
    }

    /// Makes changes in the BPF maps, and begins what has to be done on other threads.
    fn apply(&mut self, bpf: &mut Bpf, update: TableUpdate) -> Result<()> {
        let TableUpdate {
            rules,
            tables,
            without_table,
            unloaded,
            jobs,
        } = update;
        bpf.set_rules(&rules)?;
        self.set_states(bpf, &unloaded, TableState::ABSENT)?;
        self.set_states(bpf, &without_table, TableState::NONE)?;
        for job in jobs {
            self.compile(job);
        }
        self.compiled.extend(tables);
        if !self.is_loading && !self.compiled.is_empty() {
            self.load(bpf.table_loader());
        }
        Ok(())
    }

    /// Forgets executables that were not mapped since `unused_before`, and others where there are too
    /// many.
    pub(super) fn forget(
        &mut self,
        bpf: &mut Bpf,
        executables: &Executables,
        unused_before: Option<Instant>,
    ) -> Result<()> {
        let is_busy = |number| self.tables.is_busy(number);
        let mut forgotten = executables.forget_excess(is_busy);
        if let Some(before) = unused_before {
            forgotten.extend(executables.forget(before, is_busy));
        }
        for executable in &forgotten {
            self.tables.forget(executable.number);
        }
        let tables: Vec<_> = forgotten.iter().map(|it| it.table).collect();
        if forgotten.is_empty() && self.unloaded > 0 && !self.is_unloading {
            self.unload(bpf.table_loader(), Vec::new());
        }
        self.set_states(bpf, &tables, TableState::ABSENT)
    }

    /// Marks tables as absent, with the reason as `state`, and gives back what they took.
    fn set_states(&mut self, bpf: &mut Bpf, tables: &[u32], state: TableState) -> Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        bpf.set_table_states(tables, state)?;
        if state == TableState::ABSENT {
            self.unload(bpf.table_loader(), tables.to_vec());
        }
        Ok(())
    }

    /// Gives back what tables took, after those that are being loaded, which may be the same.
    fn unload(&mut self, loader: TableLoader, tables: Vec<u32>) {
        self.is_unloading = true;
        let subject = Subject::new("unloaded tables", "the unloading of unwind tables");
        let unload = move || loader.unload(&tables);
        let pending = self
            .workers
            .submit(Lane::Loads, subject, LOAD_LIMIT, unload);
        self.jobs
            .spawn(async move { TableJob::Unloaded(pending.result().await) });
    }

    fn compile(&mut self, job: CompileJob) {
        let subject = job.subject().clone();
        let wanted = job.is_wanted().then(|| subject.clone());
        let without_result = job.without_result();
        let run = move || job.run();
        let pending = self
            .workers
            .submit(Lane::Tables, subject, COMPILATION_LIMIT, run);
        if let Some(subject) = wanted {
            self.workers.hasten(Lane::Tables, &subject);
        }
        self.jobs.spawn(async move {
            let compilation = pending.result().await;
            TableJob::Compiled(compilation.unwrap_or(without_result))
        });
    }

    /// Loads the compiled tables into a map of their own, which waits for readers of the maps.
    fn load(&mut self, loader: TableLoader) {
        self.is_loading = true;
        let tables = mem::take(&mut self.compiled);
        let numbers = tables.iter().map(|table| table.executable).collect();
        let subject = Subject::new("unwind tables", "the loading of unwind tables");
        let load = move || {
            let tables: Vec<_> = tables
                .iter()
                .map(|new| NewTable {
                    index: new.index,
                    base: new.table.base,
                    pages: new.table.pages,
                    words: &new.table.words,
                })
                .collect();
            loader.load(&tables)
        };
        let pending = self.workers.submit(Lane::Loads, subject, LOAD_LIMIT, load);
        self.jobs
            .spawn(async move { TableJob::Loaded(numbers, pending.result().await) });
    }
}

/// Puts loaded tables to use.
fn publish(bpf: &mut Bpf, loaded: Result<Result<LoadedTables, bpf::Error>, Failure>) -> Result<()> {
    Ok(bpf.use_tables(&loaded??)?)
}
