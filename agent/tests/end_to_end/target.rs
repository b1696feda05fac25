//! Processes to profile.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use test_support::child;
use xtask::interpreters::Interpreter;

use super::folded::{Frame, stack};

/// The line that a workload prints when it is ready.
const READY: &str = "ready";

/// A running workload.
pub(crate) struct Target {
    process: Killed,
    input: ChildStdin,
    /// Open as long as the process, which may write to it.
    output: BufReader<ChildStdout>,
    pub(crate) lines: Vec<String>,
}

/// A thread and its stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ThreadStack {
    /// Its id.
    pub(crate) id: u32,
    /// Its name in Python.
    pub(crate) name: String,
    /// Its frames, root first.
    pub(crate) stack: Vec<Frame>,
}

impl Target {
    /// Runs a workload, and waits until it is ready.
    pub(crate) fn start(interpreter: &Interpreter, workload: &str) -> Self {
        Self::start_with(interpreter, workload, &[])
    }

    /// The same, with arguments.
    pub(crate) fn start_with(
        interpreter: &Interpreter,
        workload: &str,
        arguments: &[String],
    ) -> Self {
        Self::start_in(interpreter, workload, arguments, &[])
    }

    /// The same, with these environment variables.
    pub(crate) fn start_in(
        interpreter: &Interpreter,
        workload: &str,
        arguments: &[String],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = mortal(&interpreter.path);
        command.envs(environment.iter().copied());
        if environment.is_empty() {
            // No environment variables of the user.
            command.arg("-E");
        }
        command
            // No bytecode beside the workloads.
            .args(["-s", "-B"])
            .arg(workload_path(workload))
            .args(arguments);
        Self::from_command(command)
    }

    /// Runs a workload by this command, and waits until it is ready.
    pub(crate) fn from_command(mut command: Command) -> Self {
        let mut process = Killed::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut target = Self {
            input: process.0.stdin.take().unwrap(),
            output: BufReader::new(process.0.stdout.take().unwrap()),
            process,
            lines: Vec::new(),
        };
        loop {
            let mut line = String::new();
            let bytes = target.output.read_line(&mut line).unwrap();
            let lines = &target.lines;
            assert_ne!(bytes, 0, "{command:?} ended before it was ready: {lines:?}");
            if line.trim_end() == READY {
                return target;
            }
            target.lines.push(line.trim_end().to_owned());
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The threads as listed by the interpreter, by id.
    pub(crate) fn threads(&self) -> Vec<ThreadStack> {
        let mut threads: Vec<_> = self
            .lines
            .iter()
            .map(|line| {
                let mut fields = line.split('\t');
                let mut field = || fields.next().unwrap();
                ThreadStack {
                    name: field().to_owned(),
                    id: field().parse().unwrap(),
                    stack: stack(field()),
                }
            })
            .collect();
        threads.sort();
        threads
    }

    /// Kills it.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process.0), signal).unwrap();
    }

    /// Stops it, and waits until all its threads have stopped: each does so when it runs next.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        child::wait_until("all threads have stopped", || {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
            let mut stats =
                tasks.map(|task| fs::read_to_string(task.unwrap().path().join("stat")).unwrap());
            stats.all(|stat| stat.rsplit(')').next().unwrap().starts_with(" T "))
        });
    }

    /// Reads a line of its standard output, without its end.
    pub(crate) fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Writes a line to its standard input.
    pub(crate) fn send_line(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }
}

/// A process that is killed when dropped.
pub(crate) struct Killed(Child);

impl Killed {
    /// Starts a process by this command.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(child::start(command))
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it accepts connections; its messages are in the file `log`.
    pub(crate) fn wait_until_reached(&mut self, addresses: &[SocketAddr], log: &Path) {
        let is_reached = |address| TcpStream::connect(address).is_ok();
        child::wait_until("it takes connections", || {
            let end = self.0.try_wait().unwrap();
            assert!(end.is_none(), "{}", fs::read_to_string(log).unwrap());
            addresses.iter().all(is_reached)
        });
    }

    /// Waits until it runs its own program: until then a child is a copy of its parent.
    pub(crate) fn wait_until_it_runs(&self, program: &Path) {
        let link = format!("/proc/{}/exe", self.pid());
        child::wait_until("it runs its own program", || {
            fs::read_link(&link).unwrap() == program
        });
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // An error means that it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A command for a program that is killed when the test ends, even if the test crashes.
pub(crate) fn mortal(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// The source of a workload.
pub(crate) fn workload_path(workload: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/end_to_end/workloads")
        .join(workload)
        .with_extension("py")
}
