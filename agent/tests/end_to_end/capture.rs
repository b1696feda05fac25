//! Runs of the agent.

use std::{
    fs,
    io::Read,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Instant,
};

use rustix::process::{Pid, Signal, kill_process};
use test_support::child;

use super::{
    folded::Folded,
    pprof::{self, Profile},
};

/// How `/proc/PID/fdinfo` describes the link of a program to a perf event, since Linux 5.15.
const LINK_TO_EVENT: &str = "link_type:\tperf";

/// Maximum number of captures to collect enough samples.
const MOST_CAPTURES: usize = 12;

/// A finished run of the agent.
#[derive(Debug)]
pub(crate) struct Capture {
    /// Its exit status.
    pub(crate) status: ExitStatus,
    /// Its standard output.
    pub(crate) output: Vec<u8>,
    /// Its standard error.
    pub(crate) messages: String,
}

impl Capture {
    /// Runs the agent to its end.
    pub(crate) fn run(arguments: &[&str]) -> Self {
        Running::start(arguments).finish()
    }

    /// The Python frames of the folded stacks of a process, captured with additional options.
    pub(crate) fn folded(pid: u32, options: &str) -> Folded {
        Self::whole(pid, options).python()
    }

    /// The folded stacks of a process with all frames, captured with additional options.
    pub(crate) fn whole(pid: u32, options: &str) -> Folded {
        let pid = pid.to_string();
        let mut arguments = vec!["--pid", &pid, "--format", "folded", "--output", "-"];
        arguments.extend(options.split(' '));
        let capture = Self::run(&arguments);
        capture.assert_success();
        Folded::parse_whole(&String::from_utf8(capture.output).unwrap())
    }

    /// Repeats [`Self::folded`] until there are enough samples, for overloaded machines.
    pub(crate) fn folded_until(
        pid: u32,
        options: &str,
        is_enough: impl Fn(&Folded) -> bool,
    ) -> Folded {
        let mut folded = Folded::default();
        for _ in 0..MOST_CAPTURES {
            folded.add(Self::folded(pid, options));
            if is_enough(&folded) {
                break;
            }
        }
        folded
    }

    /// The pprof profile of a process, captured with additional options.
    pub(crate) fn pprof(pid: u32, options: &str) -> Profile {
        let pid = pid.to_string();
        let mut arguments = vec!["--pid", &pid, "--output", "-"];
        arguments.extend(options.split(' '));
        Self::run(&arguments).into_pprof()
    }

    /// Repeats [`Self::pprof`] until there are `least_threads` threads and stacks.
    pub(crate) fn pprof_until(pid: u32, options: &str, least_threads: usize) -> Profile {
        let mut profile = Self::pprof(pid, options);
        for _ in 1..MOST_CAPTURES {
            if profile.threads().len() >= least_threads {
                break;
            }
            profile.add(Self::pprof(pid, options));
        }
        profile
    }

    /// Its standard output as folded stacks.
    pub(crate) fn into_folded(self) -> Folded {
        self.assert_success();
        Folded::parse(&String::from_utf8(self.output).unwrap())
    }

    /// Its standard output as a pprof profile.
    pub(crate) fn into_pprof(self) -> Profile {
        let profile = self.into_pprof_of("cpu");
        for sample in &profile.samples {
            // The period of a capture does not change.
            let count = u32::try_from(sample.count).unwrap();
            assert_eq!(profile.period * count, sample.time);
        }
        profile
    }

    /// The same of another time, whose samples may be of several periods.
    pub(crate) fn into_pprof_of(self, time: &str) -> Profile {
        self.assert_success();
        pprof::read_times(&self.output, time)
    }

    /// Fails unless the agent succeeded without lost samples.
    pub(crate) fn assert_success(&self) {
        assert!(self.status.success(), "{}: {}", self.status, self.messages);
        assert!(!self.messages.contains("lost: "), "{}", self.messages);
    }
}

/// A running agent; killed on drop.
pub(crate) struct Running {
    agent: Child,
    started: Instant,
    output: Stream,
    messages: Stream,
}

impl Running {
    /// Starts the agent.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command.args(arguments);
        Self::from_command(command)
    }

    /// Starts the agent with a command.
    pub(crate) fn from_command(mut command: Command) -> Self {
        let mut agent = child::start(
            child::without_variables_of_tests(&mut command)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        Self {
            started: Instant::now(),
            output: Stream::of(agent.stdout.take().unwrap()),
            messages: Stream::of(agent.stderr.take().unwrap()),
            agent,
        }
    }

    /// Waits until it samples, that is, until it has a sampling event on each processor.
    pub(crate) fn wait_until_sampling(&mut self) {
        let processors = thread::available_parallelism().unwrap().get();
        let descriptors = format!("/proc/{}/fdinfo", self.agent.id());
        child::wait_until("the agent samples", || {
            self.assert_runs();
            let descriptors = fs::read_dir(&descriptors).unwrap().flatten();
            // One may be closed meanwhile.
            let about = descriptors.flat_map(|entry| fs::read_to_string(entry.path()));
            about.filter(|it| it.contains(LINK_TO_EVENT)).count() >= processors
        });
    }

    /// Fails with its messages if it has exited.
    pub(crate) fn assert_runs(&mut self) {
        assert!(
            !self.has_ended(),
            "the agent exited early: {}",
            self.messages.so_far()
        );
    }

    /// Its standard error until now.
    pub(crate) fn messages(&self) -> String {
        self.messages.so_far()
    }

    /// Its standard output until now.
    pub(crate) fn output(&self) -> String {
        self.output.so_far()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.agent.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.agent), signal).unwrap();
    }

    /// Whether it has exited.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.agent.try_wait().unwrap().is_some()
    }

    /// Waits until it exits; fails with its messages if it was killed at the deadline.
    pub(crate) fn finish(mut self) -> Capture {
        let status = self.agent.wait().unwrap();
        assert!(
            self.started.elapsed() < child::DEADLINE,
            "the agent did not exit; its messages: {}",
            self.messages.so_far()
        );
        Capture {
            status,
            output: self.output.rest(),
            messages: String::from_utf8(self.messages.rest()).unwrap(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has already exited.
        drop(self.agent.kill());
        drop(self.agent.wait());
    }
}

/// Bytes from a pipe, read in a thread as they arrive.
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let received = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut chunk) {
                received.lock().unwrap().extend_from_slice(&chunk[..length]);
            }
        });
        Self {
            bytes,
            reader: Some(reader),
        }
    }

    /// The bytes so far, as text.
    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// All bytes, once the pipe is closed.
    fn rest(&mut self) -> Vec<u8> {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        std::mem::take(&mut self.bytes.lock().unwrap())
    }
}
