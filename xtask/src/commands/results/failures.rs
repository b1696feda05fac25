//! What failing tests and checks said, for the end of a run: further up it is between thousands of lines.

use std::{collections::VecDeque, fmt};

/// How many failures are repeated.
const MAX_FAILURES: usize = 30;
/// How many lines of one are repeated from its first panic on, and how many of those before it.
const MAX_LINES: usize = 6;
const MAX_LINES_BEFORE: usize = 2;
/// How many characters of a line are repeated: a stack has thousands, and those who keep only the end of an output are
/// to find each failure there.
const MAX_CHARACTERS: usize = 200;

/// What failed, bounded.
#[derive(Debug, Default)]
pub(super) struct Failures {
    first: Vec<Failure>,
    /// How many more there are.
    more: usize,
    /// The last line was of the last failure.
    is_inside: bool,
}

#[derive(Debug)]
struct Failure {
    name: String,
    before: VecDeque<String>,
    /// From the panic on.
    lines: Vec<String>,
}

impl Failures {
    /// Adds a failed check.
    pub(super) fn add(&mut self, name: &str, error: &anyhow::Error) {
        self.begin(name);
        for line in format!("{error:#}").lines() {
            self.add_line(line, true);
        }
        self.is_inside = false;
    }

    /// Reads a line of the output of a test program, which prints at its end what the tests that failed have printed,
    /// each behind `---- NAME stdout ----`, and then the names of all of them.
    pub(super) fn read(&mut self, line: &str) {
        let name = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            self.begin(name);
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.is_inside = false;
        } else if self.is_inside && !is_of_backtrace(line) {
            self.add_line(line, line.contains(" panicked at "));
        }
    }

    fn begin(&mut self, name: &str) {
        self.is_inside = self.first.len() < MAX_FAILURES;
        if self.is_inside {
            self.first.push(Failure {
                name: name.to_owned(),
                before: VecDeque::new(),
                lines: Vec::new(),
            });
        } else {
            self.more += 1;
        }
    }

    fn add_line(&mut self, line: &str, is_panic: bool) {
        let Some(failure) = self.first.last_mut().filter(|_| self.is_inside) else {
            return;
        };
        let line = line.chars().take(MAX_CHARACTERS).collect();
        if is_panic || !failure.lines.is_empty() {
            if failure.lines.len() < MAX_LINES {
                failure.lines.push(line);
            }
        } else {
            failure.before.push_back(line);
            if failure.before.len() > MAX_LINES_BEFORE {
                failure.before.pop_front();
            }
        }
    }
}

/// `  12: function`, the place below it, or the words around them.
fn is_of_backtrace(line: &str) -> bool {
    let rest = line.trim_start();
    let number = rest.split_once(": ").map(|(number, _)| number);
    rest.is_empty()
        || line.starts_with("stack backtrace:")
        || line.starts_with("note: ")
        || line.starts_with(' ') && number.is_some_and(|number| number.parse::<u32>().is_ok())
        || line.starts_with("      ") && rest.starts_with("at ")
}

impl fmt::Display for Failures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.first {
            writeln!(formatter, "failed: {}", failure.name)?;
            for line in failure.before.iter().chain(&failure.lines) {
                writeln!(formatter, "    {line}")?;
            }
        }
        if self.more != 0 {
            writeln!(formatter, "and {} more", self.more)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn what_failing_tests_print_is_repeated_without_backtraces() {
        let mut failures = Failures::default();
        let output = "\
test first ... ok
test second ... FAILED
failures:

---- second stdout ----
one
two
three
four
five

thread 'second' (7) panicked at src/lib.rs:3:5:
assertion `left == right` failed
  left: 1
 right: 2
stack backtrace:
   0: std::panicking::begin_panic_handler
             at /rustc/library/std/src/panicking.rs:1:5
note: Some details are omitted

---- third stdout ----

thread 'third' (8) panicked at src/lib.rs:9:5:
the condition never held

failures:
    second
    third

test result: FAILED. 1 passed; 2 failed";
        output.lines().for_each(|line| failures.read(line));
        failures.add("lints", &anyhow!("it is not formatted\nat all"));
        let expected = "\
failed: second
    four
    five
    thread 'second' (7) panicked at src/lib.rs:3:5:
    assertion `left == right` failed
      left: 1
     right: 2
failed: third
    thread 'third' (8) panicked at src/lib.rs:9:5:
    the condition never held
failed: lints
    it is not formatted
    at all
";
        assert_eq!(failures.to_string(), expected);
    }

    #[test]
    fn what_is_repeated_is_bounded() {
        let mut failures = Failures::default();
        for number in 0..100 {
            failures.read(&format!("---- test_{number} stdout ----"));
            for _ in 0..100 {
                failures.read(&"x".repeat(1000));
            }
            failures.read("thread panicked at src/lib.rs");
            for _ in 0..100 {
                failures.read(&"y".repeat(1000));
            }
        }
        let shown = failures.to_string();
        assert!(shown.ends_with("\nand 70 more\n"), "{shown}");
        let lines = 1 + MAX_LINES_BEFORE + MAX_LINES;
        assert_eq!(shown.lines().count(), MAX_FAILURES * lines + 1);
        let longest = shown.lines().map(str::len).max();
        assert_eq!(longest, Some(4 + MAX_CHARACTERS));
    }
}
