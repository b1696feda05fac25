//! Native frames in files → functions and lines.
//!
//! All addresses of a window are looked up together, file by file, first their names and then, as far
//! as the CPU time allows, inlined functions, files and lines; the results are cached across windows.
//! A job takes what it needs out of the symbolizer; what one finds that takes too long for a window is
//! in the profiles of later windows, and names do not wait for it.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use agent_common::record::{NativeFrame, NativeKind};
use foldhash::HashMap;
use tracing::debug;

use super::{
    budget::{Allowance, CpuAccount, CpuShares},
    elf_symbols::SymbolCache,
    haste::Haste,
    lookup_job::{LookupJob, LookupResults, SymbolizedFile},
    native_results::{NativeResult, ResultCache},
    this_machine::on_this_machine,
};
use crate::{
    binaries::executables::Executables,
    workers::{Failure, Lane, Pending, Subject, Workers},
};

/// Time for the names in one file, and for all that a window waits for.
const NAMES_LIMIT: Duration = Duration::from_secs(20);

/// Time for the other look-ups in one file: where it has to be opened, debugging information is
/// decompressed onto a disk, which may be slow.
const DETAILS_LIMIT: Duration = Duration::from_secs(20);
const OPENING_LIMIT: Duration = Duration::from_secs(120);

/// How long a file that costs much to open waits until others have left enough CPU time for it.
const MOST_PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How long a window waits for what is not a name.
const DETAILS_WAIT: Duration = Duration::from_secs(5);

/// Symbolizes frames in files; caches symbols and results across windows.
pub(super) struct FileSymbolizer {
    results: ResultCache,
    symbols: SymbolCache,
    /// A job that windows no longer wait for.
    late: Option<RunningJob>,
    /// The file whose details were looked up first the last time: others are first then.
    first: u32,
    /// Since when files are to be opened, by their numbers.
    unopened: HashMap<u32, Instant>,
    /// What a look-up in a file has cost the last time, by the number of the file.
    look_up_times: HashMap<u32, Duration>,
    /// [`None`] where CPU time is not limited.
    accounts: Option<Accounts>,
    totals: LookupTotals,
    workers: Workers,
    haste: Haste,
}

/// What is left of the CPU time.
#[derive(Debug)]
struct Accounts {
    opening: CpuAccount,
    look_ups: CpuAccount,
}

/// Which of the two accounts a job spends from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cost {
    LookUps,
    Opening,
}

/// A job that was submitted.
struct RunningJob {
    file: u32,
    /// [`None`] for names, which are free.
    cost: Option<Cost>,
    results: Pending<LookupResults>,
}

/// Counts of look-ups in files since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupTotals {
    /// CPU time.
    pub cpu: Duration,
    /// Addresses that were looked up for the first time.
    pub addresses: u64,
    /// Addresses of which only the name was looked up so far, each time that they were sampled in a
    /// window: inlined functions, files and lines are looked up when there is CPU time for them.
    pub incomplete: u64,
    /// Files whose look-ups did not end in their time.
    pub given_up: u64,
}

impl FileSymbolizer {
    /// Keeps about `symbol_bytes` bytes of the symbols of files, and of results. Files are read by
    /// `workers`.
    pub(super) fn new(symbol_bytes: usize, workers: Workers, haste: Haste) -> Self {
        let result_bytes = symbol_bytes / 4;
        Self {
            results: ResultCache::new(result_bytes),
            symbols: SymbolCache::new(symbol_bytes - result_bytes),
            late: None,
            first: 0,
            unopened: HashMap::default(),
            look_up_times: HashMap::default(),
            accounts: None,
            totals: LookupTotals::default(),
            workers,
            haste,
        }
    }

    /// Limits the CPU time of look-ups from now on. Names do not count.
    pub(super) fn limit_cpu(&mut self, shares: CpuShares) {
        let now = Instant::now();
        self.accounts = Some(Accounts {
            opening: CpuAccount::new(shares.opening, now),
            look_ups: CpuAccount::new(shares.look_ups, now),
        });
    }

    /// Counts of look-ups.
    pub(super) fn totals(&self) -> LookupTotals {
        self.totals
    }

    /// Drops the symbols of files that `executables` has closed, and closes them too.
    pub(super) fn release_files(&mut self, executables: &Executables) {
        let is_kept = |file| {
            let executable = executables.get(file);
            executable.is_some_and(|executable| executable.bytes().is_some())
        };
        self.symbols.retain(is_kept);
        self.unopened.retain(|file, _| is_kept(*file));
        self.look_up_times.retain(|file, _| is_kept(*file));
    }

    /// Drops the symbols of files, which can be read again, and keeps the results.
    pub(super) fn release_memory(&mut self) {
        self.symbols.clear();
    }

    /// Looks up the frames of a window that are in files.
    pub(super) fn prepare(&mut self, executables: &Executables, frames: &[(u32, NativeFrame)]) {
        self.accept_late();
        let addresses = addresses(frames);
        self.look_up_names(executables, &addresses);
        let deadline = self
            .accounts
            .as_ref()
            .map(|_| Instant::now() + DETAILS_WAIT);
        if self.look_up_details(executables, &addresses, deadline) {
            self.look_up_details(executables, &addresses, deadline);
        }
        let all = addresses
            .iter()
            .flat_map(|(file, addresses)| addresses.iter().map(|address| (*file, *address)));
        let incomplete = all.filter(|address| !self.results.is_complete(*address));
        self.totals.incomplete += incomplete.count() as u64;
    }

    /// The result of an address of a file, if it has one.
    pub(super) fn find(
        &mut self,
        executables: &Executables,
        file: u32,
        address: u64,
    ) -> Option<&NativeResult> {
        if self.results.get((file, address)).is_none() && !self.haste.is_over() {
            // It was evicted since all frames were prepared.
            self.look_up_names(executables, &BTreeMap::from([(file, vec![address])]));
        }
        self.results.get((file, address))
    }

    /// Looks up the names of addresses that have no result yet.
    fn look_up_names(&mut self, executables: &Executables, addresses: &BTreeMap<u32, Vec<u64>>) {
        let mut running = Vec::new();
        for (file, addresses) in addresses {
            let is_new = |address: &u64| self.results.get((*file, *address)).is_none();
            let new: Vec<_> = addresses.iter().copied().filter(is_new).collect();
            if let Some(job) = self.job(executables, *file, new) {
                self.totals.addresses += job.addresses.len() as u64;
                running.push(self.submit(job, Allowance::Names, None));
            }
        }
        let deadline = Instant::now() + NAMES_LIMIT;
        for job in running {
            self.wait(job, Some(deadline));
        }
    }

    /// Looks up what is missing besides names, as far as the CPU time allows. Returns whether it has
    /// opened files for one look-up in each, and there may be CPU time for more of them.
    fn look_up_details(
        &mut self,
        executables: &Executables,
        addresses: &BTreeMap<u32, Vec<u64>>,
        deadline: Option<Instant>,
    ) -> bool {
        let mut jobs = Vec::new();
        let late = self.late.as_ref().map(|job| job.file);
        for (file, addresses) in addresses {
            if late == Some(*file) {
                continue;
            }
            let is_incomplete = |address: &u64| !self.results.is_complete((*file, *address));
            let incomplete: Vec<_> = addresses.iter().copied().filter(is_incomplete).collect();
            jobs.extend(self.job(executables, *file, incomplete));
        }
        let next = jobs.partition_point(|job| job.executable <= self.first);
        jobs.rotate_left(next);
        self.first = jobs.first().map_or(0, LookupJob::executable);
        self.sort_by_cost(&mut jobs);
        let mut running = Vec::new();
        let mut has_opened = false;
        for job in jobs {
            let cost = cost(&job);
            let allowance = self.allowance(&job, cost);
            match allowance.filter(|_| !self.workers.is_quarantined(&details_of(&job))) {
                Some(allowance) => {
                    has_opened |= allowance == Allowance::LookUps(1);
                    running.push(self.submit(job, allowance, Some(cost)));
                }
                None => self.put_back(job),
            }
            if deadline.is_some() {
                // What the next may take depends on what this one has taken.
                for job in running.drain(..) {
                    self.wait(job, deadline);
                }
            }
        }
        for job in running {
            self.wait(job, deadline);
        }
        has_opened
    }

    /// What costs little is not to wait for what costs much.
    fn sort_by_cost(&self, jobs: &mut [LookupJob]) {
        jobs.sort_by_cached_key(|job| {
            let opening = job.opening_time().unwrap_or(Duration::MAX);
            let each = self.look_up_times.get(&job.executable).copied();
            (cost(job), opening, each)
        });
    }

    /// What a job may do; [`None`] where it is not to be done now.
    fn allowance(&mut self, job: &LookupJob, cost: Cost) -> Option<Allowance> {
        if let Some(left) = self.haste.time_left() {
            return (!left.is_zero()).then_some(Allowance::Cpu(left));
        }
        let Some(accounts) = &mut self.accounts else {
            return Some(Allowance::Unlimited);
        };
        let now = Instant::now();
        accounts.earn(now);
        match cost {
            Cost::LookUps => {
                let left = accounts.look_ups.left();
                (!left.is_zero()).then_some(Allowance::Cpu(left))
            }
            Cost::Opening => {
                let since = *self.unopened.entry(job.executable).or_insert(now);
                let expected = match job.opening_time() {
                    // Others are opened again and again.
                    _ if now.duration_since(since) >= MOST_PATIENCE => Duration::ZERO,
                    expected => expected.unwrap_or_default(),
                };
                let may_open = self.late.is_none() && accounts.opening.affords(expected);
                may_open.then_some(Allowance::LookUps(1))
            }
        }
    }

    /// A job for addresses of a file, unless there are none.
    fn job(
        &mut self,
        executables: &Executables,
        file: u32,
        addresses: Vec<u64>,
    ) -> Option<LookupJob> {
        if addresses.is_empty() {
            return None;
        }
        let executable = executables.get(file)?;
        Some(LookupJob {
            executable: file,
            symbols: self.symbols.take(file),
            wants_debug_info: self.symbols.wants_debug_info(file),
            file: SymbolizedFile::new(&executable),
            addresses,
        })
    }

    fn put_back(&mut self, job: LookupJob) {
        if let Some(symbols) = job.symbols {
            self.symbols.insert(job.executable, symbols);
        }
    }

    fn submit(&self, job: LookupJob, allowance: Allowance, cost: Option<Cost>) -> RunningJob {
        let file = job.executable();
        let (subject, limit) = match cost {
            None => (Subject::new(("symbols", file), job.name()), NAMES_LIMIT),
            Some(Cost::LookUps) => (details_of(&job), DETAILS_LIMIT),
            Some(Cost::Opening) => (details_of(&job), OPENING_LIMIT),
        };
        let run = on_this_machine(move || job.run(allowance));
        RunningJob {
            file,
            cost,
            results: self.workers.submit(Lane::Symbols, subject, limit, run),
        }
    }

    /// Waits for the results of a job, until the deadline if there is one.
    fn wait(&mut self, mut job: RunningJob, deadline: Option<Instant>) {
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let is_wanted = || !self.haste.is_over() && !is_late();
        match job.results.wait_while(is_wanted) {
            Some(results) => self.accept(job.file, job.cost, results),
            None if self.late.is_none() && !self.haste.is_over() => self.late = Some(job),
            None => self.totals.given_up += 1,
        }
    }

    /// Takes the results of the job that no window waits for, if it has ended.
    fn accept_late(&mut self) {
        if let Some(mut job) = self.late.take() {
            match job.results.wait_while(|| false) {
                Some(results) => self.accept(job.file, job.cost, results),
                None => self.late = Some(job),
            }
        }
    }

    fn accept(&mut self, file: u32, cost: Option<Cost>, results: Result<LookupResults, Failure>) {
        let Ok(results) = results else {
            self.totals.given_up += 1;
            return;
        };
        if let (Some(cost), Some(accounts)) = (cost, &mut self.accounts) {
            accounts.of(cost).spend(results.used);
        }
        self.totals.cpu += results.used;
        if cost == Some(Cost::Opening) {
            self.unopened.remove(&file);
        } else if cost == Some(Cost::LookUps) {
            let complete = results.found.iter().filter(|(_, it)| it.is_complete);
            let count = u32::try_from(complete.count()).unwrap_or(u32::MAX);
            if let Some(each) = results.used.checked_div(count) {
                self.look_up_times.insert(file, each);
            }
        }
        debug!(
            "looked up {} addresses of file {file} in {:?} of CPU time (cost: {cost:?})",
            results.found.len(),
            results.used
        );
        for (address, found) in results.found {
            self.results.insert((file, address), found);
        }
        self.symbols.insert(file, results.symbols);
    }
}

impl Accounts {
    /// Adds what has been earned. What opening files does not need is for look-ups.
    fn earn(&mut self, now: Instant) {
        let surplus = self.opening.earn(now);
        self.look_ups.earn(now);
        self.look_ups.add(surplus);
    }

    fn of(&mut self, cost: Cost) -> &mut CpuAccount {
        match cost {
            Cost::LookUps => &mut self.look_ups,
            Cost::Opening => &mut self.opening,
        }
    }
}

/// What is in quarantine where looking up more than the names in a file takes too long.
fn details_of(job: &LookupJob) -> Subject {
    let name = format!("the debugging information of {}", job.name());
    Subject::new(("debugging information", job.executable()), name)
}

/// What looking up more than names costs.
fn cost(job: &LookupJob) -> Cost {
    match &job.symbols {
        Some(symbols) if symbols.is_open() => Cost::LookUps,
        _ => Cost::Opening,
    }
}

/// The addresses of frames by file, sorted.
fn addresses(frames: &[(u32, NativeFrame)]) -> BTreeMap<u32, Vec<u64>> {
    let mut files = BTreeMap::<u32, Vec<u64>>::new();
    for (_, frame) in frames {
        if frame.kind == NativeKind::FILE {
            let addresses = files.entry(frame.id_or_count).or_default();
            addresses.push(frame.address);
        }
    }
    for addresses in files.values_mut() {
        addresses.sort_unstable();
        addresses.dedup();
    }
    files
}
