//! Counts what ran: each test of `cargo test`, each check of ours.
//!
//! Invariants: a failure is counted and the next check runs; the last line is always
//! `N passed, N failed`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow};
use xtask::process;

/// How many tests and checks have passed and failed so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    passed: u64,
    failed: u64,
}

impl Results {
    /// Counts one check of ours, and prints its outcome as `cargo test` would.
    pub(crate) fn check(&mut self, name: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Err(error) => {
                self.failed += 1;
                println!("test {name} ... FAILED: {error:#}");
            }
        }
    }

    /// Runs a `cargo test` command and counts its tests.
    ///
    /// # Errors
    ///
    /// When the command cannot be started; failing tests are counted instead.
    pub(crate) fn cargo_test(&mut self, command: &mut Command) -> Result<()> {
        let line = process::line(command);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run `{line}`"))?;
        let failed_before = self.failed;
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).lines() {
                let line = line?;
                println!("{line}");
                self.count(&line);
            }
        }
        let status = child.wait()?;
        if !status.success() && self.failed == failed_before {
            // It failed outside of any test, as when something does not compile.
            self.check(&line, Err(anyhow!("ended with {status}")));
        }
        Ok(())
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

    /// Prints the last line, and returns whether something ran and all of it passed.
    #[must_use]
    pub(crate) fn finish(self) -> bool {
        let Self { passed, failed } = self;
        println!("{passed} passed, {failed} failed");
        passed != 0 && failed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            results,
            Results {
                passed: 5,
                failed: 4
            }
        );
    }

    #[test]
    fn a_command_that_fails_without_a_failed_test_is_one_failure() {
        let mut results = Results::default();
        let mut compiles_not = Command::new("sh");
        compiles_not.args(["-c", "exit 101"]);
        results.cargo_test(&mut compiles_not).unwrap();
        assert_eq!(
            results,
            Results {
                passed: 0,
                failed: 1
            }
        );

        let mut fails = Command::new("sh");
        fails.args([
            "-c",
            "echo 'test result: FAILED. 1 passed; 1 failed'; exit 101",
        ]);
        results.cargo_test(&mut fails).unwrap();
        assert_eq!(
            results,
            Results {
                passed: 1,
                failed: 2
            }
        );
    }

    #[test]
    fn nothing_that_ran_is_no_success() {
        let finish = |passed, failed| Results { passed, failed }.finish();
        assert!(finish(1, 0));
        assert!(!finish(1, 1));
        assert!(!finish(0, 0));
    }
}
