//! Comparison of walks with gdb's stacks.

use std::collections::{BTreeMap, HashSet};

use agent::testing::process::Process;
use agent_common::{layout::RunStyle, native::PythonFrames, python::PythonRuns};
use test_support::{
    agreement::{Agreement, common, show},
    debugger::Stop,
    unwinder::Unwinder,
};

/// One of how many stacks may be one that gdb can only guess at, and one that it gets lost in.
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
    /// One for each place that was not left in the same way.
    differences: BTreeMap<String, String>,
    different: usize,
    guessed: usize,
    lost: usize,
}

impl Comparison {
    /// Compares the stacks of all threads of a program that stands still.
    pub(super) fn compare(&mut self, name: &str, stop: &Stop) {
        let process = Process::open(stop.pid).unwrap();
        let mappings = self.unwinder.look(&process);
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
            let places = unwound.frames.iter().map(|frame| &frame.place);
            self.stacks.insert(
                places
                    .map(|place| (place.file_or_pid, place.address))
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
            let place = parting.map(|last| &unwound.frames[last].place);
            let place = place.map_or(String::new(), |place| self.unwinder.show(place));
            let shown = show(&self.unwinder, thread, &unwound);
            self.differences
                .entry(place)
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
        for (place, difference) in self.differences.iter().take(MOST_PRINTED) {
            println!("{place}: {difference}");
        }
        assert_eq!(self.different, 0);
        let most = self.compared / MOST_EXCEPTIONS;
        assert!(self.guessed < most && self.lost < most);
    }
}
