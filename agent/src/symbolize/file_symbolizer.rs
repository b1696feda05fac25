//! Native frames in files → functions and lines.
//!
//! All addresses of a window are looked up together, file by file, first their names and then, as far
//! as the CPU time allows, inlined functions, files and lines; the results are cached across windows.
//! A job takes what it needs out of the symbolizer; what one finds that takes too long for a window is
//! in the profiles of later windows, and names do not wait for it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use agent_common::record::{NativeFrame, NativeKind};
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
        // What costs little is not to wait for what costs much.
        jobs.sort_by_key(cost);
        let mut running = Vec::new();
        let mut has_opened = false;
        for job in jobs {
            let cost = cost(&job);
            let allowance = self.allowance(cost);
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

    /// What a job may do; [`None`] where it is not to be done now.
    fn allowance(&mut self, cost: Cost) -> Option<Allowance> {
        if let Some(left) = self.haste.time_left() {
            return (!left.is_zero()).then_some(Allowance::Cpu(left));
        }
        let Some(accounts) = &mut self.accounts else {
            return Some(Allowance::Unlimited);
        };
        let left = accounts.of(cost).left(Instant::now());
        match cost {
            _ if left.is_zero() => None,
            Cost::LookUps => Some(Allowance::Cpu(left)),
            Cost::Opening => self.late.is_none().then_some(Allowance::LookUps(1)),
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

#[cfg(test)]
mod tests {
    use super::{Allowance, Cost, FileSymbolizer, addresses};
    use crate::{
        binaries::{elf::Elf, executables::Executables},
        process::Process,
        symbolize::{
            CpuShare, CpuShares, Haste,
            elf_symbols::{ElfSymbols, SymbolLimits},
        },
        workers::Workers,
    };
    use agent_common::record::{NativeFrame, NativeKind};
    use std::{fs::File, time::Duration};

    /// The executables of this process, and frames in functions of its program.
    fn own_frames() -> (Executables, [(u32, NativeFrame); 2]) {
        let process = Process::open(std::process::id()).unwrap();
        let executables = Executables::default();
        let mappings = executables.read_mappings(&process).unwrap().mappings;
        let functions: [fn(); 2] = [one, other];
        let frames = functions.map(|function| {
            let address = function as usize as u64;
            let mapping = mappings
                .iter()
                .find(|mapping| (mapping.start..mapping.end).contains(&address))
                .unwrap();
            let frame = NativeFrame {
                address: address.wrapping_sub(mapping.bias),
                id_or_count: mapping.executable,
                kind: NativeKind::FILE,
            };
            (process.pid(), frame)
        });
        (executables, frames)
    }

    #[inline(never)]
    fn one() {
        std::hint::black_box(1);
    }

    #[inline(never)]
    fn other() {
        std::hint::black_box(2);
    }

    fn symbolizer() -> FileSymbolizer {
        FileSymbolizer::new(16 << 20, Workers::default(), Haste::default())
    }

    const NONE: CpuShare = CpuShare {
        burst: Duration::ZERO,
        per_second: Duration::ZERO,
    };

    const ENOUGH: CpuShare = CpuShare {
        burst: Duration::from_secs(100),
        per_second: Duration::ZERO,
    };

    /// The name of each frame, and whether it has a line.
    fn found(
        symbolizer: &mut FileSymbolizer,
        executables: &Executables,
        frames: &[(u32, NativeFrame); 2],
    ) -> [Option<(String, bool)>; 2] {
        frames.map(|(_, frame)| {
            let result = symbolizer.find(executables, frame.id_or_count, frame.address)?;
            let function = result.functions.as_ref().unwrap().last().unwrap().clone();
            let name = function.name.rsplit("::").next().unwrap().to_owned();
            Some((name, function.line.is_some()))
        })
    }

    fn expected(has_line: bool) -> [Option<(String, bool)>; 2] {
        ["one", "other"].map(|name| Some((name.to_owned(), has_line)))
    }

    #[test]
    fn results_are_cached_across_windows() {
        let (executables, frames) = own_frames();
        let mut symbolizer = symbolizer();
        symbolizer.prepare(&executables, &frames);
        let totals = symbolizer.totals();
        assert_eq!((totals.addresses, totals.incomplete), (2, 0));
        for _ in 0..3 {
            // Not even the symbols of the file are needed.
            symbolizer.release_memory();
            symbolizer.prepare(&executables, &frames);
            assert_eq!(
                found(&mut symbolizer, &executables, &frames),
                expected(true)
            );
            assert_eq!(symbolizer.totals(), totals);
        }
    }

    #[test]
    fn names_come_first_and_lines_as_the_cpu_time_allows() {
        let (executables, frames) = own_frames();
        let mut symbolizer = symbolizer();
        let mut window = |opening, look_ups| {
            symbolizer.limit_cpu(CpuShares { opening, look_ups });
            symbolizer.prepare(&executables, &frames);
            let found = found(&mut symbolizer, &executables, &frames);
            (found, symbolizer.totals().incomplete)
        };
        assert_eq!(window(NONE, ENOUGH), (expected(false), 2), "it is not open");
        assert_eq!(window(NONE, NONE), (expected(false), 4));
        let ([one, other], incomplete) = window(ENOUGH, NONE);
        let lines = [one.unwrap().1, other.unwrap().1];
        assert_eq!((lines, incomplete), ([true, false], 5), "it is opened");
        assert_eq!(window(NONE, ENOUGH), (expected(true), 5));
    }

    #[test]
    fn a_window_has_what_was_found_when_the_time_is_over() {
        let (executables, frames) = own_frames();
        let mut symbolizer = symbolizer();
        let file = frames[0].1.id_or_count;
        let wanted = addresses(&frames).remove(&file).unwrap();
        let job = symbolizer.job(&executables, file, wanted).unwrap();
        let results = job.run(Allowance::LookUps(1));
        let complete = results.found.iter().filter(|(_, it)| it.is_complete);
        assert_eq!((results.found.len(), complete.count()), (2, 1));
        symbolizer.accept(file, Some(Cost::Opening), Ok(results));
        symbolizer.prepare(&executables, &frames);
        assert_eq!(
            found(&mut symbolizer, &executables, &frames),
            expected(true)
        );
    }

    #[test]
    fn debugging_information_that_is_unusable_is_not_read_again() {
        let (executables, frames) = own_frames();
        let mut symbolizer = symbolizer();
        let elf = Elf::read(File::open("/proc/self/exe").unwrap()).unwrap();
        let limits = SymbolLimits {
            debug_bytes_at_once: 1,
            ..SymbolLimits::default()
        };
        let mut symbols = ElfSymbols::load(elf, None, &limits);
        symbols.find(frames[0].1.address);
        let file = frames[0].1.id_or_count;
        symbolizer.symbols.insert(file, Box::new(symbols));
        symbolizer.release_memory();
        symbolizer.prepare(&executables, &frames);
        assert_eq!(
            found(&mut symbolizer, &executables, &frames),
            expected(false)
        );
        // Nothing is left to be looked up.
        assert_eq!(symbolizer.totals().incomplete, 0);
    }

    #[test]
    fn names_do_not_wait_for_a_job_that_takes_long() {
        let (executables, frames) = own_frames();
        let mut symbolizer = symbolizer();
        let file = frames[0].1.id_or_count;
        let (held, release) = std::sync::mpsc::channel::<()>();
        let first = addresses(&frames[..1]).remove(&file).unwrap();
        let job = symbolizer.job(&executables, file, first).unwrap();
        let subject = super::details_of(&job);
        let run = move || {
            release.recv().unwrap();
            job.run(Allowance::Unlimited)
        };
        let limit = super::OPENING_LIMIT;
        let lane = super::Lane::Symbols;
        symbolizer.late = Some(super::RunningJob {
            file,
            cost: Some(Cost::Opening),
            results: symbolizer.workers.submit(lane, subject, limit, run),
        });
        symbolizer.prepare(&executables, &frames);
        assert_eq!(
            found(&mut symbolizer, &executables, &frames),
            expected(false)
        );
        held.send(()).unwrap();
        let is_late = |symbolizer: &mut FileSymbolizer| {
            symbolizer.accept_late();
            symbolizer.late.is_some()
        };
        while is_late(&mut symbolizer) {
            std::thread::yield_now();
        }
        let [one, other] = found(&mut symbolizer, &executables, &frames);
        assert_eq!([one.unwrap().1, other.unwrap().1], [true, false]);
        symbolizer.prepare(&executables, &frames);
        assert_eq!(
            found(&mut symbolizer, &executables, &frames),
            expected(true)
        );
    }
}
