//! The cookbook: its commands run, and print what it shows.
//!
//! A block of `docs/cookbook.md` whose first line is `console PROGRAM [ARGUMENT…]` has commands, each after a `$`,
//! with their output; they are run while that program of the folder `cookbook` runs. Of each line of the output that is
//! shown, one with the same words must be printed, in the same order; numbers do not count, and `...` stands for any
//! lines. To accept the present outputs, with lines left out where they are now:
//!
//! ```text
//! AGENT_BLESS=1 cargo test --release -p agent --test end_to_end -- cookbook::
//! ```
//!
//! A block of `sh` has commands of which only the options are read.

use std::{
    collections::HashMap,
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use agent::testing::{commands::check_command_line, profile};
use tempfile::TempDir;

use super::{
    machine,
    target::{Target, mortal},
};

/// What stands for the id of the process.
const PID: &str = "4711";

/// What stands for the folder of the program.
const FOLDER: &str = "/srv/shop";

/// What stands for lines that are not shown.
const LEFT_OUT: &str = "...";

/// Least share of the words of a line that must be printed, in percent.
const SAME_WORDS: usize = 70;

/// How often a command is run at most until it prints what is shown: a dump is of one moment, and what small shares
/// there are is chance.
const MOST_RUNS: usize = 3;

/// Lines of the summary, of which only the label and the first part count: which small libraries and threads there
/// are is a matter of chance.
const LISTS: [&str; 6] = [
    "CPU",
    "running",
    "waiting",
    "written",
    "libraries",
    "threads",
];

fn cookbook() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cookbook.md")
}

/// A command and its output.
#[derive(Debug)]
struct Step {
    command: String,
    shown: Vec<String>,
}

/// A part of the text.
#[derive(Debug)]
enum Part {
    /// Lines that are no commands.
    Text(Vec<String>),
    /// A program, and what is done while it runs.
    Steps(String, Vec<Step>),
    /// Commands that are only read.
    Options(Vec<String>),
}

/// The parts of a text.
fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut plain = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            plain.push(line.to_owned());
            continue;
        };
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        parts.push(Part::Text(std::mem::take(&mut plain)));
        parts.push(match info.split_once(' ') {
            Some(("console", program)) => Part::Steps(program.to_owned(), steps(&block)),
            None if info == "sh" => {
                Part::Options(block.iter().map(|&line| line.to_owned()).collect())
            }
            _ => panic!("a block is neither 'console PROGRAM' nor 'sh': {info}"),
        });
    }
    parts.push(Part::Text(plain));
    parts
}

fn steps(block: &[&str]) -> Vec<Step> {
    let mut steps = Vec::<Step>::new();
    for line in block {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push(Step {
                command: command.to_owned(),
                shown: Vec::new(),
            }),
            None => steps.last_mut().unwrap().shown.push((*line).to_owned()),
        }
    }
    steps
}

/// The text of parts.
fn text(parts: &[Part]) -> String {
    let mut lines = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => lines.extend(text.clone()),
            Part::Options(commands) => {
                lines.push("```sh".to_owned());
                lines.extend(commands.clone());
                lines.push("```".to_owned());
            }
            Part::Steps(program, steps) => {
                lines.push(format!("```console {program}"));
                for step in steps {
                    lines.push(format!("$ {}", step.command));
                    lines.extend(step.shown.clone());
                }
                lines.push("```".to_owned());
            }
        }
    }
    lines.join("\n") + "\n"
}

/// A folder with the programs, in which commands run.
struct Kitchen {
    folder: TempDir,
    path: String,
    /// Where the interpreter is installed.
    prefix: String,
}

impl Kitchen {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end/cookbook");
        for entry in fs::read_dir(programs).unwrap() {
            let file = entry.unwrap().path();
            fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
        }
        let bin = folder.path().join(".bin");
        fs::create_dir(&bin).unwrap();
        let mut interpreters = machine::interpreters().iter();
        let python = interpreters.find(|it| it.name == "3.12").unwrap();
        let wrapper = bin.join("python3");
        let script = format!("#!/bin/sh\nexec {} -B \"$@\"\n", python.path.display());
        fs::write(&wrapper, script).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        let agent = Path::new(env!("CARGO_BIN_EXE_agent")).parent().unwrap();
        let others = env::var("PATH").unwrap();
        let prefix = Command::new(&wrapper)
            .args(["-c", "import sys; print(sys.base_prefix)"])
            .output()
            .unwrap();
        let prefix = String::from_utf8(prefix.stdout).unwrap();
        Self {
            prefix: prefix.trim_end().to_owned(),
            path: format!("{}:{}:{others}", bin.display(), agent.display()),
            folder,
        }
    }

    /// Starts a program that prints `ready`; a kernel of a notebook is started as a module.
    fn start(&self, program: &str) -> Target {
        let mut words = program.split(' ');
        let file = words.next().unwrap();
        let mut command = mortal(self.folder.path().join(".bin/python3"));
        command.current_dir(self.folder.path());
        match file.strip_suffix("_launcher.py") {
            Some(name) => command.args(["-m", &format!("{name}_launcher")]),
            None => command.arg(self.folder.path().join(file)),
        };
        command.args(words);
        Target::from_command(command)
    }

    /// What a command prints, as it is shown. It must succeed.
    fn output(&self, command: &str, pid: Option<u32>) -> Vec<String> {
        let pid = pid.map_or_else(|| PID.to_owned(), |pid| pid.to_string());
        let line = command.replace(PID, &pid);
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1; {line}")])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env_remove("COLUMNS")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command}: {text}");
        let folder = self.folder.path().to_str().unwrap();
        let text = text.replace(&pid, PID).replace(folder, FOLDER);
        let text = self.with_usual_paths(&text);
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }

    /// The text with the paths of an interpreter in `/usr`, also where folders are left out.
    fn with_usual_paths(&self, text: &str) -> String {
        let mut text = text.replace(&self.prefix, "/usr");
        for (slash, _) in self.prefix.match_indices('/') {
            text = text.replace(&format!("…{}/", &self.prefix[slash..]), "…/");
        }
        text
    }
}

/// The words of a line without numbers, addresses and the bars of trends; of a path only the file, as the folders may
/// be left out.
fn words(line: &str) -> Vec<&str> {
    let is_between = |letter: char| letter.is_whitespace() || "%,;():".contains(letter);
    let words = line.split(is_between).map(|word| {
        let word = word.rsplit('/').next().unwrap_or_default();
        word.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.')
    });
    let is_word = |word: &&str| {
        let is_number = word.starts_with(|letter: char| letter.is_ascii_digit());
        !is_number && word.chars().any(char::is_alphabetic) && *word != "s"
    };
    words.filter(is_word).collect()
}

/// Whether a line that is printed is one that is shown.
fn is_same(shown: &str, printed: &str) -> bool {
    let (mut shown, printed) = (words(shown), words(printed));
    if shown.first().is_some_and(|label| LISTS.contains(label)) {
        shown.truncate(2);
    }
    let same = shown.iter().filter(|word| printed.contains(word)).count();
    shown.first() == printed.first() && 100 * same >= SAME_WORDS * shown.len()
}

/// The lines that are printed in place of those that are shown, or the first of these that is not printed.
fn matched(shown: &[String], printed: &[String]) -> Result<Vec<String>, String> {
    let mut rest = printed.iter();
    let mut matched = Vec::new();
    for line in shown {
        if line.trim() == LEFT_OUT || line.is_empty() {
            matched.push(line.clone());
            continue;
        }
        match rest.find(|printed| is_same(line, printed)) {
            Some(printed) => matched.push(printed.clone()),
            None => return Err(line.clone()),
        }
    }
    Ok(matched)
}

#[test]
fn commands_print_what_is_shown() {
    let _machine = machine::alone();
    let kitchen = Kitchen::new();
    let is_blessed = env::var_os("AGENT_BLESS").is_some_and(|value| value == "1");
    let before = fs::read_to_string(cookbook()).unwrap();
    let mut parts = parts(&before);
    assert_eq!(text(&parts), before);
    let mut running = HashMap::<String, Target>::new();
    let mut failures = Vec::new();
    for part in &mut parts {
        let Part::Steps(program, steps) = part else {
            continue;
        };
        if !running.contains_key(program) {
            // One after the other: each has the processors for itself.
            running.clear();
            if !program.starts_with("test_") {
                running.insert(program.clone(), kitchen.start(program));
            }
        }
        let pid = running.get(program).map(Target::pid);
        for step in steps {
            let mut printed = kitchen.output(&step.command, pid);
            let mut found = matched(&step.shown, &printed);
            for _ in 1..MOST_RUNS {
                if found.is_err() {
                    printed = kitchen.output(&step.command, pid);
                    found = matched(&step.shown, &printed);
                }
            }
            match found {
                Ok(lines) if is_blessed && !step.shown.is_empty() => step.shown = lines,
                _ if is_blessed => step.shown = printed,
                Ok(_) => assert!(!step.shown.is_empty(), "{} has no output", step.command),
                Err(line) => failures.push(format!(
                    "{}\ndoes not print\n{line}\nbut\n{}\n",
                    step.command,
                    printed.join("\n")
                )),
            }
        }
    }
    if is_blessed {
        fs::write(cookbook(), text(&parts)).unwrap();
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The words of a command of a shell, in which only `'` quotes, up to a pipe or a redirection.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with(['|', '>']) {
        let (word, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap(),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

#[test]
fn options_of_other_commands_are_those_of_the_agent() {
    let text = fs::read_to_string(cookbook()).unwrap();
    let blocks = parts(&text);
    let commands = blocks.iter().flat_map(|part| match part {
        Part::Options(commands) => &**commands,
        Part::Steps(..) | Part::Text(_) => &[],
    });
    let mut count = 0;
    for command in commands {
        let words = shell_words(command);
        let begin = words.iter().position(|word| word == "agent").unwrap();
        check_command_line(&words[begin + 1..])
            .unwrap_or_else(|error| panic!("{command}: {error}"));
        count += 1;
    }
    assert!(count >= 12, "{count}");
}

#[test]
fn markers_are_those_of_profiles() {
    let text = fs::read_to_string(cookbook()).unwrap();
    let (_, table) = text.split_once("| marker |").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let markers: Vec<_> = rows.map(|row| row.split_once('`').unwrap().0).collect();
    // Those that stand for frames that are missing are made while stacks are put together.
    let source = include_str!("../../src/aggregate/interleave.rs");
    for marker in &markers {
        let is_known = profile::is_state_marker(marker)
            || *marker == profile::GC_MARKER
            || source.contains(&format!("\"{marker}\""));
        assert!(is_known, "{marker}");
    }
    let waits = include_str!("../../src/profile/wait.rs");
    let (waits, _) = waits.split_once("mod tests").unwrap();
    let waits = waits
        .split('"')
        .filter(|text| text.starts_with("[waiting: "));
    let waits: Vec<_> = waits.collect();
    assert!(waits.len() > 10, "{waits:?}");
    assert!(waits.iter().all(|wait| markers.contains(wait)), "{waits:?}");
}
