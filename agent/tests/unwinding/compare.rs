//! In what a walk differs from what gdb sees.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
};

use agent::process::Process;
use agent_common::{
    layout::RunStyle, limits::MAX_NATIVE_FRAMES, native::Python, record::NativeEnd, runs::Runs,
};

use crate::{
    debugger::{Stop, Thread},
    unwinder::{Unwinder, Unwound},
};

/// gdb's word for a stack that is whole.
const OUTERMOST: &str = "outermost";

/// One of how many stacks may be one that gdb can only guess at, and one that it gets lost in.
const MOST_EXCEPTIONS: usize = 20;

/// Most differences that are told.
const MOST_TOLD: usize = 20;

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
        let runs = Runs::new();
        for thread in &stop.threads {
            let python = Python {
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
            self.stacks
                .insert(places.map(|place| (place.of, place.address)).collect());
            if is_same(thread, &unwound) {
                continue;
            }
            let is_code = |address| {
                let mut ranges = mappings.iter().map(|mapping| mapping.start..mapping.end);
                ranges.any(|range| range.contains(&address))
            };
            if !thread.frames.iter().all(|frame| is_code(frame.address)) {
                // gdb takes for return addresses what is none, where there are others for a while:
                // when the C++ runtime has put those of a landing pad on the stack already.
                self.lost += 1;
                continue;
            }
            let parting = common(thread, &unwound).checked_sub(1);
            let parting = parting.map(|last| &unwound.frames[last].place);
            if parting.is_some_and(|place| !self.unwinder.is_described(place)) {
                // gdb guesses from the instructions, the walk from the frame pointer.
                self.guessed += 1;
                continue;
            }
            self.different += 1;
            let place = parting.map_or(String::new(), |place| self.unwinder.show(place));
            let shown = self.show(thread, &unwound);
            self.differences
                .entry(place)
                .or_insert_with(|| format!("{name}: {shown}"));
        }
    }

    /// Tells what was compared, and fails if there are differences.
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
        for (place, difference) in self.differences.iter().take(MOST_TOLD) {
            println!("{place}: {difference}");
        }
        assert_eq!(self.different, 0);
        let most = self.compared / MOST_EXCEPTIONS;
        assert!(self.guessed < most && self.lost < most);
    }

    fn show(&self, thread: &Thread, unwound: &Unwound) -> String {
        let mut text = format!("thread {} is\n", thread.tid);
        let lines = thread.frames.len().max(unwound.frames.len());
        for nth in 0..lines {
            let (mut left, mut right, mut name) = (String::new(), String::new(), "");
            if let Some(frame) = thread.frames.get(nth) {
                left = format!("{:x}", frame.address);
                name = &frame.name;
            }
            if let Some(frame) = unwound.frames.get(nth) {
                let shown = self.unwinder.show(&frame.place);
                right = format!("{:x} {shown} {:?}", frame.address, frame.place.rule);
            }
            let mark = if left.is_empty() || !right.starts_with(&left) {
                '!'
            } else {
                ' '
            };
            writeln!(text, "  {mark} {left:12} {name:30} {right}").unwrap();
        }
        let (end, last) = (unwound.end.0, &thread.end);
        write!(text, "    {last}; {end}").unwrap();
        text
    }
}

/// How many of their first frames are the same.
fn common(thread: &Thread, unwound: &Unwound) -> usize {
    let pairs = thread.frames.iter().zip(&unwound.frames);
    pairs
        .take_while(|(frame, walked)| frame.address == walked.address)
        .count()
}

/// Whether a walk came to the frames that gdb sees, and to the same end.
fn is_same(thread: &Thread, unwound: &Unwound) -> bool {
    let common = common(thread, unwound);
    if thread.frames.len() > MAX_NATIVE_FRAMES {
        return unwound.end == NativeEnd::TOO_DEEP && common >= MAX_NATIVE_FRAMES;
    }
    let is_whole = unwound.end == NativeEnd::ENTRY;
    common == thread.frames.len()
        && common == unwound.frames.len()
        && is_whole == (thread.end == OUTERMOST)
}
