//! The manual page, from the definition of the command line: one page for all commands.
//!
//! Invariant: options and their texts are those of `--help`; nothing here repeats one.

use std::io;

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use super::flags::command;

/// The titles of the examples in the help of a command.
const EXAMPLES: [&str; 2] = ["Examples:\n", "Example:\n"];

/// What the agent reads and writes by default.
const FILES: [(&str, &str); 3] = [
    (
        "/etc/agent/agent.yaml",
        "The configuration of the service, in which every key is documented.",
    ),
    (
        "/var/lib/agent/profiles",
        "Profiles of a host, if no exporter is configured.",
    ),
    (
        "/run/agent/agent.sock",
        "Profiles of a host on demand, for root and the group agent.",
    ),
];

/// The page, for section 1.
pub fn man_page() -> io::Result<Vec<u8>> {
    let mut command = command().disable_help_subcommand(true);
    command.build();
    let main = Man::new(command.clone()).manual("User Commands");
    let mut page = Vec::new();
    main.render_title(&mut page)?;
    add(&mut page, |roff| {
        roff.control("SH", ["NAME"]);
        // One line, which `apropos` reads.
        let about = env!("CARGO_PKG_DESCRIPTION");
        roff.text([roman(format!("agent - {about}"))]);
    })?;
    main.render_synopsis_section(&mut page)?;
    main.render_description_section(&mut page)?;
    main.render_options_section(&mut page)?;
    for subcommand in command.get_subcommands() {
        add_command(&mut page, subcommand)?;
    }
    add(&mut page, |roff| {
        roff.control("SH", ["FILES"]);
        for (path, text) in FILES {
            roff.control("TP", []);
            roff.text([bold(path)]);
            roff.text([roman(text)]);
        }
        add_after_help(roff, &command, "SH");
    })?;
    Ok(page)
}

/// Adds a section with what the help of a command has.
fn add_command(page: &mut Vec<u8>, command: &Command) -> io::Result<()> {
    let name = command.get_bin_name().unwrap_or_default().to_uppercase();
    let manual = Man::new(command.clone());
    add(page, |roff| {
        roff.control("SH", [&*name]);
        if let Some(about) = command.get_about() {
            roff.text([roman(about.to_string())]);
        }
    })?;
    let mut options = Vec::new();
    manual.render_options_section(&mut options)?;
    // Its sections are parts of this one.
    for line in options.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b".SH ") {
            Some(heading) => page.extend([b".SS ", heading].concat()),
            None => page.extend(line),
        }
    }
    add(page, |roff| add_after_help(roff, command, "SS"))
}

/// Adds the text and the examples after the help of a command, with headings of this kind.
fn add_after_help(roff: &mut Roff, command: &Command, heading: &str) {
    let after = command.get_after_help().map(ToString::to_string);
    let after = after.unwrap_or_default();
    let split = EXAMPLES.iter().find_map(|title| after.split_once(title));
    let (text, examples) = split.unwrap_or((&after, ""));
    if !text.trim().is_empty() {
        roff.control("PP", []);
        roff.text([roman(text.trim())]);
    }
    if !examples.is_empty() {
        roff.control(heading, ["EXAMPLES"]);
        roff.control("nf", []);
        for line in examples.lines() {
            // The section is indented already.
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        roff.control("fi", []);
    }
}

fn add(page: &mut Vec<u8>, write: impl FnOnce(&mut Roff)) -> io::Result<()> {
    let mut roff = Roff::default();
    write(&mut roff);
    roff.to_writer(page)
}
