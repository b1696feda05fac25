//! Names of JIT code: from the perf map of its process, or else from what its compilers register.
//!
//! Both end with the process, so they are read while it runs: soon after a stack has an address without a name. A perf
//! map that was open by then is read once more after that. When a profile is built, what is still missing is read once
//! more.
//!
//! Invariants: only workers read; a process is read by one of them at a time; the pauses between reads that no profile
//! waits for are many times as long as a read takes, and double while reads find nothing; at most [`MAX_OPEN`] maps stay
//! open.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use super::{
    haste::Haste,
    jit_interface::JitInterface,
    perf_map::{PerfMap, PerfMapMiss},
    this_machine::on_this_machine,
};
use crate::{
    process::Process,
    workers::{Failure, Lane, Pending, Subject, Workers},
};

/// Time for reading the names of a process.
const LIMIT: Duration = Duration::from_secs(5);

/// Shortest pause between two reads of a process.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause while reads find nothing.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A pause, in times of what the read before has taken.
const PAUSE_FACTOR: u32 = 50;

/// Most perf maps that stay open.
const MAX_OPEN: usize = 256;

/// Most addresses of a process that wait for a name; the oldest one makes room.
const MAX_MISSING: usize = 64;

/// Names of JIT code, by process.
pub(super) struct JitSymbolizer {
    processes: HashMap<u32, JitProcess>,
    /// Processes that were read since the last call of [`Self::begin_window`], because a profile lacked names.
    refreshed: HashSet<u32>,
    /// Reads that did not end in their time.
    given_up: u64,
    /// Most perf maps that stay open.
    max_open: usize,
    workers: Workers,
    haste: Haste,
}

/// What is known of a process.
#[derive(Default)]
struct JitProcess {
    /// Empty while they are being read.
    names: JitNames,
    reading: Option<Pending<Reading>>,
    /// Addresses that had no name when they were noted.
    missing: VecDeque<u64>,
    /// When they may be read; [`None`] for at once.
    due: Option<Instant>,
    pause: Duration,
}

/// Both kinds of names.
#[derive(Debug, Default)]
struct JitNames {
    perf_map: PerfMap,
    interface: JitInterface,
}

/// The result of a read.
struct Reading {
    names: JitNames,
    took: Duration,
    has_ended: bool,
}

impl JitSymbolizer {
    /// Has names read by `workers`.
    pub(super) fn new(workers: Workers, haste: Haste) -> Self {
        Self {
            processes: HashMap::new(),
            refreshed: HashSet::new(),
            given_up: 0,
            max_open: MAX_OPEN,
            workers,
            haste,
        }
    }

    /// Reads that did not end in their time.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Evicts the names of processes that have ended.
    pub(super) fn remove_processes(&mut self, ended: &[u32]) {
        for pid in ended {
            self.processes.remove(pid);
        }
    }

    /// Begins a profile, for which each process may be read again.
    pub(super) fn begin_window(&mut self) {
        self.refreshed.clear();
    }

    /// Notes that a stack has an address in the JIT code of a process.
    pub(super) fn note(&mut self, pid: u32, address: u64) {
        let process = self.processes.entry(pid).or_default();
        if process.names.find(address).is_ok() || process.missing.contains(&address) {
            return;
        }
        if process.missing.len() == MAX_MISSING {
            process.missing.pop_front();
        }
        process.missing.push_back(address);
    }

    /// Takes over what was read, and has what is missing read; waits for nothing.
    pub(super) fn advance(&mut self, now: Instant) {
        let mut open = self.open_maps();
        for (pid, process) in &mut self.processes {
            if let Some(reading) = &mut process.reading {
                let Some(result) = reading.wait_while(|| false) else {
                    continue;
                };
                self.given_up += u64::from(result.is_err());
                process.accept(result, now);
                open += usize::from(process.names.perf_map.is_open());
                if open > self.max_open {
                    process.names.perf_map.close();
                    open -= 1;
                }
            }
            let is_due = process.due.is_none_or(|due| due <= now);
            if is_due && !process.missing.is_empty() {
                process.read(&self.workers, *pid);
            }
        }
    }

    /// The function at an address; what is missing is read, and waited for, once per window: a map may be large, and its
    /// last line always new.
    pub(super) fn symbolize(&mut self, pid: u32, address: u64) -> Result<String, PerfMapMiss> {
        self.finish(pid);
        let process = self.processes.entry(pid).or_default();
        let function = process.names.find(address);
        if function.is_ok() || !self.refreshed.insert(pid) {
            return function;
        }
        self.note(pid, address);
        let process = self.processes.entry(pid).or_default();
        process.read(&self.workers, pid);
        self.finish(pid);
        self.processes.entry(pid).or_default().names.find(address)
    }

    /// Waits for a read of a process if there is one, and takes it over.
    fn finish(&mut self, pid: u32) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        let Some(reading) = &mut process.reading else {
            return;
        };
        let result = reading.wait_while(|| !self.haste.is_over());
        // A profile that is wanted at once goes without its result.
        self.given_up += u64::from(!matches!(result, Some(Ok(_))));
        if let Some(result) = result {
            process.accept(result, Instant::now());
        } else {
            process.reading = None;
        }
        if self.open_maps() > self.max_open
            && let Some(process) = self.processes.get_mut(&pid)
        {
            process.names.perf_map.close();
        }
    }

    fn open_maps(&self) -> usize {
        let processes = self.processes.values();
        processes
            .filter(|process| process.names.perf_map.is_open())
            .count()
    }
}

impl JitProcess {
    /// Has the names read that are missing.
    fn read(&mut self, workers: &Workers, pid: u32) {
        let subject = Subject::perf_map(pid);
        let mut names = std::mem::take(&mut self.names);
        let missing = self.missing.clone();
        let run = move || {
            let began = Instant::now();
            let has_ended = !names.refresh(pid, &missing);
            Reading {
                names,
                took: began.elapsed(),
                has_ended,
            }
        };
        self.reading = Some(workers.submit(Lane::Symbols, subject, LIMIT, on_this_machine(run)));
    }

    /// Takes over the result of a read.
    fn accept(&mut self, result: Result<Reading, Failure>, now: Instant) {
        self.reading = None;
        let took = result.as_ref().map_or(LIMIT, |reading| reading.took);
        let has_ended = result.as_ref().is_ok_and(|reading| reading.has_ended);
        self.names = result.map(|reading| reading.names).unwrap_or_default();
        let before = self.missing.len();
        self.missing
            .retain(|address| self.names.find(*address).is_err());
        self.pause = if self.missing.len() < before {
            SHORTEST_PAUSE
        } else {
            (2 * self.pause).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
        };
        self.due = Some(now + self.pause.max(took * PAUSE_FACTOR));
        if has_ended {
            self.missing.clear();
        }
    }
}

impl JitNames {
    /// The function at an address, by what was read already.
    fn find(&self, address: u64) -> Result<String, PerfMapMiss> {
        let function = self.perf_map.find(address);
        function.or_else(|reason| self.interface.find(address).ok_or(reason))
    }

    /// Reads what was added, so that the addresses have names; returns whether the process still runs.
    fn refresh(&mut self, pid: u32, missing: &VecDeque<u64>) -> bool {
        let Ok(process) = Process::open(pid) else {
            self.perf_map.refresh_ended();
            return false;
        };
        self.perf_map.refresh(&process);
        if missing.iter().any(|address| self.find(*address).is_err()) {
            self.interface.refresh(&process);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{JitSymbolizer, MAX_MISSING, SHORTEST_PAUSE};
    use crate::{
        process::Process,
        symbolize::{
            haste::Haste,
            perf_map::{PerfMap, PerfMapMiss},
        },
        workers::Workers,
    };
    use std::{
        fs::{self, OpenOptions},
        io::Write as _,
        path::PathBuf,
        process::{Child, Command},
        thread,
        time::{Duration, Instant},
    };

    fn symbolizer() -> JitSymbolizer {
        JitSymbolizer::new(Workers::default(), Haste::default())
    }

    /// A process with a perf map.
    fn process_with_map(text: &str) -> (Child, PathBuf) {
        let child = Command::new("sleep").arg("100").spawn().unwrap();
        let path = PerfMap::path(&Process::open(child.id()).unwrap());
        fs::write(&path, text).unwrap();
        (child, path)
    }

    fn end((mut child, path): (Child, PathBuf)) {
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_file(path).unwrap();
    }

    /// Advances until nothing is being read.
    fn read_ahead(jit: &mut JitSymbolizer, now: Instant) {
        jit.advance(now);
        while jit.processes.values().any(|it| it.reading.is_some()) {
            thread::sleep(Duration::from_millis(1));
            jit.advance(now);
        }
    }

    #[test]
    fn code_of_a_process_that_has_ended_has_its_names() {
        let process = process_with_map("1000 10 one\n");
        let pid = process.0.id();
        let mut jit = symbolizer();
        jit.note(pid, 0x1000);
        read_ahead(&mut jit, Instant::now());
        let mut file = OpenOptions::new().append(true).open(&process.1).unwrap();
        file.write_all(b"2000 10 two\n").unwrap();
        end(process);
        jit.begin_window();
        let names = [0x1000, 0x2000].map(|address| jit.symbolize(pid, address));
        assert_eq!(names, [Ok("one".to_owned()), Ok("two".to_owned())]);
        jit.remove_processes(&[pid]);
        jit.begin_window();
        assert_eq!(jit.symbolize(pid, 0x1000), Err(PerfMapMiss::NoMap));
    }

    #[test]
    fn pauses_grow_while_nothing_is_found() {
        let process = process_with_map("1000 10 one\n");
        let pid = process.0.id();
        let mut jit = symbolizer();
        let start = Instant::now();
        let mut at = start;
        let mut pauses = Vec::new();
        for _ in 0..4 {
            jit.note(pid, 0x9000);
            // It is too early for another read.
            let early = at.checked_sub(Duration::from_millis(1)).unwrap();
            if at > start {
                jit.advance(early);
                assert!(jit.processes[&pid].reading.is_none());
            }
            read_ahead(&mut jit, at);
            let due = jit.processes[&pid].due.unwrap();
            pauses.push(jit.processes[&pid].pause);
            at = due;
        }
        assert_eq!(pauses, [1, 2, 4, 8].map(|times| times * SHORTEST_PAUSE));
        jit.note(pid, 0x1000);
        assert_eq!(
            jit.processes[&pid].missing,
            [0x9000],
            "the other one has a name"
        );
        for address in 0..1000 {
            jit.note(pid, 0x8000 + address);
        }
        assert_eq!(jit.processes[&pid].missing.len(), MAX_MISSING);
        end(process);
    }

    #[test]
    fn few_maps_stay_open() {
        let processes = [(); 3].map(|()| process_with_map("1000 10 one\n"));
        let mut jit = symbolizer();
        jit.max_open = 2;
        for (child, _) in &processes {
            jit.note(child.id(), 0x1000);
        }
        read_ahead(&mut jit, Instant::now());
        assert_eq!(jit.open_maps(), 2);
        for (child, path) in processes {
            assert_eq!(jit.symbolize(child.id(), 0x1000), Ok("one".to_owned()));
            end((child, path));
        }
    }
}
