//! Programs that gdb runs and stops, and their stacks as reported by gdb.
//!
//! Invariant: while a [`Stop`] is used the program is stopped.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use xtask::tools;

use crate::child;

/// The script with which gdb reports stops.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/native/stops.py");

/// The reported registers: the general ones in the order of DWARF, then the program counter and the
/// thread pointer.
const REGISTERS: usize = 18;

/// A running gdb; a program that it started ends with it.
pub struct Debugger {
    gdb: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// A stopped program.
#[derive(Debug)]
pub struct Stop {
    /// Its process.
    pub pid: u32,
    /// Its threads.
    pub threads: Vec<Thread>,
}

/// A stopped thread.
#[derive(Debug)]
pub struct Thread {
    /// Its thread ID.
    pub tid: u32,
    /// Its general registers, by DWARF register number.
    pub registers: Vec<u64>,
    /// Its program counter.
    pub pc: u64,
    /// Its `pthread_self()`.
    pub pthread: u64,
    /// Its frames, leaf first.
    pub frames: Vec<Frame>,
    /// Why gdb stopped unwinding.
    pub end: String,
}

/// A frame as reported by gdb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its program counter.
    pub pc: u64,
    /// The address to look up: that of its call, or the one where it was interrupted.
    pub address: u64,
    /// Its function, where there is a symbol.
    pub name: String,
}

impl Debugger {
    /// Starts gdb with a program.
    pub fn of(program: &Path) -> Self {
        Self::start([program])
    }

    /// Stops a running process; it continues when the debugger is dropped.
    pub fn attach(pid: u32) -> (Self, Stop) {
        let mut debugger = Self::start([""; 0]);
        // It may have another root directory.
        let root = format!("set sysroot /proc/{pid}/root");
        let program = format!("file /proc/{pid}/exe");
        let attach = format!("attach {pid}");
        let stop = debugger.stop(&[&root, &program, &attach]).unwrap();
        (debugger, stop)
    }

    fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let mut gdb = child::start(
            tools::GDB
                .command()
                .args(["-nx", "-q", "-x", SCRIPT])
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null()),
        );
        Self {
            input: gdb.stdin.take().unwrap(),
            output: BufReader::new(gdb.stdout.take().unwrap()),
            gdb,
        }
    }

    /// Runs gdb's `commands`, after which the program must be stopped; [`None`] when it has ended.
    pub fn stop(&mut self, commands: &[&str]) -> Option<Stop> {
        let quoted: Vec<_> = commands
            .iter()
            .map(|command| format!("{command:?}"))
            .collect();
        writeln!(self.input, "python stop({})", quoted.join(", ")).unwrap();
        self.read()
    }

    /// Reads a report of gdb.
    fn read(&mut self) -> Option<Stop> {
        let mut stop = None;
        loop {
            let mut line = String::new();
            let bytes = self.output.read_line(&mut line).unwrap();
            assert_ne!(bytes, 0, "gdb has ended");
            let Some(record) = line.trim_end().strip_prefix("@ ") else {
                continue;
            };
            let (what, rest) = record.split_once(' ').unwrap_or((record, ""));
            let words: Vec<_> = rest.splitn(3, ' ').collect();
            match what {
                "done" => return stop,
                "error" => panic!("gdb: {rest}"),
                "pid" => {
                    stop = Some(Stop {
                        pid: rest.parse().unwrap(),
                        threads: Vec::new(),
                    });
                }
                "thread" => stop.as_mut().unwrap().threads.push(Thread::parse(rest)),
                "frame" => last(&mut stop).add_frame(words[0], words[1].parse().unwrap(), words[2]),
                "end" => rest.clone_into(&mut last(&mut stop).end),
                other => panic!("unexpected report of gdb: {other}"),
            }
        }
    }
}

fn last(stop: &mut Option<Stop>) -> &mut Thread {
    stop.as_mut().unwrap().threads.last_mut().unwrap()
}

impl Thread {
    fn parse(line: &str) -> Self {
        let mut numbers = line.split(' ').map(|word| word.parse::<u64>().unwrap());
        let tid = numbers.next().unwrap();
        let mut registers: Vec<_> = numbers.collect();
        assert_eq!(registers.len(), REGISTERS);
        let pthread = registers.pop().unwrap();
        let pc = registers.pop().unwrap();
        Self {
            tid: u32::try_from(tid).unwrap(),
            registers,
            pc,
            pthread,
            frames: Vec::new(),
            end: String::new(),
        }
    }

    fn add_frame(&mut self, kind: &str, pc: u64, name: &str) {
        // The kernel calls signal handlers at any instruction, other callers have made a call.
        let is_interrupted = self.frames.last().is_none_or(|inner| inner.name == SIGNAL);
        let name = if kind == "signal" { SIGNAL } else { name };
        self.frames.push(Frame {
            pc,
            address: if is_interrupted { pc } else { pc - 1 },
            name: name.to_owned(),
        });
    }
}

/// The frame that a signal handler returns to.
const SIGNAL: &str = "<signal handler called>";

impl Drop for Debugger {
    fn drop(&mut self) {
        // It fails when gdb has already ended.
        let _ = writeln!(self.input, "quit");
        let _ = self.gdb.wait();
    }
}
