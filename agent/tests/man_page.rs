//! The manual page and the completions that the agent prints: their readers accept them, and they have
//! all that `--help` has.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::PathBuf, process::Command};

use tempfile::TempDir;
use xtask::packages;

/// Output of a command, which must succeed without a message.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{command:?}: {messages}");
    assert_eq!(messages, "", "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn agent(arguments: &[&str]) -> String {
    output(Command::new(env!("CARGO_BIN_EXE_agent")).args(arguments))
}

/// A file with what the agent prints.
fn printed(arguments: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("printed");
    fs::write(&path, agent(arguments)).unwrap();
    (folder, path)
}

/// The commands in a help.
fn commands(help: &str) -> Vec<&str> {
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    // A longer text goes on in lines that are indented more.
    let commands = lines.filter_map(|line| line.strip_prefix("  "));
    let names = commands.filter(|line| !line.starts_with(' '));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// The options that a help has anywhere.
fn options(help: &str) -> Vec<&str> {
    let words = help.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    let options = words.filter(|word| word.strip_prefix("--").is_some_and(|name| !name.is_empty()));
    options.collect()
}

#[test]
fn the_page_has_no_warnings() {
    packages::install(&["groff-base"]).unwrap();
    let (_folder, page) = printed(&["man"]);
    let mut groff = Command::new("/usr/bin/groff");
    groff.args(["-man", "-ww", "-Kutf8", "-Tutf8", "-rLL=80n", "-P-cbou"]);
    let text = output(groff.arg(page));
    assert!(text.contains("agent run"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn the_page_has_each_command_with_its_options() {
    let page = agent(&["man"]).replace("\\-", "-");
    let sections: Vec<_> = page.split("\n.SH ").collect();
    let help = agent(&["--help"]);
    for option in options(&help) {
        assert!(page.contains(option), "{option}");
    }
    let commands = commands(&help);
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let heading = format!("\"AGENT {}\"\n", command.to_uppercase());
        let section = sections.iter().find(|it| it.starts_with(&heading));
        let help = agent(&[command, "--help"]);
        for option in options(&help) {
            assert!(section.unwrap().contains(option), "{command} {option}");
        }
    }
}

#[test]
fn shells_accept_the_completions() {
    packages::install(&["bash", "fish", "zsh"]).unwrap();
    for (shell, option) in [("bash", "-n"), ("fish", "--no-execute"), ("zsh", "-n")] {
        let (_folder, script) = printed(&["completions", shell]);
        output(Command::new(shell).arg(option).arg(script));
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let (_folder, script) = printed(&["completions", "bash"]);
    let complete = |words: &str, last: usize| {
        let line = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={last}; \
             _agent agent \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{last} - 1]}}\"; \
             echo \"${{COMPREPLY[*]}}\"",
            script.display()
        );
        output(Command::new("bash").args(["--norc", "-c", &line]))
    };
    assert_eq!(complete("agent doc", 1), "doctor\n");
    assert_eq!(
        complete("agent run --log-", 2),
        "--log-level --log-format\n"
    );
    assert_eq!(complete("agent completions fi", 2), "fish\n");
}
