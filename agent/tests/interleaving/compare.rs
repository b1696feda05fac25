//! Programs whose threads block below C code and Python code that call each other.

use std::collections::{BTreeMap, HashSet};

use agent::testing::{
    process::Process,
    python::{Detector, Interpreter as Python, remote},
};
use agent_common::{
    layout::RunStyle,
    maps::Mapping,
    native::{CodeLocation, PythonFrames},
    python::PythonRuns,
    record::NativeUnwindStatus,
};
use test_support::{
    agreement::{Agreement, common, show},
    debugger::{Debugger, Thread},
    scenarios::Scenarios,
    unwinder::{Unwinder, Unwound},
};
use xtask::interpreters::{self, Interpreter};

use super::stack::{Names, Stack};

/// The program of the interpreters; its format is documented there.
const PROGRAM: &str = include_str!("../data/interleaving.py");

/// At most one in this many stacks may have loops that are missing in the stack of gdb.
const MOST_EXCEPTIONS: usize = 20;

/// Least number of threads, including the main thread.
const LEAST_THREADS: usize = 30;

/// Most differences that are printed for an interpreter.
const MOST_TOLD: usize = 10;

#[test]
fn runs_of_python_frames_are_in_the_loops_of_gdb() {
    let (mut compared, mut lost, mut different) = (0, 0, 0);
    for interpreter in interpreters::few().unwrap() {
        let comparison = Comparison::of(&interpreter);
        comparison.print(&interpreter);
        assert!(comparison.compared >= LEAST_THREADS, "{interpreter}");
        compared += comparison.compared;
        lost += comparison.lost;
        different += comparison.differences.len();
    }
    assert_eq!(different, 0);
    assert!(lost < compared / MOST_EXCEPTIONS, "{lost} of {compared}");
}

/// Stacks of one program that were compared.
#[derive(Default)]
struct Comparison {
    unwinder: Unwinder,
    compared: usize,
    native_frames: usize,
    python_frames: usize,
    loops: usize,
    /// Those of them in files with all symbols.
    named_loops: usize,
    /// Stacks with loops that are missing in gdb, because its unwinding fails.
    lost: usize,
    /// Truncated stacks.
    truncated: usize,
    /// By scenario.
    differences: BTreeMap<String, String>,
    /// The functions of the frames of loops, and of the others.
    taken: HashSet<(u32, u64)>,
    native: HashSet<(u32, u64)>,
}

impl Comparison {
    /// Compares the stacks of all threads of an interpreter.
    fn of(interpreter: &Interpreter) -> Self {
        // The C library musl has no call-frame information.
        let argument = interpreter.name.ends_with("-musl").then_some("run");
        let scenarios = Scenarios::of(&interpreter.path, PROGRAM, argument);
        let process = scenarios.process();
        let python = Detector::default().detect(&process).unwrap();
        assert_eq!(python.version.to_string(), scenarios.version);
        let read = || remote::threads(&process, &python).unwrap();
        let (_, differences) = scenarios.settle(read);
        assert!(differences.is_empty(), "{interpreter}: {differences:#?}");

        let (_debugger, stop) = Debugger::attach(process.pid());
        let (stacks, differences) = scenarios.settle(read);
        assert!(differences.is_empty(), "{interpreter}: {differences:#?}");
        assert_eq!(stop.threads.len(), stacks.len(), "{interpreter}");
        let mut comparison = Self::default();
        let mappings = comparison.unwinder.read_mappings(&process);
        for thread in &stop.threads {
            let is_it = |stack: &&remote::ThreadStack| stack.thread_id == thread.pthread;
            let stack = stacks.iter().find(is_it).unwrap();
            let unwound = comparison.walk(&process, &mappings, &python, thread, stack);
            let agreement = Agreement::of(&comparison.unwinder, &mappings, thread, &unwound);
            let differences = comparison.compare(&python, thread, &unwound, agreement, stack);
            if let Some(differences) = differences {
                let scenario = &scenarios.threads[&stack.thread_id].scenario;
                comparison.differ(scenario, differences);
            }
        }
        let of_both: Vec<_> = comparison.taken.intersection(&comparison.native).collect();
        if !of_both.is_empty() {
            let differences = format!("are of a loop in some frames but not in all: {of_both:x?}");
            comparison.differ("functions", differences);
        }
        comparison
    }

    /// Walks the native frames of a thread among those of Python.
    fn walk(
        &mut self,
        process: &Process,
        mappings: &[Mapping],
        python: &Python,
        thread: &Thread,
        stack: &remote::ThreadStack,
    ) -> Unwound {
        let number = |count| u32::try_from(count).unwrap();
        let mut runs = PythonRuns::new();
        for run in &stack.runs {
            runs.end(run.address.0, number(run.depth));
        }
        let python = PythonFrames {
            runs: &runs,
            depth: number(stack.frames.len()),
            style: python.layout.frame.run_style,
        };
        let (pc, registers) = (thread.pc, &thread.registers);
        self.unwinder.walk(process, mappings, pc, registers, python)
    }

    /// The differences of a walk from the stack of gdb, if any.
    fn compare(
        &mut self,
        python: &Python,
        thread: &Thread,
        unwound: &Unwound,
        agreement: Agreement,
        stack: &remote::ThreadStack,
    ) -> Option<String> {
        self.compared += 1;
        let names = Names::of(python.version);
        // There may be no frames after the common ones.
        let mut common = common(thread, unwound);
        let found: u32 = unwound.frames[..common]
            .iter()
            .filter_map(|frame| frame.runs)
            .sum();
        let has_loops_left = found as usize != stack.frames.len()
            || thread.frames[common..]
                .iter()
                .any(|frame| names.is_loop(&frame.name));
        if matches!(agreement, Agreement::Lost | Agreement::Guessed) && has_loops_left {
            self.lost += 1;
            return None;
        }
        let is_truncated = unwound.end == NativeUnwindStatus::TOO_DEEP;
        if is_truncated {
            // The last run did not fit.
            common = common.saturating_sub(1);
            self.truncated += 1;
        }
        let (reported, walked) = (&thread.frames[..common], &unwound.frames[..common]);
        let mut is_named = true;
        for frame in walked {
            is_named &= self.count(&frame.place, frame.runs.is_some());
        }
        self.native_frames += common;
        self.python_frames += stack.frames.len();
        let joined = Stack::join(reported, walked, stack, is_truncated);
        let runs_one = python.layout.frame.run_style == RunStyle::EACH;
        let mut faults = joined.faults(&names, runs_one, is_named);
        if agreement == Agreement::Different {
            faults.push("the native frames differ".to_owned());
        }
        (!faults.is_empty()).then(|| {
            let shown = show(&self.unwinder, thread, unwound);
            format!("{faults:#?}\n{joined}\n{shown}")
        })
    }

    /// Counts a native frame, of a loop or not. Returns `false` for a loop in a file without all
    /// symbols.
    fn count(&mut self, location: &CodeLocation, is_loop: bool) -> bool {
        let function = self.unwinder.function(location);
        let function = function.map(|function| (location.file_or_pid, function));
        if !is_loop {
            self.native.extend(function);
            return true;
        }
        let is_named = self.unwinder.is_named(location);
        self.loops += 1;
        self.named_loops += usize::from(is_named);
        self.taken.extend(function);
        is_named
    }

    fn differ(&mut self, what: &str, differences: String) {
        self.differences.insert(what.to_owned(), differences);
    }

    /// Prints what was compared.
    fn print(&self, interpreter: &Interpreter) {
        println!(
            "{interpreter}: {} stacks, {} native frames, {} Python frames in {} loops ({} with \
             names); {} lost, {} cut, {} different",
            self.compared,
            self.native_frames,
            self.python_frames,
            self.loops,
            self.named_loops,
            self.lost,
            self.truncated,
            self.differences.len()
        );
        for (what, difference) in self.differences.iter().take(MOST_TOLD) {
            println!("{what}: {difference}");
        }
    }
}
