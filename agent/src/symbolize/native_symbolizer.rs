//! Native and kernel frames → functions and lines, from the symbols of files, the kernel's symbols
//! and the perf maps of processes.
//!
//! All addresses of a window are looked up together, one [`LookupJob`] for each file, and the results
//! are cached across windows. Jobs take what they need out of the symbolizer, so that it works
//! without the files of jobs that have not ended.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::record::{NativeFrame, NativeKind};

use super::{
    budget::{Allowance, CpuAccount, CpuShare},
    elf_symbols::{AddressLookup, SymbolCache},
    haste::Haste,
    kernel::{KallsymsError, KernelSymbols},
    lookup_job::{LookupJob, LookupResults, SymbolizedFile},
    native_results::ResultCache,
    perf_map::{PerfMap, PerfMapMiss},
    symbolized::{NativeFunction, SymbolizedNativeFrame},
};
#[cfg(feature = "testing")]
use crate::process::machine::{enter_machine, present_machine};
use crate::{
    binaries::executables::{Executable, Executables},
    process::Process,
    profile::{self, ExecutableKind, UnsymbolizedReason},
    workers::{Lane, Pending, Subject, Workers},
};

/// Time for the look-ups in one file.
const JOB_LIMIT: Duration = Duration::from_secs(20);

/// Time for reading a perf map.
const PERF_MAP_LIMIT: Duration = Duration::from_secs(5);

/// Symbolizes native and kernel frames; caches symbols and results across windows.
pub struct NativeSymbolizer {
    results: ResultCache,
    files: SymbolCache,
    /// Files of jobs that have not ended.
    in_jobs: HashSet<u32>,
    /// The file whose job was the first the last time: the budget is for the others first then.
    first_job: u32,
    /// [`None`] where CPU time is not limited.
    cpu: Option<CpuAccount>,
    totals: LookupTotals,
    /// [`None`] until the first kernel frame.
    kernel: Option<Result<KernelSymbols, KallsymsError>>,
    /// By process id.
    perf_maps: HashMap<u32, PerfMap>,
    /// Processes whose perf map was read since the last call of [`Self::prepare`].
    refreshed: HashSet<u32>,
    workers: Workers,
    haste: Haste,
}

/// Counts of look-ups in files since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupTotals {
    /// CPU time.
    pub cpu: Duration,
    /// Look-ups of addresses.
    pub addresses: u64,
    /// Look-ups that have only the name, because the CPU time was used up: inlined functions, files
    /// and lines are looked up when the address is sampled again.
    pub incomplete: u64,
    /// Files whose look-ups did not end in their time.
    pub given_up: u64,
}

impl NativeSymbolizer {
    /// Keeps about `symbol_bytes` bytes of the symbols of files, and of results. Files are read by
    /// `workers`.
    pub fn new(symbol_bytes: usize, workers: Workers) -> Self {
        let result_bytes = symbol_bytes / 4;
        Self {
            results: ResultCache::new(result_bytes),
            files: SymbolCache::new(symbol_bytes - result_bytes),
            in_jobs: HashSet::new(),
            first_job: 0,
            cpu: None,
            totals: LookupTotals::default(),
            kernel: None,
            perf_maps: HashMap::new(),
            refreshed: HashSet::new(),
            workers,
            haste: Haste::default(),
        }
    }

    /// Limits the CPU time of look-ups from now on. Names do not count; what is left out is looked up
    /// later.
    pub fn limit_cpu(&mut self, share: CpuShare) {
        self.cpu = Some(CpuAccount::new(share, Instant::now()));
    }

    /// What the next job may do.
    pub fn allowance(&mut self) -> Allowance {
        if let Some(left) = self.haste.time_left() {
            return Allowance::Cpu(left);
        }
        match &mut self.cpu {
            Some(account) => Allowance::Cpu(account.left(Instant::now())),
            None => Allowance::Unlimited,
        }
    }

    /// Whether a profile is wanted at once, from any thread.
    #[must_use]
    pub fn haste(&self) -> Haste {
        self.haste.clone()
    }

    /// Counts of look-ups.
    #[must_use]
    pub fn totals(&self) -> LookupTotals {
        self.totals
    }

    /// Evicts the perf maps of processes that have ended.
    pub fn remove_processes(&mut self, ended: &[u32]) {
        for pid in ended {
            self.perf_maps.remove(pid);
        }
    }

    /// Drops the symbols of files, which can be read again, and keeps the results.
    pub fn release_memory(&mut self) {
        self.files.clear();
    }

    /// Looks up frames, each with the id of a process that has it, so that [`Self::symbolize`] finds
    /// their results in the cache.
    ///
    /// Files are read by workers; one that takes too long is in quarantine, and has no symbols until it
    /// is tried again.
    pub fn prepare(&mut self, executables: &Executables, frames: &[(u32, NativeFrame)]) {
        self.refreshed.clear();
        self.look_up(executables, frames);
    }

    fn look_up(&mut self, executables: &Executables, frames: &[(u32, NativeFrame)]) {
        let mut pending = Vec::new();
        for job in self.jobs(executables, frames) {
            let allowance = self.allowance();
            let is_limited = matches!(allowance, Allowance::Cpu(_));
            pending.push(self.submit(job, allowance));
            if is_limited {
                // What the next may take depends on what this one has taken.
                self.accept_all(&mut pending);
            }
        }
        self.accept_all(&mut pending);
    }

    fn submit(&self, job: LookupJob, allowance: Allowance) -> (u32, Pending<LookupResults>) {
        let file = job.executable();
        let subject = Subject::new(("symbols", file), job.name());
        let run = on_this_machine(move || job.run(allowance));
        (
            file,
            self.workers.submit(Lane::Symbols, subject, JOB_LIMIT, run),
        )
    }

    fn accept_all(&mut self, pending: &mut Vec<(u32, Pending<LookupResults>)>) {
        for (file, pending) in pending.drain(..) {
            match pending.wait_while(|| !self.haste.is_over()) {
                Ok(results) => self.accept(results),
                Err(_) => self.give_up(file),
            }
        }
    }

    /// Goes on without the file of a job that has no result.
    fn give_up(&mut self, file: u32) {
        self.in_jobs.remove(&file);
        self.totals.given_up += 1;
    }

    /// One job for each file with frames that have no complete result yet, each time another one
    /// first. A job is to be run on any thread with what [`Self::allowance`] then returns, and
    /// [`Self::accept`]ed: until then, its file has no further job.
    pub fn jobs(
        &mut self,
        executables: &Executables,
        frames: &[(u32, NativeFrame)],
    ) -> Vec<LookupJob> {
        let mut files = BTreeMap::<u32, Vec<u64>>::new();
        for (_, frame) in frames {
            let file = frame.id_or_count;
            if frame.kind == NativeKind::FILE
                && !self.in_jobs.contains(&file)
                && !self.results.is_complete((file, frame.address))
            {
                files.entry(file).or_default().push(frame.address);
            }
        }
        let jobs = files.into_iter().filter_map(|(file, mut addresses)| {
            let executable = executables.get(file)?;
            addresses.sort_unstable();
            addresses.dedup();
            Some(LookupJob {
                executable: file,
                symbols: self.files.take(file),
                file: SymbolizedFile::new(&executable),
                addresses,
            })
        });
        let mut jobs: Vec<_> = jobs.collect();
        self.in_jobs.extend(jobs.iter().map(LookupJob::executable));
        let next = jobs.partition_point(|job| job.executable <= self.first_job);
        jobs.rotate_left(next);
        self.first_job = jobs.first().map_or(0, LookupJob::executable);
        jobs
    }

    /// Takes the results of a job.
    pub fn accept(&mut self, results: LookupResults) {
        self.in_jobs.remove(&results.executable);
        if let Some(account) = &mut self.cpu {
            account.spend(results.used);
        }
        self.totals.cpu += results.used;
        self.totals.addresses += results.found.len() as u64;
        let is_incomplete = |(_, found): &&(u64, AddressLookup)| !found.is_complete;
        self.totals.incomplete += results.found.iter().filter(is_incomplete).count() as u64;
        for (address, found) in results.found {
            self.results.insert((results.executable, address), found);
        }
        self.files.insert(results.executable, results.symbols);
    }

    /// [`None`] for a file that `executables` lacks, and for a frame that is not native.
    pub(super) fn symbolize(
        &mut self,
        executables: &Executables,
        frame: &NativeFrame,
    ) -> Option<SymbolizedNativeFrame> {
        match frame.kind {
            NativeKind::KERNEL => Some(self.kernel(frame.address)),
            NativeKind::FILE => {
                let executable = executables.get(frame.id_or_count)?;
                Some(self.file(executables, &executable, frame))
            }
            NativeKind::ANONYMOUS => Some(self.anonymous(frame.id_or_count, frame.address)),
            _ => None,
        }
    }

    fn kernel(&mut self, address: u64) -> SymbolizedNativeFrame {
        let symbols = &*self.kernel.get_or_insert_with(KernelSymbols::read);
        let function = match symbols {
            Ok(symbols) => symbols.find(address).ok_or(UnsymbolizedReason::NoSymbol),
            Err(KallsymsError::AddressesHidden) => Err(UnsymbolizedReason::KptrRestricted),
            Err(_) => Err(UnsymbolizedReason::KallsymsUnreadable),
        };
        let module = function.as_ref().ok().and_then(|function| function.module);
        let build_id = symbols.as_ref().ok().and_then(KernelSymbols::build_id);
        let executable = profile::Executable {
            path: PathBuf::from(module.unwrap_or_default()),
            build_id: match module {
                Some(_) => None,
                None => build_id.map(str::to_owned),
            },
            kind: match module {
                Some(_) => ExecutableKind::KernelModule,
                None => ExecutableKind::Kernel,
            },
            start: 0,
            limit: 0,
            file_offset: 0,
        };
        SymbolizedNativeFrame {
            executable,
            address,
            functions: function.map(|function| without_line(&function.name)),
        }
    }

    fn file(
        &mut self,
        executables: &Executables,
        executable: &Executable,
        frame: &NativeFrame,
    ) -> SymbolizedNativeFrame {
        let address = (executable.number(), frame.address);
        if self.results.get(address).is_none() && !self.haste.is_over() {
            // It was evicted since all frames were prepared.
            self.look_up(executables, &[(0, *frame)]);
        }
        let result = self.results.get(address);
        SymbolizedNativeFrame {
            executable: model_executable(executable),
            address: frame.address,
            functions: result.map_or(Err(UnsymbolizedReason::Unreadable), |result| {
                result.functions.clone()
            }),
        }
    }

    /// Reads what was added to the perf map of a process.
    fn refresh(&mut self, pid: u32) {
        let mut map = self.perf_maps.remove(&pid).unwrap_or_default();
        let subject = Subject::new(("perf map", pid), format!("the perf map of process {pid}"));
        let refresh = move || {
            // A process that has ended adds nothing to its map.
            if let Ok(process) = Process::open(pid) {
                map.refresh(&process);
            }
            map
        };
        let pending = self.workers.submit(
            Lane::Symbols,
            subject,
            PERF_MAP_LIMIT,
            on_this_machine(refresh),
        );
        if let Ok(map) = pending.wait_while(|| !self.haste.is_over()) {
            self.perf_maps.insert(pid, map);
        } else {
            self.totals.given_up += 1;
        }
    }

    fn anonymous(&mut self, pid: u32, address: u64) -> SymbolizedNativeFrame {
        let map = self.perf_maps.entry(pid).or_default();
        let function = map.find(address).or_else(|reason| {
            // Once per window: a map may be large, and its last line always new.
            if !self.refreshed.insert(pid) {
                return Err(reason);
            }
            self.refresh(pid);
            self.perf_maps.entry(pid).or_default().find(address)
        });
        SymbolizedNativeFrame {
            executable: profile::Executable {
                path: PathBuf::new(),
                build_id: None,
                kind: ExecutableKind::Anonymous,
                start: 0,
                limit: 0,
                file_offset: 0,
            },
            address,
            functions: function
                .map(|name| without_line(&name))
                .map_err(|reason| match reason {
                    PerfMapMiss::NoMap => UnsymbolizedReason::NoMap,
                    PerfMapMiss::NotInMap | PerfMapMiss::TooLarge => UnsymbolizedReason::NotInMap,
                }),
        }
    }
}

/// Work for another thread, which in golden tests reads the files of the same recorded machine.
fn on_this_machine<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    #[cfg(feature = "testing")]
    let machine = present_machine();
    move || {
        #[cfg(feature = "testing")]
        if let Some(machine) = &machine {
            enter_machine(machine);
        }
        work()
    }
}

/// A function with only its name.
fn without_line(name: &str) -> Arc<[NativeFunction]> {
    [NativeFunction {
        name: name.into(),
        file: None,
        line: None,
    }]
    .into()
}

/// The model's description of an executable.
fn model_executable(executable: &Executable) -> profile::Executable {
    let code = executable.segments().and_then(|segments| {
        let code = segments.code().next()?;
        let offset = segments.file_offset(code.start, 1)?;
        Some((code, offset))
    });
    let (code, file_offset) = code.unwrap_or((0..0, 0));
    profile::Executable {
        path: executable.path().to_owned(),
        build_id: executable.build_id().map(str::to_owned),
        kind: if executable.is_vdso() {
            ExecutableKind::Vdso
        } else {
            ExecutableKind::File
        },
        start: code.start,
        limit: code.end,
        file_offset,
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowance, NativeSymbolizer};
    use crate::{
        binaries::executables::Executables,
        process::Process,
        profile::UnsymbolizedReason,
        symbolize::symbolized::{SymbolizedNativeFrame, unsymbolized},
        workers::Workers,
    };
    use agent_common::record::{NativeFrame, NativeKind};

    fn is_send<T: Send>(_: &T) {}

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

    fn name(frame: &SymbolizedNativeFrame) -> &str {
        let functions = frame.functions.as_ref().unwrap();
        functions.last().unwrap().name.rsplit("::").next().unwrap()
    }

    #[test]
    fn results_are_cached_across_windows() {
        let (executables, frames) = own_frames();
        let mut symbolizer = NativeSymbolizer::new(16 << 20, Workers::default());
        is_send(&symbolizer);
        symbolizer.prepare(&executables, &frames);
        assert_eq!(symbolizer.totals().addresses, 2);
        for _ in 0..3 {
            assert!(symbolizer.jobs(&executables, &frames).is_empty());
            let mut symbolize = |index: usize| {
                symbolizer
                    .symbolize(&executables, &frames[index].1)
                    .unwrap()
            };
            assert_eq!([name(&symbolize(0)), name(&symbolize(1))], ["one", "other"]);
            // Not even the symbols of the file are needed.
            symbolizer.release_memory();
        }
        assert_eq!(symbolizer.totals().addresses, 2);
    }

    #[test]
    fn a_file_whose_job_has_not_ended_costs_only_its_own_frames() {
        let (executables, frames) = own_frames();
        let mut symbolizer = NativeSymbolizer::new(16 << 20, Workers::default());
        let mut jobs = symbolizer.jobs(&executables, &frames);
        assert_eq!(jobs.len(), 1);
        is_send(&jobs);
        assert!(symbolizer.jobs(&executables, &frames).is_empty());
        let found = symbolizer.symbolize(&executables, &frames[0].1).unwrap();
        assert_eq!(found.functions, Err(UnsymbolizedReason::Unreadable));
        assert_ne!(
            found.executable,
            unsymbolized(&frames[0].1, UnsymbolizedReason::Unreadable).executable
        );
        let results = jobs.remove(0).run(Allowance::Unlimited);
        is_send(&results);
        symbolizer.accept(results);
        let found = symbolizer.symbolize(&executables, &frames[0].1).unwrap();
        assert_eq!(name(&found), "one");
    }

    #[test]
    fn names_come_first_and_lines_as_the_budget_allows() {
        let (executables, frames) = own_frames();
        let mut symbolizer = NativeSymbolizer::new(16 << 20, Workers::default());
        let mut incomplete = Vec::new();
        // The second window completes one frame, the third the other.
        for (window, look_ups) in [0, 1, 1].into_iter().enumerate() {
            for job in symbolizer.jobs(&executables, &frames) {
                assert_eq!(job.addresses.len(), [2, 2, 1][window]);
                symbolizer.accept(job.run(Allowance::LookUps(look_ups)));
            }
            incomplete.push(symbolizer.totals().incomplete);
            let found = frames.each_ref().map(|(_, frame)| {
                let found = symbolizer.symbolize(&executables, frame).unwrap();
                let functions = found.functions.as_ref().unwrap();
                (name(&found).to_owned(), functions[0].line.is_some())
            });
            assert_eq!([&*found[0].0, &*found[1].0], ["one", "other"]);
            let lines = found.iter().filter(|(_, has_line)| *has_line).count();
            assert_eq!(lines, window);
        }
        assert_eq!(incomplete, [2, 3, 3]);
        assert!(symbolizer.jobs(&executables, &frames).is_empty());
    }
}
