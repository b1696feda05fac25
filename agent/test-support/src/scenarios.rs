//! Interpreters with blocked threads, and the stacks that they report; `scenarios.py` documents how.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io::{BufRead as _, BufReader},
    num::NonZeroU32,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use agent::testing::{process::Process, python::remote::ThreadStack};
use agent_common::{
    limits::{LEAF_FRAMES, MAX_FRAMES, ROOT_FRAMES},
    record::PythonUnwindStatus,
};

use crate::child;

/// How long stacks may differ: threads may still be in the last calls before they block.
const PATIENCE: Duration = Duration::from_secs(10);

/// An interpreter whose threads are all blocked.
pub struct Scenarios {
    child: Child,
    /// Its version.
    pub version: String,
    /// Its threads by identifier.
    pub threads: BTreeMap<u64, Thread>,
}

/// A thread as reported by its interpreter.
pub struct Thread {
    /// Its name, if it is a `threading.Thread` other than the first.
    pub name: Option<String>,
    /// The scenario of the thread.
    pub scenario: String,
    /// Its frames in the format of [`show`], leaf first.
    pub frames: Vec<String>,
}

impl Scenarios {
    /// Starts a program with these arguments, and waits until all of its threads are blocked.
    pub fn of<I: AsRef<OsStr>>(
        interpreter: &Path,
        program: &str,
        arguments: impl IntoIterator<Item = I>,
    ) -> Self {
        let mut child = child::start(
            Command::new(interpreter)
                .args(["-E", "-s", "-c", program])
                .args(arguments)
                .env("LC_ALL", "C.UTF-8")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        );
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap)
            .take_while(|line| !line.is_empty());
        let version = lines.next().unwrap();
        let mut threads = BTreeMap::new();
        let mut last = None;
        for line in lines {
            if let Some(head) = line.strip_prefix("thread\t") {
                let mut words = head.split('\t');
                let id = words.next().unwrap().parse().unwrap();
                let name = words.next().unwrap();
                let scenario = words.next().unwrap();
                let thread = Thread {
                    name: (!name.is_empty()).then(|| name.to_owned()),
                    scenario: scenario.to_owned(),
                    frames: Vec::new(),
                };
                last = Some(id);
                assert!(threads.insert(id, thread).is_none());
            } else {
                let thread = threads.get_mut(&last.unwrap()).unwrap();
                thread.frames.push(line);
            }
        }
        Self {
            child,
            version,
            threads,
        }
    }

    /// The process.
    pub fn process(&self) -> Process {
        Process::open(self.child.id()).unwrap()
    }

    /// Reads until there are no differences; returns the last stacks with their differences.
    pub fn settle(
        &self,
        mut read: impl FnMut() -> Vec<ThreadStack>,
    ) -> (Vec<ThreadStack>, Vec<String>) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let stacks = read();
            let differences = self.differences(&stacks);
            if differences.is_empty() || Instant::now() > deadline {
                return (stacks, differences);
            }
        }
    }

    /// The differences of these stacks from those of the interpreter.
    fn differences(&self, stacks: &[ThreadStack]) -> Vec<String> {
        let mut differences = Vec::new();
        for stack in stacks {
            let id = stack.thread_id;
            match self.threads.get(&id) {
                Some(thread) => differences.extend(thread.differences(stack)),
                None => differences.push(format!("there is no thread {id:#x}")),
            }
        }
        if stacks.len() != self.threads.len() {
            let (read, all) = (stacks.len(), self.threads.len());
            differences.push(format!("{read} of {all} threads were read"));
        }
        differences
    }
}

impl Drop for Scenarios {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Thread {
    fn differences(&self, stack: &ThreadStack) -> Vec<String> {
        let mut expected: Vec<&str> = self.frames.iter().map(String::as_str).collect();
        let gap = (expected.len() > MAX_FRAMES).then_some(LEAF_FRAMES);
        if gap.is_some() {
            expected.drain(LEAF_FRAMES..expected.len() - ROOT_FRAMES);
        }
        let read = show(stack);
        let mut differences = Vec::new();
        let mut differ = |what: String| differences.push(format!("{}: {what}", self.scenario));
        if stack.end != PythonUnwindStatus::COMPLETE
            || stack.gap != gap
            || read.len() != expected.len()
        {
            let (frames, all) = (read.len(), self.frames.len());
            let (end, gap) = (stack.end, stack.gap);
            differ(format!("{frames} frames of {all}, gap {gap:?}, {end:?}"));
        }
        if stack.name != self.name {
            differ(format!("its name is {:?}, not {:?}", stack.name, self.name));
        }
        for (nth, (read, expected)) in read.iter().zip(expected).enumerate() {
            if read != expected {
                differ(format!("frame {nth} is {read:?}, not {expected:?}"));
                break;
            }
        }
        differences
    }
}

/// Frames as name, file, first line and line, separated by tabs, leaf first.
pub fn show(stack: &ThreadStack) -> Vec<String> {
    let frames = stack.frames.iter();
    frames
        .map(|frame| match &frame.function {
            Some(function) => {
                let number =
                    |line: Option<NonZeroU32>| line.map_or(String::new(), |line| line.to_string());
                let (first_line, line) = (number(function.first_line), number(frame.line));
                format!("{}\t{}\t{first_line}\t{line}", function.name, function.file)
            }
            None => "?".to_owned(),
        })
        .collect()
}
