//! The results of tests and checks, and how long each part took.
//!
//! Invariants: a failure is counted and the next check runs; the last line is always
//! `N passed, N failed`, and behind it what this machine cannot test. How long a part took is printed when
//! it ends too, for a run that is ended from outside.

mod failures;

use std::fmt;
use std::io::{self, BufRead as _, BufReader, PipeReader};
use std::mem;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use xtask::process;

use self::failures::Failures;

/// How long a test takes at least whose time is printed.
const LONG: Duration = Duration::from_secs(10);
/// How long tests may print nothing: longer than a test waits for anything.
const SILENCE: Duration = Duration::from_secs(15 * 60);
/// How long a line may take from a program that has ended to here.
const PASSAGE: Duration = Duration::from_secs(1);

/// A check with its name.
pub(crate) type NamedCheck<'a> = (String, Box<dyn FnOnce() -> Result<()> + Send + 'a>);

/// How many tests and checks have passed and failed so far, and what took how long.
#[derive(Debug, Default)]
pub(crate) struct Results {
    start: Start,
    passed: u64,
    failed: u64,
    failures: Failures,
    not_tested: Vec<String>,
    parts: Vec<Part>,
}

/// When a run began.
#[derive(Debug)]
struct Start(Instant);

impl Default for Start {
    fn default() -> Self {
        Self(Instant::now())
    }
}

/// A part of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: String,
    duration: Duration,
}

impl Results {
    /// Runs one check, counts it, and prints its outcome as `cargo test` would.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        let start = Instant::now();
        let outcome = check();
        self.took(name, start);
        self.count_check(name, outcome);
    }

    /// Runs checks, which are one part, `at_once` of them at a time, and counts each.
    pub(crate) fn check_together(
        &mut self,
        name: &str,
        at_once: usize,
        checks: Vec<NamedCheck<'_>>,
    ) {
        let start = Instant::now();
        let waiting = Mutex::new(checks.into_iter());
        let (sender, ended) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..at_once {
                let (waiting, sender) = (&waiting, sender.clone());
                scope.spawn(move || {
                    let next = || waiting.lock().ok()?.next();
                    while let Some((name, check)) = next() {
                        // They are received until all senders are gone.
                        let _ = sender.send((name, check()));
                    }
                });
            }
            drop(sender);
            for (name, outcome) in ended {
                self.count_check(&name, outcome);
            }
        });
        self.took(name, start);
    }

    /// Runs what checks need, which is not counted.
    pub(crate) fn step<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = step();
        self.took(name, start);
        result
    }

    /// Counts an error that keeps checks from running as a failure.
    pub(crate) fn fail(&mut self, name: &str, error: anyhow::Error) {
        self.count_check(name, Err(error));
    }

    /// Names something that this machine cannot test, in the last line.
    pub(crate) fn not_tested(&mut self, name: &str, reason: &str) {
        println!("not tested: {name}: {reason}");
        self.not_tested.push(name.to_owned());
    }

    /// Runs a `cargo test` command and counts its tests; each of its test programs is a part. Processes that
    /// the tests leave behind are a failure, and not waited for.
    ///
    /// # Errors
    ///
    /// When the command cannot be started, and when it printed nothing for [`SILENCE`], after which it is
    /// killed; failing tests are counted instead.
    pub(crate) fn cargo_test(&mut self, command: &mut Command) -> Result<()> {
        let command_line = process::line(command);
        // Both streams in one, because cargo prints the names of the programs to the one, and they
        // print their results to the other.
        let (output, input) = io::pipe()?;
        let mut child = command
            .stdout(input.try_clone()?)
            .stderr(input)
            .spawn()
            .with_context(|| format!("cannot run `{command_line}`"))?;
        // The command's own ends of the pipe would keep it open.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let before = (self.passed, self.failed);
        let mut part = "compilation of the tests".to_owned();
        let mut start = Instant::now();
        let mut last_test = start;
        let lines = lines(output);
        while let Some(line) = self.next_line(&lines, &mut child)? {
            println!("{line}");
            self.count(&line);
            self.failures.read(&line);
            if line.starts_with("test ") {
                let duration = mem::replace(&mut last_test, Instant::now()).elapsed();
                if duration >= LONG {
                    println!("  {} s since the last one ended", duration.as_secs());
                }
            }
            if let Some(program) = test_program(&line) {
                self.took(&part, start);
                part = program;
                start = Instant::now();
            }
        }
        self.took(&part, start);
        let status = child.wait()?;
        if !status.success() && self.failed == before.1 {
            // It failed outside of any test, as when something does not compile.
            self.fail(&command_line, anyhow!("{status}"));
        } else if before == (self.passed, self.failed) {
            self.fail(&command_line, anyhow!("there is no such test"));
        }
        Ok(())
    }

    /// The next line of a child and its descendants, if there is one.
    fn next_line(&mut self, lines: &Receiver<String>, child: &mut Child) -> Result<Option<String>> {
        let start = Instant::now();
        loop {
            match lines.recv_timeout(PASSAGE) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if child.try_wait()?.is_some() {
                let error =
                    anyhow!("they have the output of the tests, which have ended, still open");
                self.fail("processes_left_behind", error);
                return Ok(None);
            }
            if start.elapsed() > SILENCE {
                child.kill()?;
                child.wait()?;
                bail!(
                    "the tests are killed: they printed nothing for {} s",
                    SILENCE.as_secs()
                );
            }
        }
    }

    fn took(&mut self, name: &str, start: Instant) {
        let part = Part {
            name: name.to_owned(),
            duration: start.elapsed(),
        };
        let end = self.start.0.elapsed();
        println!("took {part}, until {}", Minutes(end));
        self.parts.push(part);
    }

    fn count_check(&mut self, name: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Err(error) => {
                self.failed += 1;
                println!("test {name} ... FAILED: {error:#}");
                self.failures.add(name, &error);
            }
        }
    }

    /// Adds a line like `test result: ok. 3 passed; 0 failed; 0 ignored; …`; others are nothing.
    fn count(&mut self, line: &str) {
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            match count.split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }

    /// Prints how long each part took, what failed and the counts, and returns whether something ran and
    /// all of it passed.
    #[must_use]
    pub(crate) fn finish(self) -> bool {
        let total = self.parts.iter().map(|part| part.duration).sum();
        println!();
        for part in &self.parts {
            println!("{part}");
        }
        let name = "total".to_owned();
        println!(
            "{}",
            Part {
                name,
                duration: total
            }
        );
        print!("{}", self.failures);
        let Self { passed, failed, .. } = self;
        print!("{passed} passed, {failed} failed");
        if !self.not_tested.is_empty() {
            print!("; not tested: {}", self.not_tested.join(", "));
        }
        println!();
        passed != 0 && failed == 0
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, duration } = self;
        write!(formatter, "{}  {name}", Minutes(*duration))
    }
}

/// A duration as minutes and seconds, in a column.
struct Minutes(Duration);

impl fmt::Display for Minutes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        write!(formatter, "{:>4}:{:02}", seconds / 60, seconds % 60)
    }
}

/// The lines that come out of a pipe, until all its ends are closed.
fn lines(output: PipeReader) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).into_owned();
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The test program that cargo starts, by a line of its messages: `Running tests/pprof.rs (target/…/pprof-1f0a)`,
/// `Running unittests src/lib.rs (target/…/agent-2e9b)` or `Doc-tests agent`.
fn test_program(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name}: documentation"));
    }
    let (source, program) = line.strip_prefix("Running ")?.split_once(" (")?;
    let program = program.rsplit('/').next()?.trim_end_matches(')');
    let (name, _) = program.rsplit_once('-')?;
    let source = source.trim_start_matches("unittests ");
    Some(format!("{name}: {source}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(results: &Results) -> (u64, u64) {
        (results.passed, results.failed)
    }

    fn names(results: &Results) -> Vec<&str> {
        results.parts.iter().map(|part| &*part.name).collect()
    }

    #[test]
    fn the_results_of_all_test_programs_add_up() {
        let mut results = Results::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
            "test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out",
            "9 passed; 9 failed",
        ] {
            results.count(line);
        }
        assert_eq!(counts(&results), (5, 4));
    }

    #[test]
    fn checks_that_run_together_are_counted_each_and_are_one_part() {
        let mut results = Results::default();
        let (sender, receiver) = mpsc::channel();
        // The first one ends only if the other runs meanwhile.
        let first = move || Ok(receiver.recv_timeout(SILENCE)?);
        let second = move || {
            sender.send(())?;
            bail!("it cannot be done");
        };
        let checks: Vec<NamedCheck<'_>> = vec![
            ("first".to_owned(), Box::new(first)),
            ("second".to_owned(), Box::new(second)),
            ("third".to_owned(), Box::new(|| Ok(()))),
        ];
        results.check_together("all", 2, checks);
        assert_eq!(counts(&results), (2, 1));
        assert_eq!(names(&results), ["all"]);
    }

    #[test]
    fn a_command_that_fails_or_runs_nothing_without_a_failed_test_is_one_failure() {
        let mut results = Results::default();
        let mut compiles_not = Command::new("sh");
        compiles_not.args(["-c", "exit 101"]);
        results.cargo_test(&mut compiles_not).unwrap();
        assert_eq!(counts(&results), (0, 1));

        let mut runs_nothing = Command::new("sh");
        runs_nothing.args(["-c", "echo 'test result: ok. 0 passed; 0 failed'"]);
        results.cargo_test(&mut runs_nothing).unwrap();
        assert_eq!(counts(&results), (0, 2));

        let mut fails = Command::new("sh");
        fails.args([
            "-c",
            "echo 'test result: FAILED. 1 passed; 1 failed'; exit 101",
        ]);
        results.cargo_test(&mut fails).unwrap();
        assert_eq!(counts(&results), (1, 3));
    }

    #[test]
    fn a_process_that_tests_leave_behind_is_a_failure_and_not_waited_for() {
        let mut results = Results::default();
        let mut tests = Command::new("sh");
        tests.args([
            "-c",
            "echo 'test result: ok. 1 passed; 0 failed'; sleep 60 &",
        ]);
        results.cargo_test(&mut tests).unwrap();
        assert_eq!(counts(&results), (1, 1));
    }

    #[test]
    fn every_test_program_is_a_part() {
        let mut results = Results::default();
        let mut tests = Command::new("sh");
        tests.args([
            "-c",
            "echo '     Running tests/pprof.rs (target/release/deps/pprof-1f0a)' >&2
             echo 'test result: ok. 3 passed; 0 failed'
             echo '   Doc-tests agent' >&2",
        ]);
        results.cargo_test(&mut tests).unwrap();
        assert_eq!(counts(&results), (3, 0));
        assert_eq!(
            names(&results),
            [
                "compilation of the tests",
                "pprof: tests/pprof.rs",
                "agent: documentation"
            ]
        );
    }

    #[test]
    fn cargos_lines_name_the_test_programs() {
        let unit = "     Running unittests src/lib.rs (target/release/deps/build_bpf-0a1b)";
        assert_eq!(test_program(unit).as_deref(), Some("build_bpf: src/lib.rs"));
        assert_eq!(test_program("running 3 tests"), None);
        assert_eq!(test_program("Running late"), None);
    }

    #[test]
    fn a_part_is_printed_with_minutes_and_seconds() {
        let part = Part {
            name: "formatting".to_owned(),
            duration: Duration::from_millis(65_900),
        };
        assert_eq!(part.to_string(), "   1:05  formatting");
    }

    #[test]
    fn nothing_that_ran_is_no_success() {
        let finish = |passed, failed| {
            Results {
                passed,
                failed,
                ..Results::default()
            }
            .finish()
        };
        assert!(finish(1, 0));
        assert!(!finish(1, 1));
        assert!(!finish(0, 0));
    }
}
