//! Programs that the agent starts.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, ExitStatus},
};

use tempfile::TempDir;
use xtask::interpreters::Interpreter;

use super::{
    capture::Capture,
    folded::{Folded, Frame, names},
    machine,
    target::{mortal, workload_path},
};

/// Sampling rate, so that a tenth of a second of CPU time is about a hundred samples.
const RATE: &str = "999";

/// CPU time that the workload `short` uses in its function `spin`, in samples.
const SPUN: u64 = 100;

/// Minimum share of these samples that a profile has, in percent: on a busy machine the agent may
/// detect a program some ten milliseconds after its start.
const MIN_PERCENT: u64 = 60;

/// Maximum share, in percent: what is counted twice is more. The clock of the samples goes on while the hypervisor has
/// the processor, that of the program does not.
const MAX_PERCENT: u64 = 190;

/// A program and its arguments.
pub(crate) struct Program(pub(crate) Vec<String>);

impl Program {
    /// A workload.
    pub(crate) fn of(interpreter: &Interpreter, workload: &str, arguments: &[&str]) -> Self {
        let path = workload_path(workload);
        let mut line = vec![
            interpreter.path.to_str().unwrap().to_owned(),
            // No environment or packages of the user, and no bytecode beside the workloads.
            "-EsB".to_owned(),
            path.to_str().unwrap().to_owned(),
        ];
        line.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Self(line)
    }

    /// As a command of a shell; nothing in it needs quotes.
    pub(crate) fn line(&self) -> String {
        self.0.join(" ")
    }

    /// Runs it as a service of this name until it ends; returns its output.
    pub(crate) fn run_as(&self, service: &str) -> Vec<u8> {
        let mut command = mortal(&self.0[0]);
        command.args(&self.0[1..]).env("OTEL_SERVICE_NAME", service);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", output.status);
        output.stdout
    }

    /// Runs it under the agent until it ends; returns the exit status and its Python frames.
    pub(crate) fn profile(&self, options: &[&str]) -> (ExitStatus, Folded) {
        let (status, profile) = self.sample(options);
        (status, Folded::parse(&profile))
    }

    /// The same with all frames.
    pub(crate) fn profile_all_frames(&self, options: &[&str]) -> (ExitStatus, Folded) {
        let (status, profile) = self.sample(options);
        (status, Folded::parse_whole(&profile))
    }

    fn sample(&self, options: &[&str]) -> (ExitStatus, String) {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("profile.folded");
        let mut arguments = vec!["--rate", RATE, "--output", file.to_str().unwrap()];
        arguments.extend(options);
        arguments.push("--");
        arguments.extend(self.0.iter().map(String::as_str));
        let capture = Capture::run(&arguments);
        assert!(!capture.messages.contains("lost: "), "{}", capture.messages);
        let profile = fs::read_to_string(&file).unwrap_or_else(|_| panic!("{}", capture.messages));
        (capture.status, profile)
    }
}

/// Asserts that most of the CPU time of the workload `short` in `spin` has its complete stack.
pub(crate) fn assert_spun<'a>(stacks: impl Iterator<Item = (&'a [Frame], u64)>) {
    let complete = ["<module>", "main", "spin"];
    let spun: u64 = stacks
        .filter(|(stack, _)| names(stack).windows(3).any(|names| names == complete))
        .map(|(_, count)| count)
        .sum();
    assert!(
        (SPUN * MIN_PERCENT / 100..SPUN * MAX_PERCENT / 100).contains(&spun),
        "{spun} of {SPUN} samples"
    );
}

/// What a program that the agent starts has in its `/proc/self/status`.
fn status_of_program(command: &mut Command) -> BTreeMap<String, String> {
    let status = output_of_program(command, &["/bin/cat", "/proc/self/status"]);
    let fields = status.lines().filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

/// What a program that the agent starts prints.
fn output_of_program(command: &mut Command, program: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let output = command
        .arg("--")
        .args(program)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_program_can_have_another_user() {
    let _machine = machine::shared();
    let mut agent = Command::new(env!("CARGO_BIN_EXE_agent"));
    let status = status_of_program(agent.args(["--user", "1234:5678"]));
    assert_eq!(status["Uid"], "1234\t1234\t1234\t1234");
    assert_eq!(status["Gid"], "5678\t5678\t5678\t5678");
    assert_eq!(status["Groups"], "");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status[set], "0000000000000000", "{set}");
    }
    let mut agent = Command::new(env!("CARGO_BIN_EXE_agent"));
    let variables = output_of_program(agent.args(["--user", "www-data"]), &["/usr/bin/env"]);
    for variable in ["HOME=/var/www", "USER=www-data", "LOGNAME=www-data"] {
        assert!(variables.lines().any(|it| it == variable), "{variables}");
    }
}

#[test]
fn a_program_has_no_ambient_capabilities_of_the_agent() {
    let _machine = machine::shared();
    let capabilities = "+bpf,+perfmon,+sys_ptrace,+dac_read_search,+checkpoint_restore,+syslog";
    let mut agent = Command::new("setpriv");
    agent
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(["--inh-caps", capabilities, "--ambient-caps", capabilities])
        .arg(env!("CARGO_BIN_EXE_agent"));
    let status = status_of_program(&mut agent);
    for set in ["CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status[set], "0000000000000000", "{set}");
    }
}
