//! Comparison of walks with the stacks of gdb.

use std::collections::{BTreeMap, HashSet};

use agent::testing::process::Process;
use agent_common::{layout::RunStyle, native::PythonFrames, python::PythonRuns};
use test_support::{
    agreement::{Agreement, common, show},
    debugger::Stop,
    unwinder::Unwinder,
};

/// At most one in this many stacks may be guessed by gdb, and at most one in this many lost by it.
const MOST_EXCEPTIONS: usize = 20;

/// Most differences that are printed.
const MOST_PRINTED: usize = 20;

/// Walks that were compared.
#[derive(Default)]
pub(super) struct Comparison {
    unwinder: Unwinder,
    /// The files and the addresses in them of the stacks, each once.
    stacks: HashSet<Vec<(u32, u64)>>,
    compared: usize,
    frames: usize,
    /// One difference for each location whose caller differs.
    differences: BTreeMap<String, String>,
    different: usize,
    guessed: usize,
    lost: usize,
}

impl Comparison {
    /// Compares the stacks of all threads of a stopped program.
    pub(super) fn compare(&mut self, name: &str, stop: &Stop) {
        let process = Process::open(stop.pid).unwrap();
        let mappings = self.unwinder.read_mappings(&process);
        let runs = PythonRuns::new();
        for thread in &stop.threads {
            let python = PythonFrames {
                runs: &runs,
                depth: 0,
                style: RunStyle::EACH,
            };
            let (pc, registers) = (thread.pc, &thread.registers);
            let unwound = self
                .unwinder
                .walk(&process, &mappings, pc, registers, python);
            self.compared += 1;
            self.frames += thread.frames.len();
            let locations = unwound.frames.iter().map(|frame| &frame.place);
            self.stacks.insert(
                locations
                    .map(|location| (location.file_or_pid, location.address))
                    .collect(),
            );
            match Agreement::of(&self.unwinder, &mappings, thread, &unwound) {
                Agreement::Same => continue,
                Agreement::Lost => {
                    self.lost += 1;
                    continue;
                }
                Agreement::Guessed => {
                    self.guessed += 1;
                    continue;
                }
                Agreement::Different => {}
            }
            self.different += 1;
            let parting = common(thread, &unwound).checked_sub(1);
            let location = parting.map(|last| &unwound.frames[last].place);
            let location = location.map_or(String::new(), |location| self.unwinder.show(location));
            let shown = show(&self.unwinder, thread, &unwound);
            self.differences
                .entry(location)
                .or_insert_with(|| format!("{name}: {shown}"));
        }
    }

    /// Prints what was compared, and fails if there are differences.
    pub(super) fn finish(self, name: &str) {
        println!(
            "{name}: {} stacks ({} distinct), {} frames; {} guessed, {} lost, {} different",
            self.compared,
            self.stacks.len(),
            self.frames,
            self.guessed,
            self.lost,
            self.different
        );
        for (location, difference) in self.differences.iter().take(MOST_PRINTED) {
            println!("{location}: {difference}");
        }
        assert_eq!(self.different, 0);
        let most = self.compared / MOST_EXCEPTIONS;
        assert!(self.guessed < most && self.lost < most);
    }
}
